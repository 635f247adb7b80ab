# SPDX-License-Identifier: MIT
"""Follows a program: runs it, or finds it, and stores its storage system calls and block I/Os."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from linnapp.errors import DeviceError, LinnappError
from linnapp.files import AnyPath, replaced_directory
from linnapp.insight.calls import (
    EVERYTHING,
    Reader,
    Store,
    Wanted,
    call_names,
    check_can_store,
    check_is_text,
    library,
)
from linnapp.signals import signals_held
from linnapp.trace.command import check_command, exit_status, started

_TYPES = Path("/sys/kernel/btf/vmlinux")
#: How long records wait in the buffer; a full eighth of it is read at once.
_LOOK_MS = 50
#: of the inode of the first PID namespace, linux/proc_ns.h
_FIRST_PID_NAMESPACE = 0xEFFFFFFC


@dataclasses.dataclass(frozen=True)
class Watched:
    """What a recording came to."""

    #: The command's exit status, as a shell has it; 0 without a command.
    status: int
    seconds: float
    #: Of what is not in the tables; see :data:`linnapp.insight.calls.COUNTS`.
    counts: dict[str, int]


def check_can_watch() -> None:
    """Find out why watching would not work, before it fails with less to say."""
    check_can_store()
    library()
    if os.geteuid() != 0:
        raise DeviceError("watching needs root; run this command with sudo")
    if not _TYPES.exists():
        raise DeviceError(
            f"{_TYPES} is missing: this kernel has no BPF programs that know its "
            "types; it lacks CONFIG_BPF_SYSCALL, CONFIG_BPF_EVENTS or CONFIG_DEBUG_INFO_BTF"
        )
    if Path("/proc/self/ns/pid").stat().st_ino != _FIRST_PID_NAMESPACE:
        raise DeviceError(
            "this is a PID namespace of its own (a container), where processes have other "
            "numbers than the kernel's; watch from outside, with --pid"
        )


def _check_empty(folder: Path) -> None:
    """Refuse to write over what was recorded before: nobody can record that again."""
    check_is_text(folder)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        held = min((entry.name for entry in folder.iterdir()), default=None)
        if held is not None:
            raise LinnappError(
                f"{folder}: holds {held} already; name another folder, remove this one, or keep "
                "several recordings in one with --session NAME each"
            )


def process_id(pid: int) -> int:
    """`pid`, if it is a process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError as error:
        raise LinnappError(f"--pid {pid}: no such process") from error
    tgid = int(next(line for line in status.splitlines() if line.startswith("Tgid:")).split()[1])
    if tgid != pid:
        raise LinnappError(f"--pid {pid}: a thread of process {tgid}; give that")
    return pid


def watch(
    output: AnyPath,
    *,
    command: Sequence[str] = (),
    pids: Sequence[int] = (),
    every: bool = False,
    wanted: Wanted = EVERYTHING,
    session: str | None = None,
    duration_s: float | None = None,
    buffer_mib: int = 16,
    arguments: str | None = None,
) -> Watched:
    """Follow a command until it ends, or processes; until ctrl-C at most.

    With `command` it is run and followed, and all that it starts; with `pids` these processes, and
    all they start from now on; with `every` all but this one, until the command ends, if there is
    one. `buffer_mib`, a power of two, is of what waits to be read; what does not fit is lost and
    counted. Calls' `arguments` are stored as :mod:`linnapp.insight.arguments` has them.
    """
    if command:
        check_command(command)
    for pid in pids:
        process_id(pid)
    _check_empty(Path(output))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(replaced_directory(output, (".parquet", ".json")))
        check_can_watch()
        reader = stack.enter_context(Reader())
        reader.choose(wanted)
        if every:
            reader.follow_all()
        if arguments is not None:
            reader.keep_arguments(arguments)
        store = stack.enter_context(Store(folder, call_names(), reader.name, session, arguments))
        reader.attach(buffer_mib << 20)
        start = time.monotonic()
        child = None
        try:
            if command:
                reader.follow(os.getpid(), is_launcher=True)
                with signals_held():
                    child = started(command)
            for pid in pids:
                reader.follow(pid)
            _until_end(reader, store, [child.pid] if child else pids, duration_s)
        except KeyboardInterrupt:
            pass  # what was recorded until then is kept
        finally:
            status = _ended(child)
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
                "session": session,
                "command": list(command),
                "pids": list(pids),
                "every": every,
                "wanted": dataclasses.asdict(wanted),
                "arguments": arguments,
                "seconds": seconds,
                **counts,
            }
        )
    return Watched(status, seconds, counts)


def _ended(child: subprocess.Popen[bytes] | None) -> int:
    """Its exit status as a shell has it; one that still runs is asked to end."""
    if child is None:
        return 0
    if child.poll() is None:
        child.terminate()
        child.wait()
    return exit_status(child.returncode)


def _until_end(
    reader: Reader,
    store: Store,
    pids: Sequence[int],
    duration_s: float | None,
) -> None:
    deadline = None if duration_s is None else time.monotonic() + duration_s
    with _ends_of(pids) as have_ended:
        while not have_ended():
            wait_ms = _LOOK_MS
            if deadline is not None:
                left_ms = int(1000 * (deadline - time.monotonic()))
                if left_ms <= 0:
                    break
                wait_ms = min(wait_ms, left_ms)
            if reader.read(wait_ms):
                store.add(*reader.take())


@contextlib.contextmanager
def _ends_of(pids: Sequence[int]) -> Iterator[Callable[[], bool]]:
    """Something that says whether all of some processes have ended; never without any."""
    ends = select.poll()
    with contextlib.ExitStack() as stack:
        left = set()
        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue  # it has, since it was looked at
            stack.callback(os.close, fd)
            ends.register(fd, select.POLLIN)
            left.add(fd)

        def have_ended() -> bool:
            for fd, _ in ends.poll(0):
                ends.unregister(fd)
                left.remove(fd)
            return bool(pids) and not left

        yield have_ended
