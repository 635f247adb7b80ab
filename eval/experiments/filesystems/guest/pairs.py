# SPDX-License-Identifier: MIT
"""Write known pairs to RocksDB, and classify what is read back. Runs in the guest.

    pairs.py write FOLDER SEED FILES BLOCKS
    pairs.py repair FOLDER
    pairs.py read FOLDER SEED FILES BLOCKS REPORT

The pairs are the blocks of blocks.py, and REPORT is as there: wrong are values that RocksDB returns
without an error. It is not written if the database cannot be opened. The library is called
directly, because `ldb scan` ends at the first error.
"""

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

from blocks import content  # type: ignore[import-not-found]

#: Small, so that most pairs are in sorted tables, which are merged, and the last in the log.
WRITE_BUFFER_BYTES = 1 << 20

_POINTERS = (
    "options_create", "writeoptions_create", "readoptions_create", "open", "get",
)  # fmt: skip


class RocksError(Exception):
    """An error that RocksDB returned."""


class Library:
    """The C interface of librocksdb."""

    def __init__(self) -> None:
        (path,) = Path("/usr/lib/x86_64-linux-gnu").glob("librocksdb.so.?.?")
        self._library = ctypes.CDLL(str(path))
        for name in _POINTERS:
            getattr(self._library, f"rocksdb_{name}").restype = ctypes.c_void_p
        self.options = self.pointer("options_create")
        self.call("options_set_create_if_missing", self.options, 1)
        self.call("options_set_compression", self.options, 0)
        self.call("options_set_write_buffer_size", self.options, WRITE_BUFFER_BYTES)

    def call(self, name: str, *arguments: Any) -> Any:
        return getattr(self._library, f"rocksdb_{name}")(*arguments)

    def pointer(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.call(name, *arguments))

    def checked(self, name: str, *arguments: Any) -> Any:
        """Call a function that returns errors in its last argument."""
        error = ctypes.c_char_p()
        result = self.call(name, *arguments, ctypes.byref(error))
        if error.value is not None:
            raise RocksError(error.value.decode(errors="replace"))
        return result


def key_of(file: int, block: int) -> bytes:
    return f"{file:06d}-{block:06d}".encode()


def write(rocks: Library, path: bytes, seed: str, n_files: int, n_blocks: int) -> None:
    """Write all pairs; RocksDB may notice the damage itself and refuse to go on."""
    db = ctypes.c_void_p(rocks.checked("open", rocks.options, path))
    options = rocks.pointer("writeoptions_create")
    try:
        for file in range(n_files):
            for block in range(n_blocks):
                key, value = key_of(file, block), content(seed, file, block)
                length = (ctypes.c_size_t(len(key)), ctypes.c_size_t(len(value)))
                rocks.checked("put", db, options, key, length[0], value, length[1])
    except RocksError as error:
        print(f"a write was refused: {error}")
    rocks.call("close", db)


def outcome(rocks: Library, db: ctypes.c_void_p, options: ctypes.c_void_p, key: bytes,
            wanted: bytes) -> str:  # fmt: skip
    """Return the class of one pair that is read back."""
    length = ctypes.c_size_t()
    try:
        value = rocks.checked(
            "get", db, options, key, ctypes.c_size_t(len(key)), ctypes.byref(length)
        )
    except RocksError:
        return "unreadable"
    if not value:
        return "missing"
    came = ctypes.string_at(value, length.value)
    rocks.call("free", ctypes.c_void_p(value))
    return "right" if came == wanted else "wrong"


def read(rocks: Library, path: bytes, seed: str, n_files: int, n_blocks: int) -> dict[str, int]:
    db = ctypes.c_void_p(rocks.checked("open", rocks.options, path))
    options = rocks.pointer("readoptions_create")
    found = dict.fromkeys(("right", "wrong", "unreadable", "missing"), 0)
    for file in range(n_files):
        for block in range(n_blocks):
            wanted = content(seed, file, block)
            found[outcome(rocks, db, options, key_of(file, block), wanted)] += 1
    rocks.call("close", db)
    return found


def main() -> None:
    what, folder, *numbers = sys.argv[1:]
    rocks, path = Library(), f"{folder}/db".encode()
    try:
        if what == "write":
            write(rocks, path, numbers[0], int(numbers[1]), int(numbers[2]))
        elif what == "repair":
            rocks.checked("repair_db", rocks.options, path)
        else:
            seed, n_files, n_blocks, report = numbers
            found = read(rocks, path, seed, int(n_files), int(n_blocks))
            Path(report).write_text(json.dumps(found))
    except RocksError as error:
        print(f"{what}: {error}")


if __name__ == "__main__":
    main()
