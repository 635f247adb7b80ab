# SPDX-License-Identifier: MIT
"""Run the operations of Filebench's fileserver, webserver or varmail, or others, in the guest.

    mixes.py MIX direct|cached THREADS FILES LOOPS REST_US SEED FOLDER DRIVE REPORT

Every thread repeats the operations of its mix on its own files, with direct I/O (if the file system
allows it) or through the page cache, and pauses between repeats. The seed alone decides the file,
the size and the pause of each operation, so that runs on a slower drive do the same operations,
only later. The length, the first and the last byte of every read are checked.

DRIVE is the name of a flashsim drive, or - for a drive that is never slow. A flashsim drive is slow
from the time at which the files are written and no longer in memory until the last operation.
REPORT gets three 64-bit numbers for each operation, thread by thread: the kind (its index in
KINDS), start and latency in ns. REPORT.before and REPORT.after get the drive's counters.

Not in Filebench are filesync, a fileserver that syncs what it appends, and mixed-N: whole files are
read, N % of the time, or written again.
"""

import array
import contextlib
import mmap
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

#: I/O with O_DIRECT consists of whole blocks at multiples of a block, on every file system.
BLOCK = 4096
IO_BYTES = 1 << 20
APPEND_BYTES = 16 << 10

#: "nothing" is a call without effect, which measures the time of calling and reading the clock.
KINDS = ("create", "write", "append", "fsync", "open", "read", "close", "delete", "stat", "nothing")

#: The mean size of a file, the share of files that exist at the beginning, and the number of files
#: in a folder. If that is 0, the files of all threads are in one folder.
MIXES = {
    "fileserver": (128 << 10, 0.8, 20),
    "webserver": (16 << 10, 1.0, 20),
    "varmail": (16 << 10, 0.8, 0),
    "filesync": (128 << 10, 0.8, 20),
    "mixed": (128 << 10, 1.0, 20),
}

#: Files that a mixed-N accesses in each repeat.
MIXED_FILES = 4


def blocks_of(n_bytes: float) -> int:
    """Round a size to whole blocks, at least one."""
    return max(1, round(n_bytes / BLOCK)) * BLOCK


def arm(drive: str, on: bool, counted: str) -> None:
    """Start or stop to slow down the drive, and save its counters."""
    if drive == "-":
        return
    counters = Path(f"/sys/kernel/debug/flashsim/{drive}/counters").read_text()
    Path(counted).write_text(counters)
    Path(f"/sys/kernel/config/flashsim/{drive}/inject/arm").write_text(str(int(on)))


