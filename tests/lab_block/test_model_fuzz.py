# SPDX-License-Identifier: MIT
"""Mutated model files: taken if and only if they are models, by the library and by the kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from model_fuzz import is_model, mutations

from linnapp import engine
from linnapp.errors import LinnappError

HERE = Path(__file__).parent


def test_library_takes_only_models() -> None:
    """100,000 files; the judge is slow, so it sees what was accepted and a sample of the rest."""
    taken = 0
    for i, data in enumerate(mutations(7, 100_000)):
        try:
            engine.check_kernel_accepts(data)
            accepted = True
        except LinnappError:
            accepted = False
        taken += accepted
        if accepted or i % 25 == 0:
            assert is_model(data) == accepted, f"file {i}"
    assert 1000 < taken < 50_000


@pytest.mark.lab
def test_kernel_takes_only_models(boot: Callable[..., object]) -> None:
    ran = boot(
        f"{sys.executable} {HERE / 'model_fuzz.py'} flash0 3000; dmesg | tail -n 400",
    )
    assert "3000 files" in ran.stdout
    log = [line for line in ran.stdout.splitlines() if "linnos" in line]
    assert log
    assert all("model refused: " in line for line in log)
