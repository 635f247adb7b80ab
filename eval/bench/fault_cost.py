# SPDX-License-Identifier: MIT
"""The cost of the device-mapper target of fault rules for an I/O, compared with other targets."""

from __future__ import annotations

import shlex

from eval.bench.instructions import Case, built_modules, count

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


def _rules(settings: str, n: int = 1) -> str:
    """Return the commands that make enabled rules."""
    return "; ".join(
        f"dmsetup message bad 0 add r{k} {settings}; dmsetup message bad 0 enable r{k}"
        for k in range(n)
    )


_REMOVE = "dmsetup remove --noudevsync --noudevrules bad"
_OURS = _target("linnos-faults /dev/nullb0 0")
_NO_HIT = f"count block frequency all_after n {2**40} fault zeros"
_HITS = "count block frequency interval n 500 fault bit_flip"
_ALL = "count block frequency all fault zeros"


def fault_cost() -> None:
    """Instructions of reads and writes through the target of fault rules, on Debian's kernel."""
    module = shlex.quote(str(built_modules() / "dm-linnos-faults.ko"))
    cases = [Case("the drive itself")] + [
        Case(name, begin, end, _DEVICE)
        for name, begin, end in (
            ("dm-linear", _target("linear /dev/nullb0 0"), _REMOVE),
            # It is up for the whole run.
            ("dm-flakey, up", _target("flakey /dev/nullb0 0 86400 0"), _REMOVE),
            ("dm-flakey, a byte of each read",
             _target("flakey /dev/nullb0 0 0 86400 5 corrupt_bio_byte 32 r 1 0"), _REMOVE),
            ("no rule", f"insmod {module}; {_OURS}", ":"),
            ("one rule, no hit", _rules(_NO_HIT), "dmsetup message bad 0 remove r0"),
            ("16 rules, no hit", _rules(_NO_HIT, 16), _REMOVE),
            ("one rule, every 500th", f"{_OURS}; {_rules(_HITS)}", _REMOVE),
            ("one rule, every one", f"{_OURS}; {_rules(_ALL)}", _REMOVE),
        )
    ]  # fmt: skip
    count("fault_cost", cases, 1, modules=("dm-mod", "dm-flakey"), options=OPTIONS)
