# SPDX-License-Identifier: MIT
"""Crash a mirror of linnos-ublk at random moments, and check its state after each crash.

Runs in a guest: ``crash_mirror.py MOMENTS SEED``. Each replica is a loop device on a file of a
file system. Data that was not flushed is only in the page cache, and is lost when the file system
is shut down without its journal's last transactions. The same holds for data that was not synced
in /var/lib, which has a file system of its own. A crash does that to both and kills the server
with SIGKILL, in a varying order. Prints a JSON object with counts of the actions.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

DRIVES = ["crash0", "crash1", "crash2"]
NULLB = Path("/sys/kernel/config/nullb")
IMAGES = Path("/run/images")
LIBC = ctypes.CDLL(None, use_errno=True)
#: Four regions of 64 MiB, the last one in part.
DRIVE_MB = 208
BLOCK = 4096
#: Offsets of the blocks that are written.
SPOTS = [0, (64 << 20) - 8 * BLOCK, 100 << 20, (192 << 20) + BLOCK]
BLOCKS_PER_SPOT = 16
BLOCKS = [spot + i * BLOCK for spot in SPOTS for i in range(BLOCKS_PER_SPOT)]
N_WRITERS = 6
DEVICE = "/dev/ublkb0"
EXT4_IOC_SHUTDOWN, NOLOGFLUSH = 0x8004587D, struct.pack("I", 2)


def until(condition: Callable[[], object], what: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"timeout while waiting for {what}")
        time.sleep(0.002)


def run(*command: object) -> None:
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)


def create_drives() -> None:
    IMAGES.mkdir()
    for name, size_mb in (("images", 1000), ("var", 64)):
        (NULLB / name).mkdir()
        for attribute, value in {
            "memory_backed": 1, "size": size_mb, "blocksize": BLOCK, "irqmode": 2,
            "completion_nsec": 50_000, "hw_queue_depth": 32, "power": 1,
        }.items():  # fmt: skip
            (NULLB / name / attribute).write_text(f"{value}\n")
        until(Path(f"/dev/{name}").exists, name)
        run("mkfs.ext4", "-q", f"/dev/{name}")
    mount()
    for drive in DRIVES:
        with (IMAGES / drive).open("wb") as image:
            image.truncate(DRIVE_MB << 20)
            os.fsync(image.fileno())


def path_of(drive: str) -> str:
    """Return the path. There is no udev and no other device mapper device."""
    return f"/dev/dm-{DRIVES.index(drive)}"


def table(drive: str, target: str) -> str:
    return f"0 {DRIVE_MB << 11} {target}"


def mount() -> None:
    run("mount", "-t", "ext4", "/dev/images", IMAGES)
    run("mount", "-t", "ext4", "/dev/var", "/var/lib")


def switch_on() -> None:
    for k, drive in enumerate(DRIVES):
        run("losetup", f"/dev/loop{k}", IMAGES / drive)
        run("dmsetup", "create", drive, "--noudevsync", "--noudevrules",
            "--table", table(drive, f"linear /dev/loop{k} 0"))  # fmt: skip


def fail_drive(drive: str) -> None:
    """Make all reads and writes of the drive fail until it is switched on again."""
    run("dmsetup", "suspend", "--noudevsync", "--nolockfs", drive)
    run("dmsetup", "reload", drive, "--table", table(drive, "error"))
    run("dmsetup", "resume", "--noudevsync", drive)


def write_back_some(chance: random.Random) -> None:
    """Write back a part of the drive's cache, as a drive may do at any time."""
    for drive in DRIVES:
        fd = os.open(IMAGES / drive, os.O_RDONLY)
        for offset in chance.sample(BLOCKS, len(BLOCKS) // 4):
            # Wait for the writeback of the data, with sync_file_range(2).
            LIBC.sync_file_range(fd, ctypes.c_int64(offset), ctypes.c_int64(BLOCK), 7)
        os.close(fd)


def shut_down(folder: Path | str) -> None:
    fd = os.open(folder, os.O_RDONLY)
    fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, NOLOGFLUSH)
    os.close(fd)


