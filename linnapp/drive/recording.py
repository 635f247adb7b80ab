# SPDX-License-Identifier: MIT
"""Record drives with blktrace: check the conditions, run it, and merge its files.

The recording can last as long as a command runs, whose exit status is then returned.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from linnapp.drive.path_recording import PathRecorder, path_recorder
from linnapp.drive.sysfs import node_of, sysfs_root
from linnapp.drive.tracefs import lockdown
from linnapp.errors import DeviceError, LinnappError, TraceWarning
from linnapp.files import AnyPath, os_errors
from linnapp.signals import end_with_parent, signals_held
from linnapp.trace import blktrace

#: The only categories that the features need. Plugs and inserts share "queue" with submissions.
ACTIONS = ("queue", "requeue", "issue", "complete")

#: Size and number of blktrace's buffers per CPU, sufficient for a second at 100,000 IOPS.
_BUFFER_KIB = 1024
_BUFFERS = 8
#: If many drives are recorded at once, buffers are smaller: the total is limited to this, but each
#: buffer has at least the minimum.
_ALL_BUFFERS_KIB = 1 << 20
_LEAST_BUFFER_KIB = 64

#: Interval in seconds between progress reports.
_PROGRESS_EVERY_S = 0.5

_DEBUGFS = Path("/sys/kernel/debug")

#: Time in seconds within which the blktrace of a killed recording ends by itself.
_ORPHAN_S = 5.0

_EVENT_BYTES = 48
_TOTAL = re.compile(
    r"=== (?P<drive>\S+) ===.*?Total:\s+\d+ events \(dropped (?P<dropped>\d+)\)", re.S
)


class UnmergedError(DeviceError):
    """A recording was made, but blktrace failed during it, or its files could not be merged."""


@dataclasses.dataclass(frozen=True)
class Recording:
    """The recording of one drive."""

    #: Disk name.
    drive: str
    #: The merged trace.
    path: Path
    #: Number of events in the trace.
    events: int
    #: Number of events lost because the buffers were full.
    dropped: int

    def log_dropped(self, log: Callable[[str], None]) -> None:
        """Log the number of lost events, if there are any."""
        if self.dropped:
            log(f"{self.drive}: {self.dropped} events dropped in the recording")


@dataclasses.dataclass(frozen=True)
class RecordingProgress:
    """State of a running recording: seconds, events (estimated from the size) and bytes so far."""

    seconds: float
    events: int
    size_bytes: int
    dropped: int


def drives_to_record() -> list[Path]:
    """Return the nodes of all disks of this machine that serve requests themselves.

    Devices that pass I/Os on (md, dm) are left out in favour of the disks below them: a recording
    of such a device has no layers, because no requests are issued to it. Disks without a medium are
    left out, too.
    """
    found = []
    for disk in sorted((sysfs_root() / "block").glob("*")):
        with contextlib.suppress(OSError, ValueError):  # the disk is being removed
            serves = (
                # Only devices with request queues have this folder.
                (disk / "mq").is_dir()
                and int((disk / "size").read_text()) > 0
                and not any((disk / "slaves").glob("*"))
            )
            if serves and node_of(disk.name).exists():
                found.append(node_of(disk.name))
    if not found:
        raise DeviceError(
            f"no disk under {sysfs_root()}/block serves requests and has a node in /dev, so there "
            "is nothing to record (a path of NVMe multipath has no node); in a container, record "
            "outside of it, or in the lab: linnapp lab run -- linnapp ..."
        )
    return found


def check_can_trace(devices: Sequence[AnyPath]) -> None:
    """Raise DeviceError if a condition for blktrace is not met."""
    for device in devices:
        try:
            mode = Path(device).stat().st_mode
        except OSError as error:
            raise DeviceError(f"{device}: {error.strerror}; `lsblk` lists the drives") from error
        if not stat.S_ISBLK(mode):
            raise DeviceError(f"{device}: not a block device; `lsblk` lists the drives")
    if shutil.which("blktrace") is None:
        raise DeviceError("blktrace is not installed; on Debian: apt-get install blktrace")
    if os.geteuid() != 0:
        raise DeviceError("tracing needs root; run this command with sudo")
    # Secure Boot enables "integrity", which already denies access to the files that blktrace maps.
    if (state := lockdown()) != "none":
        raise DeviceError(
            f"the kernel is locked down ({state}), which denies blktrace; boot without lockdown "
            "(Secure Boot enables it), or trace in the lab: linnapp lab run -- linnapp trace ..."
        )
    if not (_DEBUGFS / "block").is_dir():
        with contextlib.suppress(OSError):
            if not any(_DEBUGFS.iterdir()):
                raise DeviceError(
                    f"debugfs is not mounted; run: mount -t debugfs none {_DEBUGFS} (on the host "
                    "if this is a container)"
                )
        raise DeviceError(
            f"{_DEBUGFS}/block is missing: this kernel lacks CONFIG_BLK_DEV_IO_TRACE or denies "
            "it; trace in the lab: linnapp lab run -- linnapp trace ..."
        )


def record(
    devices: Sequence[AnyPath],
    out_dir: AnyPath,
    *,
    duration_s: float | None = None,
    command: Sequence[str] = (),
    on_progress: Callable[[RecordingProgress], None] | None = None,
    at_ctrl_c: Literal["end", "keep", "discard"] = "end",
    unmerged_dir: AnyPath | None = None,
) -> tuple[list[Recording], int]:
    """Trace drives until the time has elapsed, the command ends, or ctrl-C is received.

    Parameters
    ----------
    devices : sequence of path
    out_dir : path
        Receives one complete ``<drive>.blk`` for each device.
    duration_s : float, optional
    command : sequence of str
        Run this command once tracing has started.
    on_progress : callable, optional
        Called twice a second. If it raises an exception, the recording ends and all files are
        removed.
    at_ctrl_c : {"end", "keep", "discard"}
        Ctrl-C ends the recording normally, or raises KeyboardInterrupt after it has kept or
        discarded the recording.
    unmerged_dir : path, optional
        Receives the files of blktrace if they cannot be merged or blktrace fails. It must be on the
        file system of `out_dir`, which is the default. With "discard", they are by default removed.

    Returns
    -------
    list of Recording
        In the order of `devices`.
    int
        Exit status of the command as in a shell, 0 without a command.

    Raises
    ------
    LinnappError
        If a drive cannot be traced, or `out_dir` already contains a recording of it.
    UnmergedError
        If blktrace failed during the recording, or its files cannot be merged. They are kept.
    """
    out_dir = Path(out_dir)
    drives = [Path(device) for device in devices]
    check_can_trace(drives)
    paths = [out_dir / f"{device.resolve().name}.blk" for device in drives]
    with os_errors(out_dir):
        existing = next((path for path in paths if path.exists()), None)
    if existing is not None:
        # An existing recording cannot be repeated, so it is not overwritten.
        raise LinnappError(f"{existing}: exists already; name another folder, or remove this file")
    scratch = out_dir / f"unmerged.{os.urandom(4).hex()}"
    keeps = False
    try:
        with os_errors(out_dir):
            out_dir.mkdir(parents=True, exist_ok=True)
            scratch.mkdir(0o700)
        paths_of_heads = path_recorder(drives, scratch)
        status, output, interrupted, failure = _run_blktrace(
            drives, scratch, duration_s, command, on_progress, paths_of_heads
        )
        if interrupted and at_ctrl_c == "discard":
            raise KeyboardInterrupt
        keeps = at_ctrl_c != "discard" or unmerged_dir is not None
        dropped = {m["drive"]: int(m["dropped"]) for m in _TOTAL.finditer(output)}
        if paths_of_heads is not None:
            dropped = paths_of_heads.write_files()
        if failure:
            raise DeviceError(f"blktrace failed: {failure}")
        recordings = []
        for path in paths:
            lost = dropped.get(path.stem, 0)
            merged = scratch / path.name
            events = blktrace.merge(scratch / path.stem, merged, lost)
            with os_errors(path):
                merged.replace(path)
            for part in scratch.glob(f"{path.stem}.blktrace.*"):
                part.unlink()
            recordings.append(Recording(path.stem, path, events, lost))
        keeps = False
    except BaseException as error:
        for merged in scratch.glob("*.blk"):
            merged.unlink()
        left = [path for path in scratch.glob("*.blktrace.*") if path.stat().st_size]
        keeps = keeps and bool(left)
        if not keeps:
            raise
        kept = Path(unmerged_dir or out_dir) / scratch.name
        scratch.rename(kept)
        names = sorted({str(kept / path.name.split(".blktrace.")[0]) for path in left})
        words = (
            "the recorded events are kept, and every command can read them: "
            f"linnapp inspect {' '.join(names)}"
        )
        if isinstance(error, KeyboardInterrupt):
            warnings.warn(f"{kept}: {words}", TraceWarning, stacklevel=2)
            raise
        message = str(error).replace(str(scratch), str(kept))
        raise UnmergedError(f"{message}; {words}") from error
    finally:
        if not keeps:
            shutil.rmtree(scratch, ignore_errors=True)
    if interrupted and at_ctrl_c == "keep":
        raise KeyboardInterrupt
    return recordings, status


def _run_blktrace(
    devices: Sequence[Path],
    scratch: Path,
    duration_s: float | None,
    command: Sequence[str],
    on_progress: Callable[[RecordingProgress], None] | None,
    paths_of_heads: PathRecorder | None,
) -> tuple[int, str, bool, str]:
    """Return the command's exit status, blktrace's output, whether ctrl-C ended it, its failure."""
    arguments = ["blktrace", "-D", str(scratch), "-n", str(_BUFFERS)]
    arguments += ["-b", str(_buffer_kib(len(devices), os.cpu_count() or 1))]
    for device in devices:
        arguments += ["-d", str(device.resolve())]
    for action in ACTIONS:
        arguments += ["-a", action]
    log = scratch / "blktrace.log"
    _wait_for_other_traces(devices)
    status, interrupted, ended = 0, False, False
    tracer: subprocess.Popen[bytes] | None = None
    try:
        with log.open("wb") as stream, signals_held():
            tracer = subprocess.Popen(
                arguments,
                stdout=stream,
                stderr=subprocess.STDOUT,
                # Its own session: ctrl-C in the terminal reaches only this process, which then ends
                # blktrace.
                start_new_session=True,
                # If this process is killed, blktrace must not run forever and block the next
                # recording.
                preexec_fn=lambda: end_with_parent(signal.SIGINT),
            )
        _wait_until_tracing(devices, tracer, log)
        with contextlib.nullcontext() if paths_of_heads is None else paths_of_heads.recording():
            status = _wait_for_end(devices, scratch, tracer, duration_s, command, on_progress)
        # blktrace records until it receives a signal.
        ended = tracer.poll() is not None
    except KeyboardInterrupt:
        if tracer is None:
            raise
        interrupted = True
    finally:
        if tracer is not None and tracer.poll() is None:
            tracer.send_signal(signal.SIGINT)
            try:
                tracer.wait(timeout=60)
            except subprocess.TimeoutExpired:
                tracer.kill()
                tracer.wait()
    output = log.read_text(errors="replace")
    has_failed = ended or "FAILED" in output or tracer.returncode not in (0, -signal.SIGINT)
    failure = _failure(output, tracer.returncode) if has_failed else ""
    return status, output, interrupted, failure


def _buffer_kib(n_devices: int, n_cpus: int) -> int:
    """Return the size in KiB of each of the buffers that every drive has on every CPU."""
    share_kib = _ALL_BUFFERS_KIB // (n_devices * n_cpus * _BUFFERS)
    return min(_BUFFER_KIB, max(_LEAST_BUFFER_KIB, share_kib))


def _is_traced(device: Path) -> bool:
    """Return true if the kernel is currently tracing this drive for blktrace."""
    return (_DEBUGFS / "block" / device.resolve().name / "dropped").exists()


def _wait_for_other_traces(devices: Sequence[Path]) -> None:
    """Wait until the blktrace of a killed recording has ended: a drive has one reader at a time."""
    deadline = time.monotonic() + _ORPHAN_S
    while any(map(_is_traced, devices)) and time.monotonic() < deadline:
        time.sleep(0.1)


def _wait_until_tracing(
    devices: Sequence[Path], tracer: subprocess.Popen[bytes], log: Path
) -> None:
    deadline = time.monotonic() + 30
    # The files appear during setup. Tracing starts once all threads of blktrace are running. If the
    # kernel refuses to open the files, blktrace prints a message, but its exit status is 0.
    up_at: float | None = None
    while up_at is None or time.monotonic() < up_at + 0.2:
        output = log.read_text(errors="replace")
        if tracer.poll() is not None or "FAILED" in output or time.monotonic() > deadline:
            if tracer.poll() is not None:
                output = log.read_text(errors="replace")
            raise DeviceError(f"blktrace did not start: {_failure(output, tracer.returncode)}")
        time.sleep(0.01)
        if up_at is None and all(map(_is_traced, devices)):
            up_at = time.monotonic()


def _wait_for_end(
    devices: Sequence[Path],
    scratch: Path,
    tracer: subprocess.Popen[bytes],
    duration_s: float | None,
    command: Sequence[str],
    on_progress: Callable[[RecordingProgress], None] | None,
) -> int:
    child = None
    try:
        if command:
            with signals_held():
                child = start_command(command)
        start = time.monotonic()
        with _ends([process for process in (tracer, child) if process is not None]) as ends:
            while tracer.poll() is None:
                if child is not None and (status := child.poll()) is not None:
                    return exit_status(status)
                # Unnecessary wake-ups would disturb the recording: in the lab, each reading of the
                # clock advances it.
                steps = [] if on_progress is None else [_PROGRESS_EVERY_S]
                if duration_s is not None:
                    steps.append(duration_s - (time.monotonic() - start))
                    if steps[-1] <= 0:
                        break
                ends.poll(min(steps) * 1000 if steps else None)
                if on_progress is not None:
                    on_progress(_progress(devices, scratch, time.monotonic() - start))
        return 0
    finally:
        if child is not None and child.poll() is None:
            child.terminate()
            child.wait()


@contextlib.contextmanager
def _ends(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[select.poll]:
    """Return a poll object that reports when one of several processes ends."""
    ends = select.poll()
    with contextlib.ExitStack() as stack:
        for process in processes:
            fd = os.pidfd_open(process.pid)
            stack.callback(os.close, fd)
            ends.register(fd, select.POLLIN)
        yield ends


def _progress(devices: Sequence[Path], scratch: Path, seconds: float) -> RecordingProgress:
    # blktrace maps its files, and extends them before it writes.
    stats = [path.stat() for path in scratch.glob("*.blktrace.*")]
    size = sum(min(found.st_size, 512 * found.st_blocks) for found in stats)
    dropped = 0
    for device in devices:
        with contextlib.suppress(OSError, ValueError):
            dropped += int((_DEBUGFS / "block" / device.resolve().name / "dropped").read_text())
    return RecordingProgress(seconds, size // _EVENT_BYTES, size, dropped)


def _failure(output: str, status: int | None) -> str:
    words = " ".join(output.split()) or f"exit status {status}"
    if "Permission denied" in words or "Operation not permitted" in words:
        words += " (this kernel denies tracing to this user; run as root on the machine itself)"
    elif "Device or resource busy" in words or "File exists" in words:
        words += (
            " (the drive is being traced already; end the other blktrace first; if it was "
            "killed, stop the tracing that it left on: blktrace -d DRIVE -k)"
        )
    return words


def check_command(command: Sequence[str]) -> None:
    """Check that a command exists and is executable. Raise LinnappError if not."""
    try:
        found = shutil.which(command[0])
    except ValueError as error:  # A NUL character in the name.
        raise LinnappError(f"{command[0]!r}: {error}") from error
    if found is None:
        raise LinnappError(f"{command[0]}: no such command, or not executable")


def start_command(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command. Call this within :func:`linnapp.signals.signals_held` to avoid an orphan."""
    try:
        return subprocess.Popen(list(command))
    except OSError as error:
        raise LinnappError(f"{command[0]}: {error.strerror}") from error


def exit_status(returncode: int) -> int:
    """Return the exit status as a shell does: 128 plus the signal number after a signal."""
    return returncode if returncode >= 0 else 128 - returncode
