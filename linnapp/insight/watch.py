# SPDX-License-Identifier: MIT
"""Run or follow programs, and store their storage system calls and block I/Os."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from linnapp.drive.recording import check_command, exit_status, start_command
from linnapp.errors import DeviceError, LinnappError
from linnapp.files import AnyPath, replaced_directory
from linnapp.insight.calls import (
    NO_FILTERS,
    Filters,
    Reader,
    Store,
    call_names,
    check_can_store,
    check_is_text,
    library,
)
from linnapp.signals import signals_held

if TYPE_CHECKING:
    from linnapp.insight.elastic import Outcome, Server
    from linnapp.insight.live import Live

_BTF = Path("/sys/kernel/btf/vmlinux")
#: maximum time that records stay in the buffer; it is read earlier if an eighth is full
_READ_EVERY_MS = 50
#: maximum time that rows wait before they are passed on to a server
SEND_EVERY_S = 0.5
#: inode number of the initial PID namespace, from linux/proc_ns.h
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC


@dataclasses.dataclass(frozen=True)
class Watched:
    """Result of a recording."""

    #: exit status of the command as in a shell, 0 without a command
    status: int
    seconds: float
    #: counters of data that the tables do not contain, see :data:`linnapp.insight.calls.COUNTS`
    counts: dict[str, int]
    #: what was sent to a server; None without one
    outcome: Outcome | None = None


def check_can_watch() -> None:
    """Raise an error if programs cannot be watched on this machine."""
    check_can_store()
    library()
    if os.geteuid() != 0:
        raise DeviceError("watching needs root; run this command with sudo")
    if not _BTF.exists():
        raise DeviceError(
            f"{_BTF} is missing, so BPF programs cannot be loaded: the kernel needs "
            "CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS and CONFIG_DEBUG_INFO_BTF"
        )
    if Path("/proc/self/ns/pid").stat().st_ino != _INITIAL_PID_NAMESPACE:
        raise DeviceError(
            "this process runs in a PID namespace (a container), where process numbers differ "
            "from the kernel's; watch from the host with --pid"
        )


def _check_empty(folder: Path) -> None:
    """Raise if the folder is not empty: a recording cannot be repeated, so it is not replaced."""
    check_is_text(folder)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        existing = min((entry.name for entry in folder.iterdir()), default=None)
        if existing is not None:
            raise LinnappError(
                f"{folder}: already contains {existing}; name another folder, remove this one, or "
                "keep several recordings in it with --session NAME"
            )


def process_id(pid: int) -> int:
    """Return `pid`, or raise LinnappError if no process has this number."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError as error:
        raise LinnappError(f"--pid {pid}: no such process") from error
    tgid = int(next(line for line in status.splitlines() if line.startswith("Tgid:")).split()[1])
    if tgid != pid:
        raise LinnappError(f"--pid {pid}: is a thread of process {tgid}; name the process")
    return pid


