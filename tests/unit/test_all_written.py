# SPDX-License-Identifier: MIT
"""Nothing clears what a decision keeps on the stack: all that it tells is written before."""

from __future__ import annotations

import platform

import pytest

from eval.bench import MODEL, kernel
from eval.cache import ROOT

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the shim is for x86-64")


def test_decisions_contain_no_stale_stack_data() -> None:
    latency = ROOT / "models" / "example" / "latency" / "flash1.linnos"
    kernel.run("all_written", str(latency), str(MODEL), quiet=True)
