# SPDX-License-Identifier: MIT
"""A block device with a settable delay: a loop device over a file that FUSE serves.

Run as a program, it serves the file and keeps the data in memory. Tests compare their
measurements with the time that it reports for each request. Needs root.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# From linux/fuse.h.
_LOOKUP, _FORGET, _GETATTR, _SETATTR, _OPEN, _READ, _WRITE, _STATFS = 1, 2, 3, 4, 14, 15, 16, 17
_RELEASE, _FSYNC, _FLUSH, _INIT, _OPENDIR, _RELEASEDIR = 18, 20, 25, 26, 27, 29
_ACCESS, _INTERRUPT, _BATCH_FORGET = 34, 36, 42
_ASYNC_READ, _BIG_WRITES, _MAX_PAGES = 1 << 0, 1 << 5, 1 << 22
_DIRECT_IO = 1 << 0
_MAX_WRITE = 1 << 20
_ROOT, _FILE = 1, 2
_NAME = "image"


class SlowDrive:
    """Control of the server; see :func:`slow_drive`."""

    def __init__(self, server: subprocess.Popen[str], device: Path) -> None:
        self._server = server
        self.device = device

    def delay(self, seconds: float) -> None:
        """Delay every read and write by this time from now on."""
        self._ask(repr(seconds))

    def served(self) -> list[tuple[float, float]]:
        """Return begin and end of each read and write since the last call.

        Times are in seconds since the epoch, and no two requests overlap. The thread that made a
        request has waited from before its begin until after its end.
        """
        return [(begin_s, end_s) for begin_s, end_s in self._ask("served")]

    def served_s(self) -> list[float]:
        """Return the durations of these requests."""
        return [end_s - begin_s for begin_s, end_s in self.served()]

    def _ask(self, words: str) -> Any:
        assert self._server.stdin is not None and self._server.stdout is not None
        print(words, file=self._server.stdin, flush=True)
        return json.loads(self._server.stdout.readline())


@contextlib.contextmanager
def slow_drive(folder: Path, n_bytes: int) -> Iterator[SlowDrive]:
    """Make a drive that initially has no delay.

    Raises
    ------
    OSError
        If the kernel or the user does not allow it.
    """
    folder.mkdir()
    server = subprocess.Popen(
        [sys.executable, "-S", "-E", __file__, folder, str(n_bytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with contextlib.ExitStack() as stack:
        stack.callback(server.wait)
        stack.callback(server.kill)
        assert server.stdout is not None
        if server.stdout.readline() != "ready\n":
            raise OSError("no FUSE here")
        stack.callback(subprocess.run, ["umount", "--lazy", folder], check=True)
        losetup = subprocess.run(
            ["losetup", "--find", "--show", folder / _NAME],
            capture_output=True,
            text=True,
            check=False,
        )
        if losetup.returncode:
            raise OSError(f"no loop device here: {losetup.stderr.strip()}")
        device = Path(losetup.stdout.strip())
        stack.callback(subprocess.run, ["losetup", "--detach", device], check=True)
        yield SlowDrive(server, device)


class _Server:
    def __init__(self, folder: str, n_bytes: int) -> None:
        self._data = bytearray(n_bytes)
        self._delay_s = 0.0
        self._served: list[tuple[float, float]] = []
        self._fd = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self._fd},rootmode={stat.S_IFDIR:o},user_id=0,group_id=0"
        mount = ctypes.CDLL(None, use_errno=True).mount
        if mount(b"slow", folder.encode(), b"fuse", 0, options.encode()):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def obey(self) -> None:
        """Execute the commands on standard input."""
        print("ready", flush=True)
        for line in sys.stdin:
            if line == "served\n":
                served, self._served = self._served, []
                print(json.dumps(served), flush=True)
            else:
                self._delay_s = float(line)
                print("null", flush=True)

    def serve(self) -> None:
        """Answer requests, one after the other."""
        while True:
            try:
                request = os.read(self._fd, _MAX_WRITE + 4096)
            except InterruptedError:
                continue
            except OSError:
                return  # it was unmounted
            begin_s = time.time()
            _, operation, unique, node, *_ = struct.unpack_from("<IIQQIIIHH", request)
            if operation in (_READ, _WRITE):
                time.sleep(self._delay_s)
            answer = self._answer(operation, node, memoryview(request)[40:])
            if answer is None:
                continue
            error, body = (-answer, b"") if isinstance(answer, int) else (0, answer)
            head = struct.pack("<IiQ", 16 + len(body), error, unique)
            # Before the answer, because after it a waiting thread may run first.
            if operation in (_READ, _WRITE):
                self._served.append((begin_s, time.time()))
            with contextlib.suppress(OSError):  # no process waits for it any more
                os.writev(self._fd, [head, body])

    def _answer(self, operation: int, node: int, body: memoryview) -> int | bytes | None:
        """Return the answer: bytes, an error, or None for no answer."""
        if operation in (_FORGET, _BATCH_FORGET, _INTERRUPT):
            return None
        if operation == _INIT:
            flags = _ASYNC_READ | _BIG_WRITES | _MAX_PAGES
            return struct.pack(
                "<IIIIHHIIHHI28x", 7, 31, 1 << 17, flags, 64, 48, _MAX_WRITE, 1, 256, 0, 0
            )
        if operation == _LOOKUP:
            if bytes(body).rstrip(b"\0") != _NAME.encode():
                return errno.ENOENT
            return struct.pack("<QQQQII", _FILE, 0, 60, 60, 0, 0) + self._attributes(_FILE)
        if operation in (_GETATTR, _SETATTR):
            return struct.pack("<QII", 60, 0, 0) + self._attributes(node)
        if operation in (_OPEN, _OPENDIR):
            return struct.pack("<QII", 0, _DIRECT_IO, 0)
        if operation == _READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return bytes(self._data[offset : offset + size])
        if operation == _WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            self._data[offset : offset + size] = body[40 : 40 + size]
            return struct.pack("<II", size, 0)
        if operation == _STATFS:
            return struct.pack("<QQQQQIIII24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
        if operation in (_RELEASE, _RELEASEDIR, _FSYNC, _FLUSH, _ACCESS):
            return b""
        return errno.ENOSYS

    def _attributes(self, node: int) -> bytes:
        mode = stat.S_IFDIR | 0o755 if node == _ROOT else stat.S_IFREG | 0o600
        size = 0 if node == _ROOT else len(self._data)
        head = struct.pack("<QQQQQQ", node, size, size >> 9, 0, 0, 0)
        return head + struct.pack("<IIIIIIIIII", 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


if __name__ == "__main__":
    server = _Server(sys.argv[1], int(sys.argv[2]))
    threading.Thread(target=server.serve, daemon=True).start()
    server.obey()
