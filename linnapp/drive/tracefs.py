# SPDX-License-Identifier: MIT
"""Record kernel events of a drive, or kernel functions, in a separate trace buffer.

No other module accesses tracefs. ``LINNAPP_SYSFS`` replaces ``/sys`` with another tree.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from linnapp.drive.sysfs import sysfs_root
from linnapp.errors import DeviceError
from linnapp.files import AnyPath, os_errors

DECISION = "linnos/linnos_decision"
REQUESTS = ("block/block_rq_issue", "block/block_rq_complete")

_LOCKDOWN = Path("/sys/kernel/security/lockdown")

#: Total size for all CPUs of the buffer of an event recording; each CPU has an equal share.
_BUFFER_KIB = 32768


@contextlib.contextmanager
def recording(events: Sequence[str], device: int) -> Iterator[Callable[[], bytes]]:
    """Record events of a drive until the block ends; a full buffer drops the oldest events.

    Events are "subsystem/event". Each must have a field `dev`, a number in the kernel's internal
    form. Yield a function that ends the recording and returns its text, oldest events first.
    """
    root = _tracing_directory()
    for event in events:
        try:
            (root / "events" / event).stat()
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise DeviceError(
                    f"{root}/events/{event} is missing: this kernel has no such event; boot the "
                    "patched kernel, with CONFIG_BLK_DEV_IO_TRACE or another user of event tracing"
                ) from error
            raise explained(error, root) from error
    with _instance(root, f"linnapp-{os.getpid()}-{device}") as instance:

        def write_to_all(name: str, text: str) -> None:
            for event in events:
                _write(instance / "events" / event / name, text)

        def end() -> bytes:
            write_to_all("enable", "0")
            with os_errors(instance / "trace", explained):
                return (instance / "trace").read_bytes()

        _write(instance / "buffer_size_kb", str(max(16, _BUFFER_KIB // (os.cpu_count() or 1))))
        _write(instance / "trace_clock", "mono")
        write_to_all("filter", f"dev == {device}")
        write_to_all("enable", "1")
        yield end


class FunctionTracer:
    """The function graph tracer with a buffer; :func:`function_tracer` creates one."""

    def __init__(self, root: AnyPath, buffer: AnyPath) -> None:
        self._root = Path(root)
        self._buffer = Path(buffer)

    def _write(self, name: str, text: str) -> None:
        _write(self._buffer / name, text)

    def trace(self, pid: int) -> None:
        """Trace a process and all processes that it starts from now on."""
        self._write("set_ftrace_pid", str(pid))
        self._write("tracing_on", "1")

    def stop(self) -> None:
        """Stop recording; the content of the buffer is kept."""
        self._write("tracing_on", "0")

    def clear(self) -> None:
        """Empty the buffer."""
        self._write("trace", "")

    def streams(self) -> list[int]:
        """Return a descriptor for each CPU's part of the buffer, for non-blocking page reads."""
        parts = sorted((self._buffer / "per_cpu").glob("cpu*/trace_pipe_raw"))
        return [os.open(part, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) for part in parts]

    def format(self, event: str) -> tuple[int, dict[str, tuple[int, int]]]:
        """Return an event's number, and the offset and size of each of its fields."""
        text = _read(self._root / "events" / event / "format")
        number = re.search(r"^ID: (\d+)", text, re.M)
        fields = _fields(text)
        if number is None or not fields:
            raise DeviceError(f"{self._root}/events/{event}/format: not a format: {text[:80]!r}")
        return int(number[1]), fields

    def page_format(self) -> dict[str, tuple[int, int]]:
        """Return the offset and size of each field of a page of the buffer."""
        return _fields(_read(self._root / "events" / "header_page"))


@contextlib.contextmanager
def function_tracer(functions: Collection[int], *, buffer_kib: int) -> Iterator[FunctionTracer]:
    """Set up the function graph tracer until the block ends, without tracing anything yet.

    Kernels before 6.12 have a single such tracer, which is used if it is idle. Functions are given
    by their indices in :func:`traceable_functions`, because for each name the kernel would search
    all of its functions. When the buffer of a CPU is full, the oldest entries are dropped, and the
    buffer marks the loss.
    """
    root = _tracing_directory()
    if "function_graph" not in _read(root / "available_tracers").split():
        raise DeviceError(
            f"{root}/available_tracers has no function_graph: this kernel lacks "
            "CONFIG_FUNCTION_GRAPH_TRACER, which those of distributions have; for one in QEMU: "
            "make kernel-debian, and see docs/insight.md"
        )
    with (
        _instance(root, f"linnapp-functions-{os.getpid()}") as instance,
        contextlib.ExitStack() as stack,
    ):
        try:
            # Choose functions first, because the tracer would otherwise start with all functions.
            _prepare(instance, functions, buffer_kib, stack)
            buffer = instance
        except DeviceError:
            stack.close()
            tracer = _read(root / "current_tracer").strip()
            if tracer != "nop" or not _read(root / "set_ftrace_filter").startswith("####"):
                raise DeviceError(
                    f"{root} is in use (tracer {tracer}), and this kernel has one for all; end the "
                    "other tracing first: trace-cmd reset"
                ) from None
            _prepare(root, functions, buffer_kib, stack)
            buffer = root
        yield FunctionTracer(root, buffer)


