# SPDX-License-Identifier: MIT
"""A drive whose reads begin and end while one looks is not taken for a stalled one."""

from __future__ import annotations

import platform

import pytest

from eval.bench import kernel

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the shim is for x86-64")


def test_reads_that_end_and_begin_meanwhile_stall_nothing() -> None:
    kernel.run("stall_race", quiet=True)