def watch(
    output: AnyPath,
    *,
    command: Sequence[str] = (),
    pids: Sequence[int] = (),
    every: bool = False,
    filters: Filters = NO_FILTERS,
    session: str | None = None,
    duration_s: float | None = None,
    buffer_mib: int = 16,
    arguments: str | None = None,
    hashes: bool = False,
    server: Server | None = None,
    notify: Callable[[str], object] = print,
) -> Watched:
    """Record a command or processes until they end, or until `duration_s` or ctrl-C.

    Parameters
    ----------
    output : path
        Folder for the tables; must be empty or missing.
    command : sequence of str
        Run this command. It and all its descendants are recorded.
    pids : sequence of int
        Record these processes, and those that they start from now on.
    every : bool
        Record all processes except this one, until `command` ends if it is given.
    filters : Filters
        Calls and I/Os to record of these processes.
    session : str, optional
        Name of the recording, stored in the column `session`.
    duration_s : float, optional
        Stop after this time.
    buffer_mib : int
        Size of the buffer between kernel and reader, a power of two. Records that do not fit are
        lost and counted.
    arguments : {"raw", "detailed"}, optional
        Store the arguments of calls, see :mod:`linnapp.insight.arguments`.
    hashes : bool
        Store a hash of the data that each call read or wrote.
    server : Server, optional
        Send the rows there while they are recorded, see :mod:`linnapp.insight.live`.
    notify : callable
        Called with a sentence when the server begins or ceases to fail.
    """
    if command:
        check_command(command)
    for pid in pids:
        process_id(pid)
    _check_empty(Path(output))
    identity = {"recording": uuid.uuid4().hex, "host": socket.gethostname()}
    live = None
    with contextlib.ExitStack() as kept, contextlib.ExitStack() as stack:
        folder = stack.enter_context(replaced_directory(output, (".parquet", ".json")))
        check_can_watch()
        reader = stack.enter_context(Reader())
        if server is not None:
            from linnapp.insight.live import Live

            live = kept.enter_context(Live(server, folder.parent, identity, session, notify))
        store = stack.enter_context(
            Store(folder, call_names(), reader.name, session, arguments, live.put if live else None)
        )
        reader.attach(buffer_mib << 20, filters, every=every, arguments=arguments, hashes=hashes)
        start = time.monotonic()
        child = None
        try:
            if command:
                reader.follow(os.getpid(), is_launcher=True)
                with signals_held():
                    child = start_command(command)
            for pid in pids:
                reader.follow(pid)
            _record_until_end(reader, store, [child.pid] if child else pids, duration_s, live)
        except KeyboardInterrupt:
            pass  # The data recorded until now is kept.
        finally:
            status = _end(child)
        seconds = time.monotonic() - start
        reader.stop()
        while reader.read(0):
            store.add(*reader.take())
        while reader.read_unfinished():
            store.add(*reader.take())
        store.add(*reader.take())
        counts = reader.counts()
        store.finish(
            {
                **identity,
                "session": session,
                "command": list(command),
                "pids": list(pids),
                "every": every,
                "wanted": dataclasses.asdict(filters),
                "arguments": arguments,
                "hashes": hashes,
                "seconds": seconds,
                **counts,
            }
        )
        # The tables are complete before this waits for the server.
        stack.close()
        outcome = live.finish(counts) if live is not None else None
    return Watched(status, seconds, counts, outcome)


def _end(child: subprocess.Popen[bytes] | None) -> int:
    """Terminate the child if it still runs. Return its exit status as in a shell."""
    if child is None:
        return 0
    if child.poll() is None:
        child.terminate()
        child.wait()
    return exit_status(child.returncode)


def _record_until_end(
    reader: Reader, store: Store, pids: Sequence[int], duration_s: float | None, live: Live | None
) -> None:
    deadline = None if duration_s is None else time.monotonic() + duration_s
    taken_s = time.monotonic()
    with _exit_poll(pids) as have_ended:
        while not have_ended():
            wait_ms = _READ_EVERY_MS
            if deadline is not None:
                left_ms = int(1000 * (deadline - time.monotonic()))
                if left_ms <= 0:
                    break
                wait_ms = min(wait_ms, left_ms)
            is_full = reader.read(wait_ms)
            is_due = live is not None and time.monotonic() - taken_s >= SEND_EVERY_S
            if is_full or is_due:
                store.add(*reader.take())
            if live is not None and is_due:
                taken_s = time.monotonic()
                live.report(reader.counts())


@contextlib.contextmanager
def _exit_poll(pids: Sequence[int]) -> Iterator[Callable[[], bool]]:
    """Yield a predicate: true once all processes have ended, never if `pids` is empty."""
    ends = select.poll()
    with contextlib.ExitStack() as stack:
        left = set()
        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue  # The process has ended already.
            stack.callback(os.close, fd)
            ends.register(fd, select.POLLIN)
            left.add(fd)

        def have_ended() -> bool:
            for fd, _ in ends.poll(0):
                ends.unregister(fd)
                left.remove(fd)
            return bool(pids) and not left

        yield have_ended
