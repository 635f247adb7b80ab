# SPDX-License-Identifier: MIT
"""The processor time of `linnapp top` at 100,000 I/Os per second.

`linnapp top` runs as a user has it, in a terminal of 120 columns and 30 lines, a look each second.
The drives are files in the place of sysfs, whose counters move on between looks as those of drives
that together serve 100,000 I/Os a second; what the kernel takes to print them is not in it, and
how many I/Os there are makes no difference but to the number of digits.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from eval.bench import OUT, BenchError
from eval.bench.watching import cpu_s
from eval.cache import ROOT
from linnapp.drive.latencies import LOWEST_US, N_BUCKETS
from linnapp.lab.work import write_json
from linnapp.stats import quantile_interval

N_DRIVES = (3, 8)
IOS_PER_S = 100_000
COLUMNS, LINES = 120, 30
#: Time until all bars are drawn; number and length of the measured periods.
WARM_UP_S, PERIODS, PERIOD_S = 5.0, 10, 3.0
#: How often counters move.
_STEP_S = 0.1


class Drives:
    """Files in the place of sysfs, of drives at work: a third is in a burst."""

    def __init__(self, root: Path, n_drives: int) -> None:
        self._rng = np.random.default_rng(1)
        self._folders = [root / "block" / f"nvme{k}n1" for k in range(n_drives)]
        self._reads = np.zeros(n_drives)
        self._read_ms = np.zeros(n_drives)
        self._counts = np.zeros((n_drives, N_BUCKETS), int)
        for folder in self._folders:
            linnos = folder / "linnos"
            (linnos / "stats").mkdir(parents=True)
            for name, text in (
                ("mode", "enforce"),
                ("model_id", "1c291ca3"),
                ("model_kind", "network"),
                ("threshold_us", "300"),
                ("probe_after_us", "10000"),
                ("probe_after_revokes", "100"),
                ("failover_us", "15"),
            ):
                (linnos / name).write_text(f"{text}\n")
        self.move(0.0)

    def move(self, seconds: float) -> None:
        """Advance the counters by this time."""
        reads = IOS_PER_S * seconds / len(self._folders) * self._rng.uniform(0.8, 1.2)
        for k, folder in enumerate(self._folders):
            mean_us = 900.0 if k % 3 == 2 else 95.0
            took_us = self._rng.lognormal(np.log(mean_us), 0.4, 100)
            self._reads[k] += reads
            self._read_ms[k] += reads * took_us.mean() / 1e3
            here = np.histogram(took_us, [*LOWEST_US, np.inf])[0]
            self._counts[k] += (here * (reads / 100)).astype(int)
            total = int(self._reads[k])
            refused = total * (0.6 if k % 3 == 2 else 0.01)
            stats = {
                "reads": total,
                "latency_critical": total,
                "admitted": total - refused,
                "revoked": refused,
                "probes": total // 500,
                "slow": total // 50,
                "false_submits": total // 100,
                "false_revokes": total // 200,
                "inferences": total,
                "inference_ns": total * 380,
            }
            linnos = folder / "linnos"
            for name, value in stats.items():
                _replace(linnos / "stats" / name, f"{int(value)}\n")
            _replace(linnos / "latency_us_histogram", " ".join(map(str, self._counts[k])) + "\n")
            times = f"{total} 0 {total * 8} {int(self._read_ms[k])} 5000 0 40000 900 9 1 1\n"
            _replace(folder / "stat", times)


def _replace(path: Path, text: str) -> None:
    # Elsewhere: in stats/ every file is a counter.
    new = path.parents[1] / f".{path.name}"
    new.write_text(text)
    new.replace(path)


@contextlib.contextmanager
def _at_work(drives: Drives) -> Iterator[None]:
    """Have the drives work meanwhile."""
    done = threading.Event()

    def work() -> None:
        last = time.monotonic()
        while not done.wait(_STEP_S):
            now = time.monotonic()
            drives.move(now - last)
            last = now

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join()


@contextlib.contextmanager
def _terminal() -> Iterator[int]:
    """A terminal of ours, whatever is written to which is thrown away."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", LINES, COLUMNS, 0, 0))

    def drain() -> None:
        with contextlib.suppress(OSError):  # the terminal has been closed
            while os.read(master, 1 << 16):
                pass

    reader = threading.Thread(target=drain)
    reader.start()
    try:
        yield slave
    finally:
        os.close(slave)
        reader.join()
        os.close(master)


def _shares(n_drives: int) -> list[float]:
    """Return the used fraction of a core in each period."""
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=in_memory) as name:
        drives = Drives(Path(name), n_drives)
        environment = {
            **{key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")},
            "LINNAPP_SYSFS": name,
            "LINNAPP_STATE": f"{name}/state",
            "TERM": "xterm-256color",
        }
        command = [sys.executable, "-m", "linnapp", "top", "--interval", "1"]
        with (
            _at_work(drives),
            _terminal() as terminal,
            subprocess.Popen(
                command,
                stdin=terminal,
                stdout=terminal,
                stderr=terminal,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
            ) as process,
        ):
            try:
                time.sleep(WARM_UP_S)
                looks = []
                for _ in range(PERIODS + 1):
                    if process.poll() is not None:
                        raise BenchError(f"linnapp top ended with status {process.returncode}")
                    looks.append((time.monotonic(), cpu_s(process.pid)))
                    time.sleep(PERIOD_S)
            finally:
                process.kill()
    return [
        (used - used_before) / (now - before)
        for (before, used_before), (now, used) in itertools.pairwise(looks)
    ]


def top() -> None:
    """Fraction of a core that `linnapp top` uses for 3 and 8 drives, 100,000 I/Os per second."""
    result: dict[str, Any] = {"ios_per_s": IOS_PER_S, "drives": {}}
    for n_drives in N_DRIVES:
        shares = _shares(n_drives)
        share = quantile_interval(shares)
        result["drives"][n_drives] = {"share_of_a_core": share.to_json(), "periods": shares}
        print(
            f"{n_drives} drives: {share.value:.2%} of a core "
            f"[{share.low:.2%}, {share.high:.2%}], a look each second",
            flush=True,
        )
    write_json(OUT / "top.json", result)
