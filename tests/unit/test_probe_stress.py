# SPDX-License-Identifier: MIT
"""Probes of a slow drive stay few when several threads change its state concurrently."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CORE = HERE.parents[1] / "core"


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_core_admits_few_probes_under_threads(tmp_path: Path, sanitizer: str) -> None:
    program = tmp_path / "probe_stress"
    subprocess.run(
        [
            *("gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"),
            *(f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-DLINNOS_THREADS"),
            *(f"-I{CORE}", HERE / "probe_stress.c"),
            *(CORE / name for name in ("linnos_drive.c", "linnos_probe.c")),
            *("-o", program),
        ],
        check=True,
    )
    for seed in range(1, 4):
        ran = subprocess.run([program, str(seed)], capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0 and not ran.stderr, ran.stdout + ran.stderr[-3000:]
