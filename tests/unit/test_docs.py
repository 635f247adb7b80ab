# SPDX-License-Identifier: MIT
"""Examples in the documentation print what the page shows and use existing names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from linnapp.cli import cli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "insight.md"

#: Other folders in which the replayer has headers (replayer/Makefile).
HEADERS_OF_THE_REPLAYER = ("liblinnos/predictor", "kernel/flashsim", "linnapp/native", "core")


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the example's recording where the example expects it."""
    monkeypatch.chdir(ROOT)


def example() -> tuple[list[str], str]:
    """Return the command's words and its documented output."""
    lines = PAGE.read_text().split("\n## Why was this read refused?\n")[1].split("\n## ")[0]
    found = re.search(
        r"^The slowest [^\n]*\n\n```sh\nlinnapp (explain [^\n]*)\n```\n\n```text\n(.*?)^```$",
        lines, re.M | re.S,
    )  # fmt: skip
    assert found
    return found[1].split(), found[2].strip()


def test_documented_explanation_equals_the_output(recording: None) -> None:
    command, shown = example()
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == shown, "what stands in docs/insight.md is not what is printed"


def test_documented_training_equals_the_output(recording: None, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "latency-model.md").read_text()
    found = re.search(r"```sh\nlinnapp (train .*)\n```\n\n```text\n(.*?)```", page, re.S)
    assert found
    result = CliRunner().invoke(cli, found[1].replace("out/models", str(tmp_path)).split())
    assert result.exit_code == 0, result.output
    # The seconds differ. On another CPU the last bits of sums differ, and so does the model's
    # number.
    differs = re.compile(r"model [0-9a-f]{8}, [\d.]+ s")
    printed = result.output.replace(str(tmp_path), "out/models")
    assert differs.sub("", printed) == differs.sub("", found[2])


def test_example_of_a_policy_compiles(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text()
    example = re.search(r"```c\n(.*?)```", page.split("\n## Adding a policy\n")[1], re.S)
    assert example
    source = tmp_path / "last_latency.c"
    source.write_text(example[1])
    replayer = ROOT / "replayer"
    headers = [replayer, replayer / "policies", *(ROOT / name for name in HEADERS_OF_THE_REPLAYER)]
    subprocess.run(
        ["gcc", "-fsyntax-only", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra",
         "-Wno-unused-parameter", "-Werror", *(f"-I{folder}" for folder in headers), source],
        check=True,
    )  # fmt: skip


def test_one_liners_for_bpftrace_use_existing_fields() -> None:
    section = (ROOT / "docs" / "monitoring.md").read_text().split("## One-liners for bpftrace\n")[1]
    lines = re.findall(r"^bpftrace .*$", section, re.M)
    header = ROOT / "kernel" / "linnos" / "include" / "trace" / "events" / "linnos.h"
    events = header.read_text().split("\nTRACE_EVENT(")[1:]
    fields = {
        event[: event.index(",")]: set(re.findall(r"__(?:field|array)\(\w+,\s*(\w+)", event))
        for event in events
    }
    assert len(lines) == 5
    for line in lines:
        used = set(re.findall(r"args(?:->|\.)(\w+)", line))
        for event in re.findall(r"tracepoint:linnos:(\w+)", line):
            assert used <= fields[event], line


README = (ROOT / "README.md").read_text()


def one_liners() -> list[tuple[str, str]]:
    """Return commands with the output shown below each."""
    section = README.split("\n## Five one-liners\n")[1].split("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n)+", section, re.M)
    plain = [re.sub("^    ", "", block, flags=re.M).rstrip() for block in blocks]
    return list(zip(plain[::2], plain[1::2], strict=True))


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a PATH on which a shell finds `linnapp`."""
    (tmp_path / "linnapp").write_text(
        f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m linnapp "$@"\n'
    )
    (tmp_path / "linnapp").chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        pytest.param(*both, marks=pytest.mark.lab if " lab " in both[0] else ())
        for both in one_liners()
    ],
    ids=lambda text: " ".join(text.split()[:3]),
)
def test_a_one_liner_prints_what_is_shown(command: str, shown: str, path: str) -> None:
    result = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT, check=False, capture_output=True, text=True, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip().splitlines() == shown.splitlines()


def test_release_date_can_be_written_to_the_changelog() -> None:
    """`packaging/release.sh` replaces "not released" in this line."""
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert version
    assert f"\n**Version {version[1]}, not released.**\n" in (ROOT / "CHANGELOG.md").read_text()
