# SPDX-License-Identifier: MIT
"""The KUnit suites on x86-64, with several CPUs."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.qemu

KUNIT = ("kunit.enable=1", "kunit.filter_glob=linnos*")


def _suites(dmesg: str) -> dict[str, tuple[int, int]]:
    """Return (passed, failed) of each LinnOS suite in the log."""
    found = re.findall(r"# (linnos[\w-]*): pass:(\d+) fail:(\d+) skip:\d+", dmesg)
    return {name: (int(passed), int(failed)) for name, passed, failed in found}


def test_suites_pass_on_x86(boot_qemu) -> None:
    ran = boot_qemu("true", n_drives=1, kernel_args=KUNIT)
    suites = _suites(ran.dmesg)
    assert suites, "no suite ran:\n" + ran.dmesg[-2000:]
    for name, (passed, failed) in suites.items():
        assert passed > 0 and failed == 0, name
