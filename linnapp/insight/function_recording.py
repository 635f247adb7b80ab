# SPDX-License-Identifier: MIT
"""Run commands under the kernel's function graph tracer, and measure the tracer's overhead."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from linnapp.drive.recording import check_command, exit_status
from linnapp.drive.tracefs import FunctionTracer, function_tracer, traceable_functions
from linnapp.errors import DeviceError, LinnappError
from linnapp.insight.functions import (
    FunctionTimes,
    Layout,
    Overhead,
    Symbols,
    grouped,
    sum_recordings,
)

_SYMBOLS = Path("/proc/kallsyms")

#: The overhead is measured with reads of one byte of /dev/null. The fastest batch counts because
#: interrupts lengthen others.
_BATCHES, _BATCH = 40, 250
_CHEAP_CALL, _CHEAP_FUNCTION = "pread64", "read_null"


class FunctionRecording:
    """Records the functions of commands, one at a time. Created by :func:`prepared`."""

    def __init__(
        self, recorder: _Recorder, groups: dict[str, str], symbols: Symbols, untraced_ns: float
    ) -> None:
        self._recorder = recorder
        self._groups = groups
        self._symbols = symbols
        traced_ns = _cheap_call_ns(recorder)
        self.overhead = overhead_of(self._times(), traced_ns - untraced_ns)

    def _times(self) -> FunctionTimes:
        recorder = self._recorder
        return sum_recordings(recorder.files(), recorder.layout, self._groups, self._symbols)

    def record(self, command: Sequence[str]) -> tuple[FunctionTimes, int]:
        """Run a command. Return the times and the exit status as in a shell."""
        check_command(command)
        self._recorder.reset()
        status = self._recorder.run(lambda: _execute(command))
        return self._times(), status


@contextlib.contextmanager
def prepared() -> Iterator[FunctionRecording]:
    """Enable the function graph tracer for the functions of reads and writes.

    Each CPU has a buffer of 64 MiB, which is moved to a temporary file when it is half full.
    """
    if os.geteuid() != 0:
        raise DeviceError("tracing needs root; run this command with sudo")
    traceable = traceable_functions()
    groups = grouped(traceable)
    indices = [index for index, name in enumerate(traceable) if name in groups]
    with _SYMBOLS.open() as lines:
        symbols = Symbols(lines, groups)
    if not len(symbols) or symbols.name(0) is not None:
        raise DeviceError(
            f"{_SYMBOLS} does not show addresses because of kernel.kptr_restrict; as root: "
            "sysctl kernel.kptr_restrict=1"
        )
    # Measured before the tracer is enabled: it also slows down processes that it does not trace.
    untraced_ns = _cheap_call_ns()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="linnapp-")))
        tracer = stack.enter_context(function_tracer(indices, buffer_kib=64 << 10))
        recorder = stack.enter_context(_Recorder.opened(tracer, folder))
        yield FunctionRecording(recorder, groups, symbols, untraced_ns)


def overhead_of(cheap: FunctionTimes, longer_ns: float) -> Overhead:
    """Compute the overhead per function from a recording of calls that do almost nothing.

    Such a call takes `longer_ns` longer than without tracing.
    """
    call = next((call for call in cheap.calls if call.name == _CHEAP_CALL), None)
    leaf = next((f for f in call.functions if f.name == _CHEAP_FUNCTION), None) if call else None
    if call is None or leaf is None:
        raise DeviceError(
            "the overhead of tracing cannot be measured: the function graph tracer recorded no "
            f"{_CHEAP_CALL} and {_CHEAP_FUNCTION} of this program's reads of /dev/null"
        )
    function_ns = longer_ns * call.calls / sum(f.calls for f in call.functions)
    # The function returns at once, so nearly all of its time is spent in the tracer.
    inside_ns = min(leaf.self_ns / leaf.calls, max(0.0, function_ns))
    return Overhead(inside_ns, max(0.0, function_ns) - inside_ns)


def layout_of(tracer: FunctionTracer) -> Layout:
    """Return the layout of a tracer's recordings from the kernel's format files."""
    page = tracer.page_format()
    number, fields = tracer.format("ftrace/funcgraph_exit")
    try:
        return Layout(
            page_bytes=sum(page["data"]),
            commit_at=page["commit"][0],
            data_at=page["data"][0],
            exit_type=number,
            pid_at=fields["common_pid"][0],
            function_at=fields["func"][0],
            depth_at=fields["depth"][0],
            begin_at=fields["calltime"][0],
            end_at=fields["rettime"][0],
            exit_bytes=max(sum(field) for field in fields.values()),
        )
    except KeyError as error:
        raise DeviceError(
            f"the kernel's function graph tracer does not record {error}; this version of linnapp "
            "does not support its format"
        ) from error


class _Recorder:
    """Moves a tracer's data of one process to a file for each CPU."""

    def __init__(self, tracer: FunctionTracer, folder: Path, streams: list[int]) -> None:
        # This can fail, so it comes before the files are opened.
        self.layout = layout_of(tracer)
        self._tracer = tracer
        self._streams = streams
        self._paths = [folder / f"cpu{cpu}" for cpu in range(len(streams))]
        self._files = [
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600) for path in self._paths
        ]

    @classmethod
    @contextlib.contextmanager
    def opened(cls, tracer: FunctionTracer, folder: Path) -> Iterator[_Recorder]:
        """Yield a recorder and close its files at the end."""
        streams = tracer.streams()
        try:
            recorder = cls(tracer, folder, streams)
            try:
                yield recorder
            finally:
                for file in recorder._files:
                    os.close(file)
        finally:
            for stream in streams:
                os.close(stream)

    def files(self) -> list[Path]:
        """Return the files that are not empty."""
        return [path for path in self._paths if path.stat().st_size]

    def reset(self) -> None:
        """Discard the recorded data."""
        self._tracer.clear()
        for file in self._files:
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)

    def run(self, act: Callable[[], int]) -> int:
        """Record a child process that runs `act`. Return its exit status as in a shell."""
        with _paused_child(act) as (pid, begin):
            self._tracer.trace(pid)
            begin()
            status = self._until_end(pid)
            self._tracer.stop()
            for stream, file in zip(self._streams, self._files, strict=True):
                self._move(stream, file)
        return status

    def _until_end(self, pid: int) -> int:
        end = os.pidfd_open(pid)
        try:
            waiting = select.poll()
            waiting.register(end, select.POLLIN)
            files = dict(zip(self._streams, self._files, strict=True))
            for stream in files:
                # Readable only when half full, so that reading rarely disturbs the process.
                waiting.register(stream, select.POLLIN)
            while end not in (ready := [fd for fd, _ in waiting.poll()]):
                for stream in ready:
                    self._move(stream, files[stream])
        finally:
            os.close(end)
        return exit_status(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    def _move(self, stream: int, file: int) -> None:
        """Move whole pages; the last one may be partly filled."""
        while True:
            try:
                page = os.read(stream, self.layout["page_bytes"])
            except BlockingIOError:
                return
            if not page:
                return
            try:
                os.write(file, page.ljust(self.layout["page_bytes"], b"\0"))
            except OSError as error:
                raise LinnappError(
                    f"{tempfile.gettempdir()}: {error.strerror}; functions are recorded there: "
                    "set TMPDIR to a folder with enough space"
                ) from error


@contextlib.contextmanager
def _paused_child(act: Callable[[], int]) -> Iterator[tuple[int, Callable[[], object]]]:
    """Fork a process that waits and then runs `act`. It ends with the block or this process."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if not pid:
        _act(act, read_end, write_end)
    os.close(read_end)
    has_ended = False
    try:
        yield pid, lambda: os.write(write_end, b"\0")
        has_ended = True
    finally:
        if not has_ended:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)
        os.close(write_end)


def _act(act: Callable[[], int], read_end: int, write_end: int) -> NoReturn:
    """Run `act` in the child and exit."""
    status = 126
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Signals that are ignored, for example by nohup, stay ignored.
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it.
        os.close(write_end)
        may_start = os.read(read_end, 1)
        os.close(read_end)
        if may_start:
            status = act()
    finally:
        os._exit(status)


def _execute(command: Sequence[str]) -> NoReturn:
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        os.write(2, f"linnapp: error: {command[0]}: {error.strerror}\n".encode())
        os._exit(127)


def _cheap_call_ns(recorder: _Recorder | None = None) -> float:
    """Return the time of a read of /dev/null in ns, traced by `recorder` if given."""
    read_end, write_end = os.pipe()

    def act() -> int:
        null = os.open(os.devnull, os.O_RDONLY)
        best = float("inf")
        for _ in range(_BATCHES):
            begin = time.perf_counter_ns()
            for _ in range(_BATCH):
                os.pread(null, 1, 0)
            best = min(best, (time.perf_counter_ns() - begin) / _BATCH)
        os.write(write_end, str(best).encode())
        return 0

    with os.fdopen(read_end) as result:
        with os.fdopen(write_end, "w"):
            if recorder is not None:
                recorder.run(act)
            else:
                with _paused_child(act) as (pid, begin):
                    begin()
                    os.waitpid(pid, 0)
        return float(result.read())
