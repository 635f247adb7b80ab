# SPDX-License-Identifier: MIT
"""The engine chosen at boot, AVX2 or plain C, and the KUnit suites under each of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.qemu

KUNIT = ("kunit.enable=1", "kunit.filter_glob=linnos*")


def _suites(dmesg: str) -> dict[str, tuple[int, int]]:
    """(passed, failed) of each LinnOS suite in the log."""
    found = re.findall(r"# (linnos[\w-]*): pass:(\d+) fail:(\d+) skip:\d+", dmesg)
    return {name: (int(passed), int(failed)) for name, passed, failed in found}


def test_both_engines_pass_and_agree(boot_qemu, tmp_path: Path) -> None:
    # The same vectors through the engine that the processor allows; without
    # AVX2 the kernel must choose plain C.
    vectors = {}
    for engine, kernel_args in (("avx2", KUNIT), ("scalar", (*KUNIT, "clearcpuid=avx2"))):
        ran = boot_qemu(
            f"cat /sys/block/nvme0n1/linnos/engine >$OUT/{engine}",
            n_drives=1,
            kernel_args=kernel_args,
        )
        assert (tmp_path / engine).read_text().strip() == engine
        suites = _suites(ran.dmesg)
        assert suites, "no suite ran:\n" + ran.dmesg[-2000:]
        for name, (passed, failed) in suites.items():
            assert passed > 0 and failed == 0, name
        line = re.search(r"linnos_vectors: (n=\d+ crc32=[0-9a-f]{8} slow=\d+)", ran.dmesg)
        assert line, "the vectors were not run"
        vectors[engine] = line[1]
    assert vectors["avx2"] == vectors["scalar"]