def cut_power() -> None:
    """Drop all data that was not flushed. The server has been killed."""
    shut_down("/var/lib")
    shut_down(IMAGES)
    for k, drive in enumerate(DRIVES):
        run("dmsetup", "remove", "--noudevsync", "--retry", drive)
        run("losetup", "-d", f"/dev/loop{k}")
        backing = Path(f"/sys/block/loop{k}/loop/backing_file")
        until(lambda path=backing: not path.exists(), f"loop{k}")
    run("umount", "/var/lib")
    run("umount", IMAGES)
    mount()
    switch_on()


class Direct:
    """A file for direct I/O of whole blocks, with a buffer per user."""

    def __init__(self, path: str, flags: int, length: int = BLOCK) -> None:
        self.fd = os.open(path, flags | os.O_DIRECT)
        self.buffer = mmap.mmap(-1, length)

    def read(self, offset: int) -> bytes:
        n = os.preadv(self.fd, [self.buffer], offset)
        return bytes(memoryview(self.buffer)[:n])

    def write(self, block: bytes, offset: int, flags: int) -> None:
        self.buffer[:] = block
        if os.pwritev(self.fd, [self.buffer], offset, flags) != BLOCK:
            raise OSError("short write")

    def close(self) -> None:
        os.close(self.fd)


def content(offset: int, number: int) -> bytes:
    return struct.pack("<QQ", offset, number) * (BLOCK // 16)


def number_of(block: bytes, offset: int) -> int:
    at, number = struct.unpack_from("<QQ", block)
    if block == bytes(BLOCK):
        return 0
    if at != offset or block != content(offset, number):
        raise SystemExit(f"block at {offset} is torn or wrong: {block[:32].hex()}")
    return number


class Model:
    """The versions that each block may have, from the durable to the issued one."""

    def __init__(self) -> None:
        self.issued = dict.fromkeys(BLOCKS, 0)
        self.acknowledged = dict.fromkeys(BLOCKS, 0)
        self.durable = dict.fromkeys(BLOCKS, 0)

    def write(self, device: Direct, offset: int, chance: random.Random) -> None:
        self.issued[offset] += 1
        number = self.issued[offset]
        # A flush covers all earlier writes: with more flushes few crashes would lose data.
        is_fua = chance.random() < 0.02
        device.write(content(offset, number), offset, os.RWF_DSYNC if is_fua else 0)
        self.acknowledged[offset] = number
        if is_fua:
            self.make_durable({offset: number})

    def flush(self, device: Direct) -> None:
        before = dict(self.acknowledged)
        os.fsync(device.fd)
        self.make_durable(before)

    def make_durable(self, numbers: dict[int, int]) -> None:
        for offset, number in numbers.items():
            self.durable[offset] = max(self.durable[offset], number)

    def check(self, offset: int, number: int, where: str) -> None:
        if not self.durable[offset] <= number <= self.issued[offset]:
            raise SystemExit(
                f"{where}: block at {offset} has version {number}; {self.durable[offset]} was "
                f"flushed and {self.issued[offset]} is the last"
            )


class Load:
    """Writers with separate blocks, until the device fails or they are stopped."""

    def __init__(self, model: Model, seed: int) -> None:
        self.model, self.ends, self.n_writes = model, False, 0
        self.threads = [
            threading.Thread(target=self.run, args=(k, seed * 100 + k), daemon=True)
            for k in range(N_WRITERS)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, k: int, seed: int) -> None:
        chance = random.Random(seed)
        own = BLOCKS[k::N_WRITERS]
        # Some regions are written later than others.
        own = [o for o in own if chance.random() < 0.7] or own
        try:
            device = Direct(DEVICE, os.O_RDWR)
        except OSError:
            return
        try:
            while not self.ends:
                self.model.write(device, chance.choice(own), chance)
                self.n_writes += 1
                if chance.random() < 0.02:
                    self.model.flush(device)
        except OSError:
            pass
        finally:
            device.close()

    def join(self) -> None:
        self.ends = True
        for thread in self.threads:
            thread.join()


class Server:
    """A linnos-ublk that runs until it is killed or stopped."""

    def __init__(self, mode: str, drives: list[str], *options: str) -> None:
        self.err = Path("/run/server.err").open("w+")  # noqa: SIM115
        self.out = Path("/run/server.out").open("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            ["linnos-ublk", "--json", "--device", "0", "--margin", "100", "--probe-after-ms", "0",
             *options, f"--{mode}", *(path_of(d) for d in drives)],
            stdout=self.out, stderr=self.err, preexec_fn=die_with_parent,
        )  # fmt: skip

    def messages(self) -> str:
        return Path("/run/server.err").read_text()

    def wait_ready(self) -> None:
        until(
            lambda: Path("/run/server.out").read_text() or self.process.poll() is not None, "ready"
        )
        if self.process.poll() is not None:
            raise SystemExit(f"the server ended: {self.messages()}")

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        self.process.wait()
        self.err.close()
        self.out.close()
        return self.process.returncode


