# SPDX-License-Identifier: MIT
"""A decision on the stack is not cleared first, so all fields that it reports must be written."""

from __future__ import annotations

import platform

import pytest

from eval.bench import MODEL, kernel
from eval.cache import ROOT

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the shim is for x86-64")


def test_decisions_contain_no_stale_stack_data() -> None:
    latency = ROOT / "models" / "example" / "latency" / "flash1.linnos"
    kernel.run("all_written", str(latency), str(MODEL), quiet=True)
