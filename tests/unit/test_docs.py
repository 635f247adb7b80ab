# SPDX-License-Identifier: MIT
"""The examples in docs/insight.md print what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from linnapp.cli import cli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "insight.md"


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the example's recording where the example expects it."""
    monkeypatch.chdir(ROOT)


def example() -> tuple[list[str], str]:
    """Return the command's words and its documented output."""
    lines = PAGE.read_text().split("\n## Why was this read revoked?\n")[1].split("\n## ")[0]
    found = re.search(
        r"^The slowest [^\n]*\n\n```sh\nlinnapp (explain [^\n]*)\n```\n\n```text\n(.*?)^```$",
        lines, re.M | re.S,
    )  # fmt: skip
    assert found
    return found[1].split(), found[2].strip()


def test_documented_explanation_equals_the_output(recording: None) -> None:
    command, shown = example()
    ran = CliRunner().invoke(cli, command)
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.strip() == shown, "what stands in docs/insight.md is not what is printed"


def test_documented_training_equals_the_output(recording: None, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "latency-model.md").read_text()
    found = re.search(r"```sh\nlinnapp (train .*)\n```\n\n```text\n(.*?)```", page, re.S)
    assert found
    ran = CliRunner().invoke(cli, found[1].replace("out/models", str(tmp_path)).split())
    assert ran.exit_code == 0, ran.output
    # the seconds differ; of another CPU's sums the last bits, and so the model's number
    differs = re.compile(r"model [0-9a-f]{8}, [\d.]+ s")
    printed = ran.output.replace(str(tmp_path), "out/models")
    assert differs.sub("", printed) == differs.sub("", found[2])
