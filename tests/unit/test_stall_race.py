# SPDX-License-Identifier: MIT
"""A drive whose only read ends while one looks is not taken for a stalled one."""

from __future__ import annotations

import os
import platform

import pytest

from eval.bench import kernel

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the shim is for x86-64"),
    pytest.mark.skipif(
        len(os.sched_getaffinity(0)) < 2, reason="two threads do not meet on one CPU"
    ),
]


def test_a_read_that_ends_meanwhile_stalls_nothing() -> None:
    kernel.run("stall_race", quiet=True)
