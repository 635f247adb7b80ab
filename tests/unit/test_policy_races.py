# SPDX-License-Identifier: MIT
"""Concurrent reads and queries do not confuse the policy."""

from __future__ import annotations

import platform

import pytest

from eval.bench import kernel

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the shim is for x86-64")


def test_concurrent_starts_and_completions_do_not_stall() -> None:
    kernel.run("stall_race", quiet=True)


def test_concurrent_queries_do_not_lose_a_probe() -> None:
    kernel.run("probe_race", quiet=True)
