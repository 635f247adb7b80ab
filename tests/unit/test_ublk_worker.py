# SPDX-License-Identifier: MIT
"""linnos-ublk on a kernel without ublk: its rings and its threads."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UBLK = ROOT / "liblinnos" / "ublk"


@pytest.mark.parametrize("state", ["full", "wait"])
def test_worker_exits_with_a_message_when_its_ring_cannot_be_entered(
    tmp_path: Path, state: str
) -> None:
    program = tmp_path / "forbidden_ring"
    subprocess.run(
        ["gcc", "-D_GNU_SOURCE", "-std=gnu11", "-Wall", "-Werror", f"-I{UBLK}",
         f"-I{UBLK.parent}", f"-I{UBLK.parent}/io", f"-I{UBLK.parent}/include", "-o", program,
         UBLK / "tests" / "forbidden_ring.c", UBLK / "worker.c",
         UBLK.parent / "program" / "program.c", '-DPROGRAM="linnos-ublk"',
         '-DPROGRAM_VERSION=""', "-luring", "-pthread"],
        check=True,
    )  # fmt: skip
    ran = subprocess.run([program, state], capture_output=True, text=True, timeout=10, check=False)
    if ran.returncode == 77:
        pytest.skip("io_uring or seccomp is not available")
    assert ran.returncode == 1
    assert ran.stderr == (
        "linnos-ublk: /dev/ublkb5: queue 2 can no longer be served: io_uring_enter: "
        "Operation not permitted; the server exits without an orderly stop\n"
    )


def test_first_thread_is_created_with_pr_set_io_flusher_when_reads_are_hedged(
    tmp_path: Path,
) -> None:
    out = ROOT / "build" / "ublk"
    subprocess.run(["make", "-s", "-C", UBLK, f"OUT={out}"], check=True, capture_output=True)
    source = UBLK / "tests" / "first_thread.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "p.so", source], check=True)
    images = [tmp_path / "a", tmp_path / "b"]
    for image in images:
        image.write_bytes(bytes(1 << 20))
    ran = subprocess.run(
        [out / "linnos-ublk", "--assume-clean", "--hedge-us", "100", *images],
        env={**os.environ, "LD_PRELOAD": str(tmp_path / "p.so")},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert ran.stdout == "PR_SET_IO_FLUSHER is set\n", ran.stderr
