# SPDX-License-Identifier: MIT
"""The same policy and drives, built from Linux 6.1: KUnit, hinted reads, uname."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from linnapp.lab.array import Array

pytestmark = pytest.mark.linux61

ROOT = Path(__file__).resolve().parents[2]
KERNEL = Path(os.environ.get("LINNOS_61_KERNEL", ROOT / "build" / "linux-um-6.1" / "linux"))
LOAD = ROOT / "tests" / "qemu" / "hinted_load.py"


@pytest.fixture(autouse=True)
def _kernel_is_there() -> None:
    if not KERNEL.exists():
        pytest.fail(f"{KERNEL}: no kernel; `make kernel-6.1` builds it")


def test_kunit_suites_pass(boot) -> None:
    ran = boot(
        "uname -r",
        Array(n_drives=0),
        kernel=KERNEL,
        kernel_args=("kunit.enable=1", "kunit.filter_glob=*"),
    )
    assert ran.stdout.startswith("6.1.")
    suites = re.findall(r"# ((?:linnos|flashsim)[\w-]*): pass:(\d+) fail:(\d+)", ran.dmesg)
    assert suites, ran.dmesg[-3000:]
    assert not re.search(r"\bnot ok\b", ran.dmesg)
    for name, passed, failed in suites:
        assert int(passed) > 0 and int(failed) == 0, name


def test_hinted_reads_are_decided(boot, queue_model: Path) -> None:
    # One reader: 1 page pending is fast for the model, 16 are slow.
    ran = boot(
        f"""
        cat {queue_model} >/sys/block/flash0/linnos/model
        # Probes would let some of the slow ones through.
        echo 0 >/sys/block/flash0/linnos/probe_after_us
        echo 0 >/sys/block/flash0/linnos/probe_after_revokes
        echo enforce >/sys/block/flash0/linnos/mode
        python3 {LOAD} /dev/flash0 --fill --count 200
        python3 {LOAD} /dev/flash0 --count 200 --pages 16
        python3 {LOAD} /dev/flash0 --count 200 --pages 16 --plain
        cat /sys/block/flash0/linnos/stats/revoked
        """,
        Array(n_drives=1, size_mb=64),
        kernel=KERNEL,
    )
    *loads, revoked = ran.stdout.splitlines()
    small, big, plain = (json.loads(line) for line in loads)
    for counts in (small, big, plain):
        assert counts["wrong_data"] == counts["touched"] == 0
        assert counts["errors"] == counts["gone"] == 0
    assert small["admitted"] == plain["admitted"] == 200
    assert big["revoked"] == int(revoked) == 200
