# SPDX-License-Identifier: MIT
"""Mutated model files: library and kernel accept them if and only if they are valid."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from model_fuzz import is_model, mutations, random_model

from linnapp import engine
from linnapp.engine import parse_latency_in_c
from linnapp.errors import LinnappError
from linnapp.lab.array import Array

if TYPE_CHECKING:
    from guest_runs import GuestResult

HERE = Path(__file__).parent
#: LINNOS_FUZZ_FILES=100000 takes about ten minutes.
FILES = 3000


@pytest.mark.nightly
def test_library_takes_only_models() -> None:
    """The independent check is slow, so it sees all accepted files and a sample of the others."""
    taken = 0
    for i, data in enumerate(mutations(7, 100_000)):
        try:
            if data[8:12] == b"\2\0\0\0":
                parse_latency_in_c(data)
            else:
                engine.parse_network_in_c(data)
            accepted = True
        except LinnappError:
            accepted = False
        taken += accepted
        if accepted or i % 25 == 0:
            assert is_model(data) == accepted, f"file {i}"
    assert 1000 < taken < 50_000


@pytest.mark.lab
@pytest.mark.nightly
def test_kernel_takes_only_models(boot: Callable[..., GuestResult]) -> None:
    """Every check and the kernel's messages; LINNOS_FUZZ_FILES sets the number of files."""
    n = int(os.environ.get("LINNOS_FUZZ_FILES", FILES))
    result = boot(
        f"{sys.executable} {HERE / 'model_fuzz.py'} flash0 {n}", Array(n_drives=1, size_mb=64)
    )
    assert f"{n} files" in result.stdout


@pytest.mark.lab
def test_cut_upload_is_noticed(boot: Callable[..., GuestResult], tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    models = [tmp_path / "first.linnos", tmp_path / "second.linnos"]
    for path in models:
        path.write_bytes(random_model(rng))
    result = boot(
        f"{sys.executable} {HERE / 'cut_upload.py'} flash0 {models[0]} {models[1]}",
        Array(n_drives=1, size_mb=64),
    )
    assert len(re.findall(r"wrote model \w+, but \w+ is active", result.stdout)) == 8
    refusals = [line for line in result.dmesg.splitlines() if "model refused" in line]
    assert len(refusals) == 8, refusals
    assert all("flash0: model refused: truncated file" in line for line in refusals)
