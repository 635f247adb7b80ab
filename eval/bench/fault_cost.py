# SPDX-License-Identifier: MIT
"""The cost of the device-mapper target of fault rules for an I/O, compared with other targets."""

from __future__ import annotations

import shlex
import subprocess

from eval import debian_kernel
from eval.bench import BenchError
from eval.bench.instructions import Case, count, report
from eval.cache import ROOT

_DEVICE = "/dev/mapper/bad"
_SECTORS = 1 << 21

#: As in the tables of Miranda (2023): both patterns and sizes, for reads and writes.
OPTIONS = {
    f"{pattern} {what} of {size}": f"{option}{flag}{small}"
    for what, option in (("read", ""), ("write", " --write"))
    for pattern, flag in (("random", ""), ("sequential", " --sequential"))
    for size, small in (("4 KiB", ""), ("512 bytes", " --sector"))
}


def _target(table: str) -> str:
    return (
        f"dmsetup create bad --noudevsync --noudevrules --table '0 {_SECTORS} {table}'"
        " && dmsetup mknodes bad"
    )


def _rules(*settings: str, n: int = 1) -> str:
    """Return the commands that make enabled rules."""
    return "; ".join(
        f"dmsetup message bad 0 add r{k} {' '.join(settings)}; dmsetup message bad 0 enable r{k}"
        for k in range(n)
    )


_REMOVE = "dmsetup remove --noudevsync --noudevrules bad"
_NO_HIT = ("count", "block", "frequency", "all_after", "n", str(2**40), "fault", "zeros")
_HITS = ("count", "block", "frequency", "interval", "n", "500", "fault", "bit_flip")


def _cases(module: str) -> tuple[Case, ...]:
    ours = "linnos-faults /dev/nullb0 0"
    return (
        Case("the drive itself"),
        Case("dm-linear", _target("linear /dev/nullb0 0"), _REMOVE, _DEVICE),
        # It is up for the whole run.
        Case("dm-flakey, up", _target("flakey /dev/nullb0 0 86400 0"), _REMOVE, _DEVICE),
        Case(
            "dm-flakey, a byte of each read",
            _target("flakey /dev/nullb0 0 0 86400 5 corrupt_bio_byte 32 r 1 0"), _REMOVE, _DEVICE,
        ),
        Case("no rule", f"insmod {shlex.quote(module)}; {_target(ours)}", device=_DEVICE),
        Case("one rule, no hit", _rules(*_NO_HIT), "dmsetup message bad 0 remove r0", _DEVICE),
        Case("16 rules, no hit", _rules(*_NO_HIT, n=16), _REMOVE, _DEVICE),
        Case("one rule, every 500th", f"{_target(ours)}; {_rules(*_HITS)}", _REMOVE, _DEVICE),
        Case(
            "one rule, every one",
            f"{_target(ours)}; {_rules('count', 'block', 'frequency', 'all', 'fault', 'zeros')}",
            _REMOVE, _DEVICE,
        ),
    )  # fmt: skip


def fault_cost() -> None:
    """Instructions of reads and writes through the target of fault rules, on Debian's kernel."""
    release = debian_kernel.release(debian_kernel.image())
    built = ROOT / "build" / "module" / release
    script = str(ROOT / "kernel" / "module" / "build.sh")
    if subprocess.run([script, "--kernel", release, "--out", str(built)], check=False).returncode:
        raise BenchError(f"the modules could not be built for {release}")
    cases = _cases(str(built / "dm-linnos-faults.ko"))
    counts = count(cases, 1, modules=("dm-mod", "dm-flakey"), options=OPTIONS)
    report(
        "fault_cost", counts, cases[0].name, "the drive itself",
        lambda n, without: f"{n - without:+7.0f}",
    )  # fmt: skip
