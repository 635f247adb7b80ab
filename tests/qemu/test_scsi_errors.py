# SPDX-License-Identifier: MIT
"""Failed reads of a SCSI drive do not count as answers: tests/lab_block/test_scsi_errors.sh."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from linnapp.model import Model

pytestmark = pytest.mark.qemu

BLOCK = Path(__file__).parents[1] / "lab_block"


def test_failed_reads_are_not_in_the_histogram(boot_qemu, tmp_path: Path) -> None:
    compile_it = ["gcc", "-O2", BLOCK / "lcread.c", "-o", tmp_path / "lcread", "-luring", "-laio"]
    subprocess.run(compile_it, check=True)
    Model(
        hidden_weights=np.zeros((31, 256), np.int32),
        hidden_bias=np.zeros(256, np.int32),
        output_weights=np.zeros((256, 2), np.int32),
        output_bias=np.array((1, 0), np.int64),
        threshold_us=150,
    ).save(tmp_path / "fast.linnos")
    boot_qemu(
        f"export TESTS={BLOCK} LCREAD=$OUT/lcread MODELS=$OUT\nsh {BLOCK}/test_scsi_errors.sh",
        n_drives=1,
    )
