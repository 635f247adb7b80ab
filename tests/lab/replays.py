# SPDX-License-Identifier: MIT
"""Replays of traces in the guest, and what they leave."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from linnapp.trace import replay_log

if TYPE_CHECKING:
    from conftest import Boot
    from guest_runs import GuestResult

BLOCK = 4096
DRIVES = ("/dev/flash0", "/dev/flash1", "/dev/flash2")
ROTATING = "continuous:latency_us=3000,op=read,ratio=100%,slot_ms=50,every_ms=200,rotate"
#: The replayer writes nothing before the replay, and starts at once.
QUIET = "--quiet --prefill none --settle-ms 0"


def write_trace(path: Path, ios: Iterable[tuple[Any, str, Any, Any]]) -> Path:
    """Write a trace; an I/O consists of its time in us, action, first block and blocks."""
    with path.open("w") as file:
        file.write("fio version 3 iolog\n")
        file.writelines(f"{us} d {what} {at * BLOCK} {n * BLOCK}\n" for us, what, at, n in ios)
    return path


def write_traces(
    folder: Path, n: int, every_us: int, read_share: float, blocks_max: int = 8
) -> str:
    """Write one trace per drive; return the argument of --trace."""
    names = []
    for k in range(len(DRIVES)):
        rng = np.random.default_rng(k)
        at = np.sort(rng.integers(0, n * every_us, n))
        block = rng.integers(0, (128 << 20) // BLOCK, n)
        blocks = rng.integers(1, blocks_max + 1, n)
        action = np.where(rng.random(n) < read_share, "read", "write")
        ios = zip(at, action, block, blocks, strict=True)
        names.append(str(write_trace(folder / f"t{k}.iolog", ios)))
    return ",".join(names)


@dataclass(frozen=True)
class Replay:
    """The summary and the log of a replay, and its guest."""

    summary: dict[str, Any]
    log: NDArray[Any]
    guest: GuestResult

    def assert_right(self, io_errors: int = 0) -> None:
        """Check that no read was lost or wrong."""
        found = [self.summary[name] for name in ("data_errors", "reads_failed", "io_errors")]
        assert found == [0, 0, io_errors]


def summary(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(path.read_text())
    return parsed


def replay(
    boot: Boot,
    folder: Path,
    traces: object,
    options: str,
    *,
    devices: Iterable[str] = DRIVES,
    before: str = "",
    after: str = "",
    status: int = 0,
    **how: Any,
) -> Replay:
    """Replay traces in a guest; the replayer must end with this status."""
    result = boot(
        f"{before}\nstatus=0\n"
        f"replayer --devices {','.join(devices)} --trace {traces} {options} --json $OUT/o.json"
        f" --log $OUT/o.log || status=$?\n[ $status = {status} ]\n{after}",
        **how,
    )
    return Replay(summary(folder / "o.json"), replay_log.read(folder / "o.log"), result)