class Worker:
    """One thread, its files, and the latencies of its operations."""

    def __init__(
        self, mix: str, flags: int, number: int, n_files: int, folder: str, seed: str
    ) -> None:
        self.rng = random.Random(f"{seed} {number}")
        self.mix, _, reads_percent = mix.partition("-")
        self.reads_share = int(reads_percent or 0) / 100
        self.mean_bytes, share, self.width = MIXES[self.mix]
        self.number, self.folder, self.flags = number, folder, flags
        self.existing = list(range(round(n_files * share)))
        self.free = list(range(len(self.existing), n_files))
        self.size: dict[str, int] = {}
        self.buffer = mmap.mmap(-1, IO_BYTES)
        self.byte = 1 + number % 255
        self.buffer.write(bytes([self.byte]) * IO_BYTES)
        self.content = memoryview(self.buffer)
        self.came = memoryview(mmap.mmap(-1, IO_BYTES))
        self.rows = array.array("q")
        self.log_fd = -1
        self.now = 0
        self.measures_nothing = False
        self.error: Exception | None = None

    def path(self, file: int) -> str:
        if not self.width:
            return f"{self.folder}/mail-{self.number}-{file}"
        return f"{self.folder}/{self.number}-{file // self.width}/{file}"

    def draw_size(self) -> int:
        """Draw a size from Filebench's distribution, a gamma distribution of shape 1.5."""
        return blocks_of(self.rng.gammavariate(1.5, self.mean_bytes / 1.5))

    def lay_out(self) -> None:
        """Write the files that exist at the beginning, and make all folders."""
        for parent in {Path(self.path(file)).parent for file in (*self.existing, *self.free)}:
            parent.mkdir(exist_ok=True)
        for file in self.existing:
            path, left = self.path(file), self.draw_size()
            self.size[path] = left
            with Path(path).open("wb", buffering=0) as stream:
                while left:
                    left -= stream.write(self.content[: min(left, IO_BYTES)])

    def timed(self, kind: str, call: Callable[..., object], *arguments: object) -> object:
        # One operation starts at the end of the last one, so the time in between counts as well.
        start = self.now
        result = call(*arguments)
        self.now = time.monotonic_ns()
        self.rows.extend((KINDS.index(kind), start, self.now - start))
        return result

    @contextlib.contextmanager
    def opened(self, path: str, flags: int = os.O_RDWR) -> Iterator[int]:
        kind = "create" if flags & os.O_CREAT else "open"
        fd = self.timed(kind, os.open, path, flags | self.flags, 0o644)
        assert isinstance(fd, int)
        yield fd
        self.timed("close", os.close, fd)

    def write(self, kind: str, fd: int, path: str, n_bytes: int) -> None:
        def all_of_it() -> None:
            done = 0
            while done < n_bytes:
                n = min(n_bytes - done, IO_BYTES)
                done += os.pwrite(fd, self.content[:n], end + done)

        end = self.size.get(path, 0)
        self.timed(kind, all_of_it)
        self.size[path] = end + n_bytes

    def append(self, fd: int, path: str) -> None:
        self.write("append", fd, path, blocks_of(self.rng.uniform(1, APPEND_BYTES)))

    def read(self, fd: int, path: str) -> None:
        def all_of_it() -> None:
            done = 0
            while done < self.size[path]:
                n = os.preadv(fd, [self.came[: min(self.size[path] - done, IO_BYTES)]], done)
                if not n or {self.came[0], self.came[n - 1]} != {self.byte}:
                    raise OSError(f"{path}: not what was written, {n} bytes from {done} on")
                done += n

        self.timed("read", all_of_it)

    def any_existing(self) -> str:
        return self.path(self.rng.choice(self.existing))

    def new(self) -> str:
        file = self.free.pop(self.rng.randrange(len(self.free)))
        self.existing.append(file)
        return self.path(file)

    def delete(self) -> None:
        file = self.existing.pop(self.rng.randrange(len(self.existing)))
        self.free.append(file)
        path = self.path(file)
        self.timed("delete", os.unlink, path)
        del self.size[path]

    def mixed(self) -> None:
        for _ in range(MIXED_FILES):
            path = self.any_existing()
            reads = self.rng.random() < self.reads_share
            with self.opened(path) as fd:
                if reads:
                    self.read(fd, path)
                else:
                    n_bytes = self.size.pop(path)
                    self.write("write", fd, path, n_bytes)

    def filesync(self) -> None:
        self.fileserver(sync=True)

    def fileserver(self, sync: bool = False) -> None:
        path = self.new()
        with self.opened(path, os.O_RDWR | os.O_CREAT | os.O_EXCL) as fd:
            self.write("write", fd, path, self.draw_size())
        path = self.any_existing()
        with self.opened(path) as fd:
            self.append(fd, path)
            if sync:
                self.timed("fsync", os.fsync, fd)
        path = self.any_existing()
        with self.opened(path) as fd:
            self.read(fd, path)
        self.delete()
        self.timed("stat", os.stat, self.any_existing())

    def webserver(self) -> None:
        for _ in range(10):
            path = self.any_existing()
            with self.opened(path, os.O_RDONLY) as fd:
                self.read(fd, path)
        # The one file that all share; it stays open, as in Filebench.
        n_bytes = blocks_of(self.rng.uniform(1, APPEND_BYTES))
        self.timed("append", os.write, self.log_fd, self.content[:n_bytes])

    def varmail(self) -> None:
        self.delete()
        path = self.new()
        with self.opened(path, os.O_RDWR | os.O_CREAT | os.O_EXCL) as fd:
            self.append(fd, path)
            self.timed("fsync", os.fsync, fd)
        path = self.any_existing()
        with self.opened(path) as fd:
            self.read(fd, path)
            self.append(fd, path)
            self.timed("fsync", os.fsync, fd)
        path = self.any_existing()
        with self.opened(path, os.O_RDONLY) as fd:
            self.read(fd, path)

    def run(self, loops: int, rest_us: float, log_fd: int) -> None:
        self.log_fd = log_fd
        once = getattr(self, self.mix)
        try:
            for _ in range(loops):
                time.sleep(self.rng.expovariate(1 / rest_us) / 1e6)
                self.now = time.monotonic_ns()
                if self.measures_nothing:
                    self.timed("nothing", int)
                once()
        except Exception as error:
            self.error = error


def main() -> None:
    mix, cache, threads, files, loops, rest_us, seed, folder, drive, report = sys.argv[1:]
    flags = os.O_DIRECT if cache == "direct" else 0
    workers = [Worker(mix, flags, k, int(files), folder, seed) for k in range(int(threads))]
    for worker in workers:
        worker.lay_out()
        worker.measures_nothing = drive == "-"
    log_fd = -1
    if mix == "webserver":
        log_fd = os.open(f"{folder}/weblog", os.O_WRONLY | os.O_CREAT | os.O_APPEND | flags, 0o644)
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    arm(drive, True, f"{report}.before")
    runners = [
        threading.Thread(target=worker.run, args=(int(loops), float(rest_us), log_fd))
        for worker in workers
    ]
    for thread in runners:
        thread.start()
    for thread in runners:
        thread.join()
    arm(drive, False, f"{report}.after")
    for worker in workers:
        if worker.error is not None:
            sys.exit(f"thread {worker.number}: {worker.error}")
    with Path(report).open("wb") as stream:
        for worker in workers:
            worker.rows.tofile(stream)


if __name__ == "__main__":
    main()
