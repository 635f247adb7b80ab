# SPDX-License-Identifier: MIT
"""Speed and cost of our own code, mostly as ratios to a reference measured in the same run.

`make bench` runs the measurements in the table of `__main__`. The modules are: `kernel`, the policy
in a program (kernel/bench); `in_kernel`, hinted reads and queries in the lab's kernel; `off_cost`,
the cost for machines that do not use LinnOS; `module_cost` and `fault_cost`, the modules on an
unpatched kernel; `ublk_cost`, the mirror as a block device compared with md; `library`, liblinnos
compared with pread(2); `agent`, a query to the agent; `training`; and `watching`, the cost of
`linnapp watch`. `stepping` and `instructions` count instructions, in the lab's kernel and in
Debian's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from eval.cache import ROOT
from linnapp.lab.work import write_json

#: The folder of the results.
OUT = ROOT / "out" / "bench"

#: The network that the policy decides with.
MODEL = ROOT / "models" / "example" / "flash0.linnos"

#: Rounds of :func:`in_turn`.
ROUNDS = 7

Found = TypeVar("Found")


class BenchError(Exception):
    """A benchmark cannot run here; the message names what is missing."""


def check_built(path: Path, target: str) -> Path:
    """Return a path, or raise an error that names the target of make that builds it."""
    if not path.exists():
        raise BenchError(f"{path} does not exist; `make {target}` builds it")
    return path


def in_turn(
    measure: Callable[[str], Found], cases: Sequence[str], rounds: int = ROUNDS
) -> dict[str, list[Found]]:
    """Measure all cases, round after round, so that other load of the machine affects all alike."""
    found: dict[str, list[Found]] = {case: [] for case in cases}
    for _ in range(rounds):
        for case in cases:
            found[case].append(measure(case))
    return found


def compare(values: Mapping[str, float], reference: Callable[[str], str], unit: str = "") -> None:
    """Print values with their ratios to the reference of each."""
    width = max(map(len, values))
    for case, value in values.items():
        other = reference(case)
        ratio = "" if other == case else f"{value / values[other]:8.2f} times {other}"
        print(f"{case:{width}} {value:10.0f}{unit}{ratio}", flush=True)


def write(name: str, result: Any) -> None:
    """Write a result into the folder of results."""
    write_json(OUT / f"{name}.json", result)