def die_with_parent() -> None:
    LIBC.prctl(1, signal.SIGKILL)


def refused(mode: str, drives: list[str]) -> str:
    """Return the message of linnos-ublk if it does not start, or "" if it does."""
    result = subprocess.run(
        ["timeout", "20", "linnos-ublk", "--device", "0", f"--{mode}",
         *(path_of(d) for d in drives)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return result.stderr if result.returncode == 1 else ""


def check_served(model: Model, drives: list[str], whole: bool) -> None:
    """Check that reads of the device repeat, and what each replica contains."""
    device = Direct(DEVICE, os.O_RDONLY)
    for offset in BLOCKS:
        numbers = {number_of(device.read(offset), offset) for _ in range(2 * len(DRIVES))}
        if len(numbers) != 1:
            raise SystemExit(f"reads of the block at {offset} return versions {numbers}")
        (number,) = numbers
        model.check(offset, number, DEVICE)
        # Reads have returned this version: no later crash may revert it.
        model.acknowledged[offset] = number
    model.make_durable(model.acknowledged)
    device.close()
    check_equal(drives, whole)


def check_equal(drives: list[str], whole: bool) -> None:
    step = 1 << 20
    replicas = [Direct(path_of(d), os.O_RDONLY, step) for d in drives]
    offsets = {block // step * step for block in BLOCKS}
    for offset in range(0, DRIVE_MB << 20, step) if whole else offsets:
        first, *others = (replica.read(offset) for replica in replicas)
        if any(other != first for other in others):
            raise SystemExit(f"replicas {drives} differ in the {step} bytes at {offset}")
    for replica in replicas:
        replica.close()


def writes_of_record(model: Model, offset: int, n: int) -> int:
    """Count the writes to the drive of /var/lib for N writes to the mirror at this offset."""
    device, chance = Direct(DEVICE, os.O_RDWR), random.Random(0)
    fd = os.open("/var/lib", os.O_RDONLY)
    LIBC.syncfs(fd)
    os.close(fd)
    stat = Path("/sys/block/var/stat")
    before = int(stat.read_text().split()[4])
    for _ in range(n):
        model.write(device, offset, chance)
    device.close()
    return int(stat.read_text().split()[4]) - before


def check_record_is_needed(model: Model, server: Server) -> None:
    """Check that only writes that depend on the record fail when it cannot be written."""
    device, chance = Direct(DEVICE, os.O_RDWR), random.Random(0)

    def fails(offset: int) -> bool:
        try:
            model.write(device, offset, chance)
        except OSError:
            return True
        return False

    model.write(device, BLOCKS[0], chance)
    shut_down("/var/lib")
    marked, unmarked = fails(BLOCKS[1]), fails(BLOCKS[-1])
    if marked or not unmarked or "regions that are not marked" not in server.messages():
        raise SystemExit(f"without a record writes fail: {marked} {unmarked} {server.messages()}")
    fail_drive(DRIVES[0])
    if not fails(BLOCKS[0]) or not fails(BLOCKS[1]):
        raise SystemExit("a write succeeded although a drop could not be recorded")
    if "from now on all writes fail" not in server.messages():
        raise SystemExit(server.messages())
    device.close()


def differing_drives() -> int:
    """Count the replicas that differ from the first one in any written block."""
    images = []
    for drive in DRIVES:
        replica = Direct(path_of(drive), os.O_RDONLY)
        images.append([replica.read(offset) for offset in BLOCKS])
        replica.close()
    return sum(image != images[0] for image in images[1:])


def main(n_moments: int, seed: int) -> None:
    chance = random.Random(seed)
    model = Model()
    done = dict.fromkeys(
        ("crashes", "differed", "writes", "dropped", "missing", "in_resync", "recovered",
         "refused", "stops", "copied"), 0,
    )  # fmt: skip
    create_drives()
    switch_on()
    mode, drives = "assume-clean", DRIVES
    for moment in range(n_moments):
        print(f"moment {moment}: {done}", file=sys.stderr, flush=True)
        # The first one given is the first to be copied from.
        drives = chance.sample(drives, len(drives))
        recovers = chance.random() < 0.25
        options = ["--recover"] if recovers else []
        server = Server(mode, drives, *options)
        if mode == "resync" and chance.random() < 0.2:
            # A crash during the copying of regions, or just before or after it.
            time.sleep(chance.random() * 0.3)
            server.end(signal.SIGKILL)
            if recovers:
                subprocess.run(["linnos-ublk", "--remove", "0"], capture_output=True, check=False)
            cut_power()
            done["in_resync"] += 1
            server = Server(mode, drives, *options)
        server.wait_ready()
        done["copied"] += (
            "and copied" in server.messages() and "copied 0 MiB" not in server.messages()
        )
        check_served(model, drives, moment % 10 == 9)
        load = Load(model, seed * 1000 + moment)
        time.sleep(chance.random() * 0.03)
        fails = chance.random() < 0.2
        if fails:
            fail_drive(chance.choice(drives))
            time.sleep(chance.random() * 0.02)
        if recovers:
            server.end(signal.SIGKILL)
            time.sleep(chance.random() * 0.02)
            server = Server(mode, drives, *options)
            server.wait_ready()
            done["recovered"] += 1
            time.sleep(chance.random() * 0.02)
        is_stop = chance.random() < 0.2
        if is_stop:
            load.join()
        dropped = "DROPPED" in server.messages()
        if is_stop:
            if not dropped:
                check_served(model, drives, False)
            server.end(signal.SIGTERM)
            done["stops"] += 1
        else:
            write_back_some(chance)
            # The drives of both may lose power first, or the server.
            for folder in chance.sample(["/var/lib", IMAGES], chance.randrange(3)):
                shut_down(folder)
                time.sleep(chance.random() * 0.002)
            server.end(signal.SIGKILL)
            dropped = dropped or "DROPPED" in Path("/run/server.err").read_text()
            if recovers:
                subprocess.run(["linnos-ublk", "--remove", "0"], check=True)
        load.join()
        done["writes"] += load.n_writes
        cut_power()
        done["crashes"] += 1
        done["dropped"] += dropped
        differed = differing_drives()
        done["differed"] += bool(differed)
        if differed and not is_stop:
            message = refused("assume-clean", DRIVES)
            if "linnos-ublk --resync /dev/dm-0" not in message:
                raise SystemExit(f"--assume-clean was not refused as it should be: {message}")
            done["refused"] += 1
        # The next server uses the record, with all replicas or without one.
        mode = "resync"
        missing = chance.random() < 0.2 and not dropped and len(drives) == len(DRIVES)
        drives = chance.sample(DRIVES, 2) if missing else DRIVES
        done["missing"] += missing
    server = Server("resync", DRIVES)
    server.wait_ready()
    check_served(model, DRIVES, True)
    done["record_writes_first"] = writes_of_record(model, BLOCKS[0], 1)
    done["record_writes_later"] = writes_of_record(model, BLOCKS[0], 200)
    check_record_is_needed(model, server)
    if server.end(signal.SIGTERM) != 3:
        raise SystemExit("a stop with a dropped replica was not reported")
    cut_power()
    server = Server("resync", DRIVES)
    server.wait_ready()
    check_served(model, DRIVES, True)
    if server.end(signal.SIGTERM):
        raise SystemExit("the last stop was not in order")
    server = Server("assume-clean", DRIVES)
    server.wait_ready()
    server.end(signal.SIGTERM)
    print(json.dumps(done))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
