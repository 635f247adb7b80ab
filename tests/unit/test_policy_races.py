# SPDX-License-Identifier: MIT
"""Concurrent queries do not confuse the policy."""

from __future__ import annotations

import platform

import pytest

from eval.bench import kernel

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the shim is for x86-64")


def test_concurrent_queries_do_not_lose_a_probe() -> None:
    kernel.run("probe_race", quiet=True)
