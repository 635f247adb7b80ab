# SPDX-License-Identifier: MIT
"""The policy `fastest` chooses the same drives for the reads of the shipped recordings as before.

The digests below include the choices, predicted latencies and second attempts. Only a commit that
is meant to change the policy or its models may change them, and its message says so.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import numpy as np
import pytest
from replaying import BUILT, LIBRARY

from linnapp.trace.reads import load

ROOT = Path(__file__).parents[2]
MODELS = [ROOT / "models" / "example" / "latency" / f"flash{drive}.linnos" for drive in range(3)]
N_READS = 20_000


def log_of_three_drives(recording: Path) -> str:
    """Return reads with latencies on three drives, each from another third of the recording."""
    table = load(recording)
    reads = table.select(~table.is_write)[:N_READS]
    latency_ns = reads.latency_ns.astype(np.int64)
    third = len(reads) // 3
    columns = [
        reads.arrival_ns.astype(np.int64) + 1,
        reads.sector.astype(np.int64) * 512,
        reads.size_bytes.astype(np.int64),
        *(np.roll(latency_ns, drive * third) for drive in range(3)),
    ]
    return "\n".join(" ".join(map(str, row)) for row in np.stack(columns, axis=1).tolist())


@pytest.mark.parametrize(
    ("recording", "options", "digest"),
    [
        ("fio", [], "3158171e0f72f6a4"),
        ("fio", ["-d"], "e44a5a808ff9fca4"),
        ("pgbench", [], "fff1453d95e8d08c"),
        ("pgbench", ["-d"], "fecb91f36ec5b17c"),
    ],
)
def test_choices_are_those_of_earlier_versions(
    recording: str, options: list[str], digest: str
) -> None:
    program = BUILT / "tests" / "log_choices"
    subprocess.run(
        ["make", "-s", "-C", LIBRARY, f"OUT={BUILT}", program], check=True, capture_output=True
    )
    choices = subprocess.run(
        [program, *options, *MODELS],
        input=log_of_three_drives(ROOT / "traces" / "recorded" / f"{recording}.blk.xz").encode(),
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    drive, _, second = np.array([line.split() for line in choices.splitlines()], np.int64).T
    assert len(np.unique(drive)) == 3
    assert (second >= 0).any() == bool(options)
    assert hashlib.sha256(choices).hexdigest()[:16] == digest
