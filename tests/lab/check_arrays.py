# SPDX-License-Identifier: MIT
"""md arrays of many kinds for `linnapp check`: drives, loads and stalls drawn from a seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

#: Arrays whose drives stall in turn, and arrays on which choosing a replica cannot help.
KINDS = ("in turn", "equal", "at once", "one at random", "idle")

#: Seconds of each recording; half as long as those of `linnapp check`, to save time.
SECONDS = 30


@dataclasses.dataclass(frozen=True)
class CheckedArray:
    """An array of a kind; everything else is drawn from the seed."""

    kind: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.kind.replace(' ', '-')}-{self.seed}"

    @property
    def drives(self) -> list[str]:
        """Two or three mirrors."""
        return [f"flash{k}" for k in range(2 + self.seed % 2)]

    def script(self) -> str:
        """Return shell commands for the guest that record the array into `$OUT`."""
        random = np.random.default_rng((KINDS.index(self.kind), self.seed))

        def between(low: float, high: float) -> float:
            return float(np.exp(random.uniform(np.log(low), np.log(high))))

        profile = random.choice(["enterprise", "consumer"])
        depth, jobs = random.choice([4, 8, 16, 32]), random.choice([1, 2])
        rate = between(150, 1000) if self.kind != "idle" else 2 * jobs
        size = random.choice(["4k", "4k", "8k", "16k"])
        stall_us, window_us = round(between(700, 5000)), round(between(30e3, 800e3))
        calm = random.choice([0, 1, 2])
        devices = " ".join(f"/dev/{drive}" for drive in self.drives)
        settings: list[dict[str, object]] = [{} for _ in self.drives]
        if self.kind in ("in turn", "at once"):
            every_us = round(window_us * (1 + calm / 2))
            for k in range(len(settings)):
                in_turn = {"window_turns": len(settings), "window_turn_mask": 1 << k}
                at_once = {"window_turns": 2, "window_turn_mask": 1}
                settings[k] = {
                    "pattern": "all",
                    "window_us": window_us,
                    "window_every_us": every_us,
                    **(in_turn if self.kind == "in turn" else at_once),
                }
        elif self.kind == "one at random":
            ppm = round(between(5e3, 400e3))
            settings[random.integers(len(settings))] = {"pattern": "random", "ratio_ppm": ppm}
        lines = []
        for k in range(len(settings)):
            drive = f"/sys/kernel/config/flashsim/flash{k}"
            seed = 1000 * self.seed + k
            lines += [
                f"mkdir {drive}",
                f"write_settings {drive} profile={profile} size_mb=64 seed={seed} power=1",
            ]
            if settings[k]:
                values = {**settings[k], "op": "read", "latency_us": stall_us}
                parameters = " ".join(f"{name}={value}" for name, value in values.items())
                lines.append(f"inject flash{k} arm=0 {parameters}")
        lines += [
            "mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --level=1 "
            f"--raid-devices={len(settings)} {devices} 2>/dev/null",
            *(f"inject flash{k} arm=1" for k in range(len(settings)) if settings[k]),
            f"fio --name=load --filename=/dev/md0 --rw=randread --bs={size} --direct=1 "
            f"--iodepth={depth} --numjobs={jobs} --ioengine=io_uring --rate_iops={rate / jobs:.0f} "
            f"--rate_process=poisson --time_based --runtime=1000 --randseed={self.seed} "
            "--clocksource=clock_gettime --output=/dev/null & load=$!",
            f"mkdir $OUT/{self.name}",
            f"blktrace {' '.join(f'-d {device}' for device in devices.split())} "
            f"-a queue -a requeue -a issue -a complete -w {SECONDS} -D $OUT/{self.name} >/dev/null",
            "kill $load; wait $load || true",
            "mdadm --stop /dev/md0 2>/dev/null",
            f"mdadm --zero-superblock {devices}",
        ]
        for k in range(len(settings)):
            drive = f"/sys/kernel/config/flashsim/flash{k}"
            lines += [f"echo 0 >{drive}/power", f"rmdir {drive}"]
        return "\n".join(lines) + "\n"

    def recordings(self, folder: Path) -> list[Path]:
        """Return the recordings of its mirrors in `$OUT`."""
        return [folder / self.name / drive for drive in self.drives]


def script(arrays: Sequence[CheckedArray]) -> str:
    """Return shell commands that record several arrays one after another."""
    return "".join(array.script() for array in arrays)
