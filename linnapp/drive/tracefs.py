# SPDX-License-Identifier: MIT
"""Records kernel events of a drive in a buffer of one's own, beside whoever else is tracing.

The only module that touches tracefs. ``LINNAPP_SYSFS`` puts another tree in the place of ``/sys``.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from linnapp.drive.sysfs import sysfs_root
from linnapp.errors import DeviceError
from linnapp.files import AnyPath

DECISION = "linnos/linnos_decision"
REQUESTS = ("block/block_rq_issue", "block/block_rq_complete")


class Recorder:
    """A running recording; :func:`recording` makes one."""

    def __init__(self, instance: AnyPath, events: Sequence[str]) -> None:
        self._instance = Path(instance)
        self._events = events

    def write(self, name: str, text: str) -> None:
        """Write one of the buffer's files."""
        path = self._instance / name
        try:
            path.write_text(text)
        except OSError as error:
            raise _explained(path, error) from error

    def stop(self) -> None:
        """Record no more."""
        for event in self._events:
            self.write(f"events/{event}/enable", "0")

    def text(self) -> bytes:
        """What is in the buffer, oldest first."""
        path = self._instance / "trace"
        try:
            return path.read_bytes()
        except OSError as error:
            raise _explained(path, error) from error

    def clear(self) -> None:
        """Empty the buffer."""
        self.write("trace", "")


@contextlib.contextmanager
def recording(events: Sequence[str], device: int, *, buffer_kib: int = 32768) -> Iterator[Recorder]:
    """Record events of one drive until the block ends; when the buffer is full the oldest go.

    Parameters
    ----------
    events : sequence of str
        "subsystem/event", each with a field `dev`.
    device : int
        The drive's number, as the kernel keeps it.
    buffer_kib : int
        Size of the buffer, all CPUs' together; each has its share, and 16 at least.

    Raises
    ------
    DeviceError
        If this kernel lacks an event, or this user may not trace.
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
            raise _explained(root, error) from error
    instance = root / "instances" / f"linnapp-{os.getpid()}-{device}"
    try:
        try:
            instance.mkdir()
        except OSError as error:
            raise _explained(instance, error) from error
        recorder = Recorder(instance, events)
        recorder.write("buffer_size_kb", str(max(16, buffer_kib // (os.cpu_count() or 1))))
        recorder.write("trace_clock", "mono")
        for event in events:
            recorder.write(f"events/{event}/filter", f"dev == {device}")
        for event in events:
            recorder.write(f"events/{event}/enable", "1")
        yield recorder
    finally:
        with contextlib.suppress(OSError):
            instance.rmdir()


def _tracing_directory() -> Path:
    """Where tracefs is mounted."""
    for place in ("kernel/tracing", "kernel/debug/tracing"):
        path = sysfs_root() / place
        try:
            if (path / "events").is_dir():
                return path
            # May not be looked into, or nothing is mounted there.
            next(path.iterdir(), None)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise _explained(path, error) from error
    raise DeviceError(
        f"{sysfs_root()}/kernel/tracing is empty: tracefs is not mounted (mount -t tracefs none "
        f"{sysfs_root()}/kernel/tracing), or this kernel has none; trace in the lab: linnapp lab "
        "run -- ..."
    )


def _explained(path: Path, error: OSError) -> DeviceError:
    reason = error.strerror or str(error)
    if error.errno in (errno.EACCES, errno.EPERM):
        reason += "; reading kernel events needs root"
    return DeviceError(f"{path}: {reason}")
