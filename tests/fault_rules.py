# SPDX-License-Identifier: MIT
"""The experiment of the FISPDK thesis (Miranda, 2023): rules that damage blocks of a file.

A file of 316,672 4-KiB blocks is written while a rule is active, and read back. The tests run it on
emulated drives, and with the device-mapper target on a loop device and a mirror.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HELPER = Path(__file__).parent / "lab" / "write_and_compare.py"
THESIS_BLOCKS = 316_672

FLIP = {"type": "CORRUPTION", "corruptionPattern": "BIT_FLIP"}
ZEROS = {"type": "CORRUPTION", "corruptionPattern": "ALL_ZEROS"}
ONES = {"type": "CORRUPTION", "corruptionPattern": "ALL_ONES"}

INTERVAL = {"frequency": "INTERVAL", "nRequests": 500}

#: Frequency and fault of each rule, and the blocks of N that it damages, counted from 1.
THESIS: dict[str, Any] = {
    "INTERVAL": (INTERVAL, FLIP, lambda n: range(500, n + 1, 500)),
    "ALL": ({"frequency": "ALL"}, ZEROS, lambda n: range(1, n + 1)),
    "ALL_AFTER": ({**INTERVAL, "frequency": "ALL_AFTER"}, ONES, lambda n: range(501, n + 1)),
}


def rules(frequency: dict[str, Any], fault: dict[str, Any], op: str = "write") -> str:
    """Return a file of rules for the file /run/mnt/file."""
    entry = {
        "fileName": "/run/mnt/file",
        "faultInjection": {**frequency, "faultType": fault},
    }
    return json.dumps({op: {"files": [entry]}})


def write_thesis_rules(folder: Path) -> None:
    """Write NAME.rules for each rule of the thesis."""
    for name, (frequency, fault, _) in THESIS.items():
        (folder / f"{name}.rules").write_text(rules(frequency, fault))


def check_thesis_rule(folder: Path, name: str, n_blocks: int) -> dict[str, Any]:
    """Check NAME.json, the output of `HELPER`, and NAME.txt, that of `linnapp faults show`."""
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    _, _, damaged_of = THESIS[name]
    damaged = damaged_of(n_blocks)
    assert (found["damaged"], found["steps"]) == (len(damaged), [damaged.step]), name
    assert (found["first"], found["last"]) == (list(damaged[:3]), list(damaged[-3:])), name
    counted = f"matched={n_blocks} injected={len(damaged)}"
    assert counted in (folder / f"{name}.txt").read_text()
    return found
