# SPDX-License-Identifier: MIT
"""Serve and write to a mirror of linnos-ublk until the host kills QEMU.

Runs in a guest: ``power_cut_mirror.py LOG SEED``; with a seed below 0 it checks only.
The drives keep their content from boot to boot. Their dm-flakey devices drop all writes from a
random moment on, all three replicas at once. A moment later the drive of /var/lib does the same,
and the guest asks the host to kill QEMU. LOG has a line for each flush that succeeded before that.
The next boot first checks the remaining data: see crash_mirror.py.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

from crash_mirror import (
    BLOCKS,
    DRIVE_MB,
    DRIVES,
    Load,
    Model,
    Server,
    check_served,
    differing_drives,
    run,
)

SECTORS = {**dict.fromkeys(DRIVES, DRIVE_MB << 11), "var": 64 << 11}


class LoggedModel(Model):
    """A model that also knows the versions that were durable in earlier boots."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self.has_power, self.lock = True, threading.Lock()
        for line in log.read_text().splitlines() if log.exists() else ():
            self.durable.update({int(offset): number for offset, number in json.loads(line)})
        self.acknowledged.update(self.durable)
        # Only the fact that their numbers are higher is known about later writes.
        self.issued = {offset: number + 2 * 10**6 for offset, number in self.durable.items()}
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def make_durable(self, numbers: dict[int, int]) -> None:
        with self.lock:
            if not self.has_power:
                return
            super().make_durable(numbers)
            line = json.dumps([[offset, self.durable[offset]] for offset in numbers]) + "\n"
            if os.write(self.log, line.encode()) != len(line):
                raise SystemExit("the log cannot be written")

    def lose_power(self) -> None:
        with self.lock:
            self.has_power = False


def path_of_drive(k: int) -> str:
    """Find the drive by serial number, because its name may change at each boot."""
    (serial,) = (
        path
        for path in Path("/sys/block").glob("nvme*/device/serial")
        if path.read_text().strip() == f"kept{k}"
    )
    return f"/dev/{serial.parents[1].name}"


def table(k: int, name: str, seconds_up: int) -> str:
    drops = "" if seconds_up else " 1 drop_writes"
    return (
        f"0 {SECTORS[name]} flakey {path_of_drive(k)} 0 {seconds_up} {int(not seconds_up)}{drops}"
    )


def drop_writes(names: list[str]) -> None:
    for name in names:
        run("dmsetup", "suspend", "--noudevsync", "--nolockfs", "--noflush", name)
    for name in names:
        k = list(SECTORS).index(name)
        run("dmsetup", "reload", name, "--table", table(k, name, 0))
    for name in names:
        run("dmsetup", "resume", "--noudevsync", name)


def main(log: Path, seed: int) -> None:
    chance = random.Random(seed)
    is_first = not log.exists()
    for k, name in enumerate(SECTORS):
        run("dmsetup", "create", name, "--noudevsync", "--noudevrules",
            "--table", table(k, name, 10**6))  # fmt: skip
    if is_first:
        run("mkfs.ext4", "-q", "/dev/dm-3")
    run("mount", "-t", "ext4", "/dev/dm-3", "/var/lib")
    model = LoggedModel(log)
    print("differed", differing_drives(), flush=True)
    server = Server("assume-clean" if is_first else "resync", DRIVES, "--queues", "2")
    server.wait_ready()
    print(server.messages(), flush=True)
    # The last writes before the power cut may have any number; the next ones have higher ones.
    check_served(model, DRIVES, False)
    model.issued = {offset: model.durable[offset] + 10**6 for offset in BLOCKS}
    if seed < 0:
        if server.end(15):
            raise SystemExit("the last stop was not in order")
        print("complete", flush=True)
        return
    load = Load(model, seed)
    time.sleep(0.2 + chance.random())
    model.lose_power()
    drop_writes(DRIVES)
    time.sleep(chance.random() * 0.01)
    drop_writes(["var"])
    print("writes", load.n_writes, "kill", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