@contextlib.contextmanager
def tracer_of_disks(disks: Sequence[str], *, buffer_kib: int) -> Iterator[int]:
    """Trace the requests of disks, and of disks that blktrace traces, until the block ends.

    Yields a descriptor for non-blocking reads of ``trace_pipe``, in the binary format of blktrace
    with times of the monotonic clock, as blktrace's. The kernel has one such tracer. `buffer_kib`
    is the size of the buffer of each CPU.
    """
    root = _tracing_directory()
    if "blk" not in _read(root / "available_tracers").split():
        raise DeviceError(
            f"{root}/available_tracers has no blk: this kernel lacks CONFIG_BLK_DEV_IO_TRACE; boot "
            "the distribution's own kernel, or boot with nvme_core.multipath=N"
        )
    if (tracer := _read(root / "current_tracer").strip()) != "nop":
        raise DeviceError(
            f"{root} is in use (tracer {tracer}), and the kernel has one for all; end the other "
            "tracing first: trace-cmd reset"
        )
    clock = re.search(r"\[(\w+)\]", _read(root / "trace_clock"))
    before = _read(root / "buffer_size_kb").split()[0]
    with contextlib.ExitStack() as stack:
        _set_up(
            root,
            stack,
            ("trace_clock", "mono", clock[1] if clock else "local"),
            ("buffer_size_kb", str(buffer_kib), before),
            ("options/bin", "1", "0"),
            ("options/context-info", "0", "1"),
            ("current_tracer", "blk", "nop"),
        )
        for disk in disks:
            trace = sysfs_root() / "block" / disk / "trace"
            _set_up(trace, stack, ("enable", "1", "0"))
            _write(trace / "act_mask", "queue,requeue,issue,complete")
        pipe = os.open(root / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        stack.callback(os.close, pipe)
        yield pipe


def traceable_functions() -> list[str]:
    """Return the names of the functions that this kernel can trace, in its order, not unique."""
    text = _read(_tracing_directory() / "available_filter_functions")
    return [line.split()[0] for line in text.splitlines() if line]


@contextlib.contextmanager
def _instance(root: Path, name: str) -> Iterator[Path]:
    """Create a separate buffer, which is removed when the block ends."""
    instance = root / "instances" / name
    try:
        with os_errors(instance, explained):
            instance.mkdir()
        yield instance
    finally:
        with contextlib.suppress(OSError):
            instance.rmdir()


def _prepare(
    buffer: Path, functions: Collection[int], buffer_kib: int, stack: contextlib.ExitStack
) -> None:
    """Set up a buffer for the tracer of functions."""
    _set_up(
        buffer,
        stack,
        ("tracing_on", "0", "1"),
        ("set_ftrace_filter", "".join(f"{place + 1}\n" for place in functions), ""),
        # Trace nothing until a process is chosen: no process has this number.
        ("set_ftrace_pid", str(2**22 - 1), ""),
        ("options/function-fork", "1", "0"),
        ("buffer_size_kb", str(buffer_kib), "1408"),
        ("current_tracer", "function_graph", "nop"),
    )


def _set_up(directory: Path, stack: contextlib.ExitStack, *settings: tuple[str, str, str]) -> None:
    """Write texts to files, by name; push the steps that write the last texts on `stack`."""

    def undo(name: str, text: str) -> None:
        with contextlib.suppress(OSError):
            (directory / name).write_text(text)

    for name, text, before in settings:
        stack.callback(undo, name, before)
        _write(directory / name, text)


def _fields(text: str) -> dict[str, tuple[int, int]]:
    return {
        name: (int(offset), int(size))
        for name, offset, size in re.findall(
            r"field:[^;]*?(\w+)(?:\[\d*\])?;\s*offset:(\d+);\s*size:(\d+);", text
        )
    }


def _read(path: Path) -> str:
    with os_errors(path, explained):
        return path.read_text()


def _write(path: Path, text: str) -> None:
    with os_errors(path, explained):
        path.write_text(text)


def _tracing_directory() -> Path:
    """Return the directory where tracefs is mounted."""
    for place in ("kernel/tracing", "kernel/debug/tracing"):
        path = sysfs_root() / place
        try:
            if (path / "events").is_dir():
                return path
            # It cannot be read, or nothing is mounted there.
            next(path.iterdir(), None)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise explained(error, path) from error
    raise DeviceError(
        f"{sysfs_root()}/kernel/tracing is empty: tracefs is not mounted (mount -t tracefs none "
        f"{sysfs_root()}/kernel/tracing), or this kernel has none; trace in the lab: linnapp lab "
        "run -- ..."
    )


def lockdown() -> str:
    """Return the kernel's lockdown state: ``none``, ``integrity`` or ``confidentiality``."""
    with contextlib.suppress(OSError):
        chosen = re.search(r"\[(\w+)\]", _LOCKDOWN.read_text())
        if chosen:
            return chosen[1]
    return "none"


def explained(error: OSError, path: AnyPath) -> DeviceError:
    """Explain an error of one of the kernel's files, and what to do about it."""
    reason = error.strerror or str(error)
    if error.errno in (errno.EACCES, errno.EPERM):
        state = lockdown()
        if os.geteuid() != 0:
            reason += "; reading kernel events needs root"
        elif state != "none":
            reason += (
                f"; the kernel is locked down ({state}), which denies tracing to root, too: boot "
                "without lockdown, or trace in the lab: linnapp lab run -- ..."
            )
        else:
            reason += "; this kernel denies it to root, too: trace on the machine itself"
    return DeviceError(f"{path}: {reason}")
