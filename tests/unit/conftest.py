# SPDX-License-Identifier: MIT
"""Fixtures shared by tests without a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from replaying import make_drives
from test_latency_log import random_log


@pytest.fixture(scope="session")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with latencies, long enough for training; tests must not change it."""
    path = tmp_path_factory.mktemp("log") / "az.trace"
    random_log(path, n=9000)
    return path


@pytest.fixture
def drives(tmp_path: Path) -> list[Path]:
    """Plain files for the replayer."""
    return make_drives(tmp_path)
