# SPDX-License-Identifier: MIT
"""Runs in the guest: make calls that `linnapp watch` must record, in a folder and on sockets."""

from __future__ import annotations

import os
import socket
import sys
import threading

TIMES = 100


def work(name: str) -> None:
    """Write a file and read it, with a socket in between, each `TIMES` times."""
    one, other = socket.socketpair()
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    for k in range(TIMES):
        os.pwrite(fd, b"x" * 512, 512 * k)
        os.write(one.fileno(), b"x")
        os.read(other.fileno(), 1)
        os.pread(fd, 512, 512 * k)
    os.fsync(fd)
    os.close(fd)
    os.rename(name, f"{name}-renamed")  # noqa: PTH104


def main() -> None:
    """Run the calls in a thread, in a child, and in a folder with another name."""
    folder = sys.argv[1]
    os.mkdir(f"{folder}/before")  # noqa: PTH102 - one call
    os.rename(f"{folder}/before", f"{folder}/after")  # noqa: PTH104
    os.chdir(f"{folder}/after")
    thread = threading.Thread(target=work, args=["thread"])
    thread.start()
    thread.join()
    child = os.fork()
    if not child:
        work("child")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    sys.exit(status != 0)


if __name__ == "__main__":
    main()
