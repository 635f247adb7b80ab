# SPDX-License-Identifier: MIT
"""Run the replayer on plain files in place of drives."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnapp.trace import replay_log

REPLAYER = Path(__file__).parents[2] / "build/replayer/replayer"
#: Some of its modules are part of liblinnos.
LIBRARY = REPLAYER.parents[2] / "liblinnos"
BUILT = REPLAYER.parents[2] / "build/liblinnos"
BLOCK = 4096
DRIVE_BYTES = 8 << 20
N_DRIVES = 3

#: Seconds until a test gives up; no test waits this long otherwise.
GIVE_UP_S = 600

Io = tuple[int, str, int, int]  # microseconds, action, offset, length


def write_log(path: Path, records: NDArray[Any], n_drives: int = N_DRIVES) -> Path:
    """Write a per-I/O log as the replayer does."""
    header = np.zeros(1, replay_log.HEADER)
    header["magic"], header["version"] = replay_log.MAGIC, replay_log.VERSION
    header["record_bytes"], header["n_drives"] = replay_log.RECORD.itemsize, n_drives
    path.write_bytes(header.tobytes() + records.tobytes())
    return path


def write_trace(path: Path, ios: Iterable[Io]) -> Path:
    lines = ["fio version 3 iolog", "0 /dev/x add", "0 /dev/x open"]
    lines += [f"{at} /dev/x {action} {offset} {length}" for at, action, offset, length in ios]
    path.write_text("\n".join(lines) + "\n")
    return path


def mixed_ios(n: int, seed: int, every_us: int = 100, read_share: float = 0.7) -> list[Io]:
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, n * every_us, n))
    block = rng.integers(0, DRIVE_BYTES // BLOCK - 8, n)
    blocks = rng.integers(1, 8, n)
    action = np.where(rng.random(n) < read_share, "read", "write")
    return [
        (int(t), str(a), int(b) * BLOCK, int(c) * BLOCK)
        for t, a, b, c in zip(at, action, block, blocks, strict=True)
    ]


def command(drives: list[Path], traces: list[Path], policy: str, *options: str) -> list[str]:
    return [
        str(REPLAYER),
        "--devices", ",".join(map(str, drives)),
        "--trace", ",".join(map(str, traces)),
        "--policy", policy,
        "--settle-ms", "0",
        *options,
    ]  # fmt: skip


def replay(
    drives: list[Path], traces: list[Path], policy: str, *options: str, status: int = 0
) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        command(drives, traces, policy, *options), capture_output=True, text=True, timeout=GIVE_UP_S
    )
    assert result.returncode == status, result.stderr
    return result


def replay_summed(drives: list[Path], traces: list[Path], policy: str, *options: str) -> Any:
    """Replay, and return the summary."""
    out = drives[0].parent / "o.json"
    replay(drives, traces, policy, *options, "--json", str(out))
    return summary(out)


def replay_logged(
    drives: list[Path], traces: list[Path], policy: str, *options: str
) -> tuple[Any, NDArray[Any]]:
    """Replay, and return the summary and the log."""
    log = drives[0].parent / "o.log"
    run = replay_summed(drives, traces, policy, *options, "--log", str(log))
    return run, replay_log.read(log)


def summary(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(path.read_text())
    return parsed


def start(
    drives: list[Path], traces: list[Path], policy: str, *options: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(drives, traces, policy, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until_written(path: Path, offset: int, old: bytes) -> bytes:
    """Wait until a block of a file differs from `old`; return its content then."""
    end = time.monotonic() + GIVE_UP_S
    while time.monotonic() < end:
        with path.open("rb") as file:
            file.seek(offset)
            block = file.read(BLOCK)
        if block != old:
            return block
        time.sleep(0.01)
    raise AssertionError(f"{path}: block at {offset} was never written")


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def make_drives(folder: Path) -> list[Path]:
    """Make empty files in place of drives."""
    paths = [folder / f"drive{k}" for k in range(N_DRIVES)]
    for path in paths:
        with path.open("wb") as file:
            file.truncate(DRIVE_BYTES)
    return paths
