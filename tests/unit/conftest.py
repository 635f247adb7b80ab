# SPDX-License-Identifier: MIT
"""Fixtures shared by tests without a kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fake_sysfs import FakeSysfs
from replaying import make_drives
from test_latency_log import random_log

from linnapp.cli import cli
from linnapp.errors import LinnappError

Run = Callable[..., Any]


@pytest.fixture(scope="session")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log with latencies, long enough for training; tests must not change it."""
    path = tmp_path_factory.mktemp("log") / "az.trace"
    random_log(path, n=9000)
    return path


@pytest.fixture
def drives(tmp_path: Path) -> list[Path]:
    """Return plain files for the replayer."""
    return make_drives(tmp_path)


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSysfs:
    """Make files in place of the kernel's, on which all commands for drives can run."""
    return FakeSysfs(tmp_path, monkeypatch)


@pytest.fixture
def run(sysfs: FakeSysfs) -> Run:
    """Run a linnapp command on the fake kernel."""
    return lambda *words: CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lines of the journal."""
    found: list[str] = []
    monkeypatch.setattr("syslog.syslog", lambda _, line: found.append(line))
    monkeypatch.setattr("sys.argv", ["/usr/bin/linnapp", "enable", "/dev/md0"])
    return found


@pytest.fixture(scope="session")
def can_watch() -> None:
    """Skip the test if the kernel or the user does not allow `linnapp watch`."""
    from linnapp.insight.calls import Reader
    from linnapp.insight.watch import check_can_watch

    try:
        check_can_watch()
        with Reader() as reader:
            reader.attach(1 << 20)
    except LinnappError as error:
        pytest.skip(f"this machine does not allow watching: {error}")
