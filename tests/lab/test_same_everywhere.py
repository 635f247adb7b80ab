# SPDX-License-Identifier: MIT
"""Recordings and replays are the same in any folder, for any user and any environment."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
from replays import ROTATING
from short_loop import short_scenario

from linnapp.lab import guests
from linnapp.lab.guest import REPOSITORY

pytestmark = pytest.mark.lab

#: Files that a clone needs to record and replay, built and not. A clone has kernel/build.sh.
FOLDERS = ("linnapp", "eval", "traces", "tests/lab", "kernel/build.sh")
BUILT = ("build/linux-um/linux", "build/lib", "build/replayer/replayer")

PACKAGES = Path(click.__file__).parents[1]
SHORT_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

#: The user and group `nobody`.
NOBODY = 65534


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Return a folder that other users can read, unlike pytest's folders."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def python() -> str:
    """Return an interpreter that every user can run; all runs use the same."""
    candidates = [sys.executable, "/usr/bin/python3"]
    if os.geteuid() != 0:
        return candidates[0]
    for candidate in candidates:
        check = [candidate, "-c", "import click, numpy, matplotlib"]
        environment = {"PATH": SHORT_PATH, "PYTHONPATH": str(PACKAGES)}
        try:
            subprocess.run(
                check, env=environment, cwd="/", check=True, capture_output=True,
                user=NOBODY, group=NOBODY, extra_groups=[],
            )  # fmt: skip
        except (OSError, subprocess.CalledProcessError):
            continue
        return candidate
    return candidates[0]


def clone(target: Path) -> Path:
    """Make a second clone with the binaries of this one."""
    ignored = shutil.ignore_patterns("__pycache__", "obj")
    for name in (*FOLDERS, *BUILT):
        source = REPOSITORY / name
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy2(source, target / name)
    return target


def short_loop(
    clone: Path, python: str, environment: Mapping[str, str], user: int | None = None
) -> dict[str, str]:
    """Return hashes of the output of the short loop in a clone."""
    identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    result = subprocess.run(
        [python, "tests/lab/short_loop.py", "out/short"],
        cwd=clone,
        env={**environment, "PYTHONPATH": f"{clone}:{PACKAGES}", "MPLCONFIGDIR": str(clone)},
        capture_output=True,
        text=True,
        timeout=3600,
        **identity,  # type: ignore[call-overload]
    )
    assert result.returncode == 0, result.stdout + result.stderr
    out = clone / "out" / "short"
    files = sorted([*out.glob("record/*.blk"), out / "summary.json"])
    assert len(files) == 4
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def expected(folder: Path, python: str) -> dict[str, str]:
    """Return the result in a clone with a short name and a minimal environment."""
    environment = {"PATH": SHORT_PATH, "HOME": os.environ.get("HOME", "/")}
    return short_loop(clone(folder / "a"), python, environment)


def test_result_is_the_same_in_another_folder_with_a_big_environment(
    folder: Path, python: str, expected: dict[str, str]
) -> None:
    other = clone(folder / "a folder, with more in its name than the other one" / "linnos")
    filler = {f"FILLER_{k}": "x" * 1000 for k in range(60)}
    environment = {**os.environ, **filler, "LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo"}
    assert short_loop(other, python, environment) == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_result_is_the_same_for_an_ordinary_user(
    folder: Path, python: str, expected: dict[str, str]
) -> None:
    other = clone(folder / "ordinary")
    for path in [other, *other.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    environment = {"PATH": SHORT_PATH, "HOME": str(other)}
    assert short_loop(other, python, environment, user=NOBODY) == expected


def test_commands_run_before_do_not_change_the_result(tmp_path: Path) -> None:
    """Other versions of a program, which read the clock or sleep at other times, have no effect."""
    scenario = dataclasses.replace(short_scenario(tmp_path / "workload"), inject=ROTATING)
    runs, logs = [], []
    for k, before in enumerate(["", "date; date; sleep 0.0123456; date +%N"]):
        out = tmp_path / str(k)
        runs.append(guests.replay(scenario, "hedge", out, hedge_us=300, prepare=before))
        logs.append((out / "hedge.log").read_bytes())
    assert logs[0] == logs[1] and runs[0] == runs[1]
    assert runs[0]["hedges_won"] > 0
