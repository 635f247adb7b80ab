# SPDX-License-Identifier: MIT
"""A key-value store whose clients wait for compactions: ``compacting_store.py FOLDER PUTS``.

As in a log-structured merge tree, clients append to a log and fill a table in memory; a thread
flushes full tables to level 0; a pool of threads compacts the files of a level into one of the
next. Nothing is sorted: a compaction reads its files and writes a new one. When level 0 has too
many files, clients wait until a compaction has removed them, and that one shares the drive with
those of the levels below, which are larger. (RocksDB's clients have their tail latency from it:
Balmau et al., "SILK", ATC 2019.)
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

N_CLIENTS, N_COMPACTORS, N_LEVELS = 4, 3, 4
VALUE = 1024
#: Bytes that are flushed at once, and bytes in memory at which clients wait.
TABLE, TOO_MUCH = 256 * VALUE, 8 * 256 * VALUE
#: Files that are compacted at once, and files of level 0 at which clients wait.
FILES, TOO_MANY = 2, 4

changed = threading.Condition()
numbers = itertools.count()
levels: list[list[str]] = [[] for _ in range(N_LEVELS)]
compacted: set[int] = set()
unflushed, puts_left, clients_left, is_flushing = 0, int(sys.argv[2]), N_CLIENTS, False


def write_table(read_names: list[str], data: bytes = b"") -> str:
    """Write a file of these files and data, and return its name."""
    name = f"{next(numbers):06}.sst"
    out = os.open(name, os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(out, data)
    for each in read_names:
        fd = os.open(each, os.O_RDONLY)
        while part := os.read(fd, 64 * 1024):
            os.write(out, part)
        os.close(fd)
        Path(each).unlink()
    os.fsync(out)
    os.close(out)
    return name


def has_room() -> bool:
    return len(levels[0]) < TOO_MANY and unflushed < TOO_MUCH


def client() -> None:
    global unflushed, puts_left, clients_left
    with changed:
        while puts_left > 0:
            changed.wait_for(has_room)
            puts_left -= 1
            unflushed += VALUE
            changed.notify_all()
            changed.release()
            os.write(log, bytes(VALUE))
            changed.acquire()
        clients_left -= 1
        changed.notify_all()


def has_table_or_ends() -> bool:
    return unflushed >= TABLE or not clients_left


def flush() -> None:
    global unflushed, is_flushing
    with changed:
        while True:
            changed.wait_for(has_table_or_ends)
            if unflushed < TABLE:
                return
            is_flushing = True
            changed.release()
            name = write_table([], bytes(TABLE))
            changed.acquire()
            is_flushing = False
            unflushed -= TABLE
            levels[0].append(name)
            changed.notify_all()


def level_to_compact() -> int | None:
    full = (i for i in range(N_LEVELS - 1) if len(levels[i]) >= FILES and i not in compacted)
    return max(full, default=None)


def has_ended() -> bool:
    return not (clients_left or is_flushing)


def compact() -> None:
    with changed:
        while True:
            changed.wait_for(lambda: has_ended() or level_to_compact() is not None)
            if (level := level_to_compact()) is None:
                return
            compacted.add(level)
            files = levels[level].copy()
            changed.release()
            name = write_table(files)
            changed.acquire()
            compacted.remove(level)
            # Level 0 counts the files until they are compacted.
            del levels[level][: len(files)]
            levels[level + 1].append(name)
            changed.notify_all()


def begin(name: str, work: Callable[[], None]) -> None:
    def named() -> None:
        ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
        work()

    threading.Thread(target=named).start()


os.chdir(sys.argv[1])
log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
for _ in range(N_CLIENTS):
    begin("client", client)
begin("flush", flush)
for i in range(N_COMPACTORS):
    begin(f"compact{i}", compact)
