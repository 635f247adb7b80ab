# SPDX-License-Identifier: MIT
"""Errors of recording name the reason and the remedy; traces that were left on are ended."""

from __future__ import annotations

import errno
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from blktrace_builder import TraceBuilder
from running import run
from starting import interrupted_as_it_starts

from linnapp.drive import recording, tracefs
from linnapp.drive.disks import drives_to_record
from linnapp.drive.recording import UnmergedError, check_can_trace, record
from linnapp.errors import DeviceError, LinnappError, TraceWarning
from linnapp.trace.blktrace import BlktraceReader


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user root with debugfs, no lockdown, and blktrace."""
    (tmp_path / "debug" / "block" / "sda").mkdir(parents=True)
    (tmp_path / "lockdown").write_text("[none] integrity confidentiality\n")
    monkeypatch.setattr(recording, "_DEBUGFS", tmp_path / "debug")
    monkeypatch.setattr(tracefs, "_LOCKDOWN", tmp_path / "lockdown")
    monkeypatch.setattr(recording.shutil, "which", lambda _: "/usr/bin/blktrace")
    monkeypatch.setattr(recording.os, "geteuid", lambda: 0)
    monkeypatch.setattr(recording.stat, "S_ISBLK", lambda _: True)
    (tmp_path / "sda").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("user", "state", "why"),
    [
        (1000, "none", "needs root"),
        (0, "confidentiality", r"locked down \(confidentiality\).* root, too.*lab run"),
        (0, "none", "denies it to root, too"),
    ],
)
def test_traceable_functions_names_the_reason_when_access_is_denied(
    machine: Path, monkeypatch: pytest.MonkeyPatch, user: int, state: str, why: str
) -> None:
    """A locked-down kernel has tracefs, but does not let any process read it."""
    monkeypatch.setattr(tracefs.os, "geteuid", lambda: user)
    states = "none integrity confidentiality".replace(state, f"[{state}]")
    (machine / "lockdown").write_text(f"{states}\n")
    (machine / "kernel" / "tracing" / "events").mkdir(parents=True)
    monkeypatch.setenv("LINNAPP_SYSFS", str(machine))

    def denied(path: Path) -> str:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path))

    real = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path: real(path) if path.name == "lockdown"
                        else denied(path))  # fmt: skip
    with pytest.raises(DeviceError, match=why) as error:
        tracefs.traceable_functions()
    assert ("needs root" in str(error.value)) == (user != 0)


def test_check_can_trace_passes_on_a_suitable_machine(machine: Path) -> None:
    check_can_trace([machine / "sda"])


def test_each_obstacle_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(message: str) -> None:
        with pytest.raises(DeviceError, match=message):
            check_can_trace([machine / "sda"])

    with monkeypatch.context() as m:
        m.setattr(recording.shutil, "which", lambda _: None)
        refused("blktrace is not installed; .*apt-get install blktrace")
    with monkeypatch.context() as m:
        m.setattr(recording.os, "geteuid", lambda: 1000)
        refused("needs root; .*sudo")
    (machine / "lockdown").write_text("none integrity [confidentiality]\n")
    refused("locked down .*linnapp lab run")
    (machine / "lockdown").unlink()
    (machine / "debug" / "block" / "sda").rmdir()
    (machine / "debug" / "block").rmdir()
    refused("debugfs is not mounted; run: mount -t debugfs")
    (machine / "debug" / "other").mkdir()
    refused("lacks CONFIG_BLK_DEV_IO_TRACE")
    monkeypatch.undo()
    with pytest.raises(DeviceError, match="nope: No such file"):
        check_can_trace([machine / "nope"])
    with pytest.raises(DeviceError, match="not a block device"):
        check_can_trace([machine / "sda"])


def test_a_recording_is_never_written_over(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[object] = []
    real = recording._run_blktrace

    def begin(*given: Any) -> Any:
        began.append(given)
        return real(*given)

    monkeypatch.setattr(recording, "_run_blktrace", begin)
    (machine / "sdb").touch()
    out = machine / "out"
    out.mkdir()
    (out / "sdb.blk").write_bytes(b"of yesterday")
    drives = (machine / "sda", machine / "sdb")
    refused = run("trace", *drives, "-o", out, "--", "touch", machine / "ran")
    assert isinstance(refused.exception, LinnappError), refused.output
    said = f"{out}/sdb.blk: is there already; name another folder, or remove this one"
    assert str(refused.exception) == said
    assert not began and not (machine / "ran").exists()
    assert [path.name for path in out.iterdir()] == ["sdb.blk"]
    assert (out / "sdb.blk").read_bytes() == b"of yesterday"


@pytest.mark.parametrize(
    ("lockdown", "words", "remedy"),
    [
        ("[none] integrity", "BLKTRACESETUP: Operation not permitted", "run as root"),
        ("[none]", "BLKTRACESETUP: Device or resource busy", "end the other blktrace"),
        ("[none]", "", "exit status 7"),
    ],
)
def test_messages_of_blktrace_are_explained(
    machine: Path, lockdown: str, words: str, remedy: str
) -> None:
    (machine / "lockdown").write_text(lockdown)
    text = recording._failure(words, 7)
    assert words in text and remedy in text


class _Ioctls:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, _: Any, request: int) -> None:
        self.seen.append(request)


def test_abandoned_trace_is_ended(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ioctls = _Ioctls()
    monkeypatch.setattr(recording.fcntl, "ioctl", ioctls)
    recording._end_abandoned_traces([machine / "sda"])
    assert not ioctls.seen  # none is on
    (machine / "debug" / "block" / "sda" / "dropped").touch()
    recording._end_abandoned_traces([machine / "sda"])
    assert ioctls.seen == [0x1275, 0x1276]


def test_trace_in_use_is_left_running(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ioctls = _Ioctls()
    monkeypatch.setattr(recording.fcntl, "ioctl", ioctls)
    monkeypatch.setattr(recording, "_ORPHAN_S", 0.3)
    directory = machine / "debug" / "block" / "sda"
    (directory / "dropped").touch()
    with (directory / "trace0").open("w"):
        begin = time.monotonic()
        recording._end_abandoned_traces([machine / "sda"])
        assert time.monotonic() - begin >= 0.3  # it may have been about to end
    assert not ioctls.seen


def test_drives_that_serve_requests_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINNAPP_SYSFS", str(tmp_path))
    for disk, has_queues, sectors, below in (
        ("null", True, 8, ""),
        ("dm-0", True, 8, "null"),
        ("zero", True, 0, ""),
        ("full", False, 8, ""),
        ("vanished0", True, 8, ""),
    ):
        folder = tmp_path / "block" / disk
        (folder / "slaves" / below).mkdir(parents=True)
        if has_queues:
            (folder / "mq").mkdir()
        (folder / "size").write_text(f"{sectors}\n")
    (tmp_path / "block" / "going" / "mq").mkdir(parents=True)
    assert drives_to_record() == [Path("/dev/null")]
    (tmp_path / "block" / "null" / "size").write_text("")
    with pytest.raises(DeviceError, match=r"no disk under .* serves requests"):
        drives_to_record()


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_exit_status_of_the_command_follows_the_shell(
    script: str, status: int, tmp_path: Path
) -> None:
    tracer = subprocess.Popen(["sleep", "60"])
    try:
        command = ["sh", "-c", script]
        assert recording._wait_for_end([], tmp_path, tracer, None, command, None) == status
    finally:
        tracer.kill()
        tracer.wait()


def test_progress_excludes_preallocated_file_space(tmp_path: Path) -> None:
    """blktrace extends the file in advance, by 16 MiB per drive and CPU."""
    with (tmp_path / "sda.blktrace.0").open("wb") as stream:
        stream.write(b"x" * 4096)
        stream.truncate(16 << 20)
    assert 4096 <= recording._progress([], tmp_path, 1.0).size_bytes < 1 << 20


def test_trace_buffers_are_smaller_with_many_drives() -> None:
    assert recording._buffer_kib(3, 2) == recording._buffer_kib(2, 64) == 1024
    assert recording._buffer_kib(24, 64) == 85
    assert recording._buffer_kib(1000, 256) == 64


def test_starting_command_is_ended_on_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt before the command is known takes effect once it is known."""
    programs = interrupted_as_it_starts(recording, monkeypatch)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    tracer = subprocess.Popen(["sleep", "600"])
    try:
        with pytest.raises(KeyboardInterrupt):
            recording._wait_for_end([], tmp_path, tracer, None, ["sleep", "600"], None)
        assert programs[0].poll() == -signal.SIGTERM
    finally:
        signal.signal(signal.SIGINT, before)
        for program in (tracer, *programs):
            program.kill()
            program.wait()


def small_recording() -> bytes:
    trace = TraceBuilder()
    for i in range(100):
        trace.io(i * 100, i * 100 + 80, i * 8)
    return trace.bytes()


def recorded_files(
    machine: Path, monkeypatch: pytest.MonkeyPatch, contents: dict[str, bytes]
) -> None:
    """Replace blktrace by files that it would have written."""

    def write(_: Any, scratch: Path, *rest: Any) -> tuple[int, str, bool]:
        for name, data in contents.items():
            (scratch / name).write_bytes(data)
        return 0, "", False

    monkeypatch.setattr(recording, "_run_blktrace", write)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (b"\x01" * 96, "not a blktrace file"),
        (b"\x09tae" + bytes(60), "blktrace version 9"),
        (None, "No space left on device"),
    ],
)
def test_unmergeable_files_are_kept(
    machine: Path, monkeypatch: pytest.MonkeyPatch, second: bytes | None, why: str
) -> None:
    data = small_recording()
    files = {"sda.blktrace.0": data, "sda.blktrace.1": second or b""}
    recorded_files(machine, monkeypatch, files)
    if second is None:

        def full(trace: Path, target: Path, dropped: int) -> int:
            target.write_bytes(b"a part of it")
            raise LinnappError(f"{target}: No space left on device")

        monkeypatch.setattr(recording.blktrace, "merge", full)
    with pytest.raises(UnmergedError, match=why) as raised:
        record([machine / "sda"], machine / "out")
    (kept,) = (machine / "out").iterdir()
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == files
    assert f"every command reads it as it is: linnapp inspect {kept}/sda" in str(raised.value)
    monkeypatch.undo()
    if second is None:
        assert sum(map(len, BlktraceReader(kept / "sda"))) == 100


def test_files_are_kept_when_ctrl_c_ends_the_merging(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_files(machine, monkeypatch, {"sda.blktrace.0": small_recording()})

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(recording.blktrace, "merge", interrupted)
    with (
        pytest.warns(TraceWarning, match="what was recorded is kept.*inspect"),
        pytest.raises(KeyboardInterrupt),
    ):
        record([machine / "sda"], machine / "out", unmerged_dir=machine / "elsewhere")
    (kept,) = (machine / "elsewhere").iterdir()
    assert [path.name for path in kept.iterdir()] == ["sda.blktrace.0"]
    assert not list((machine / "out").iterdir())


def fake_blktrace(machine: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Replace blktrace by a shell script; $D in it is the drive's folder in debugfs."""
    program = machine / "bin" / "blktrace"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nD={machine}/debug/block/sda\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


@pytest.mark.parametrize("set_up", ["", "touch $D/dropped; sleep 0.1;", "touch $D/dropped;"])
def test_blktrace_that_fails_with_status_0_is_found_before_the_command_runs(
    machine: Path, monkeypatch: pytest.MonkeyPatch, set_up: str
) -> None:
    words = "FAILED to start thread on CPU 0: Operation not permitted"
    fake_blktrace(machine, monkeypatch, f"{set_up} echo '{words}' >&2; rm -f $D/dropped; exit 0")
    with pytest.raises(DeviceError, match=f"blktrace did not start: {words} .this kernel denies"):
        record([machine / "sda"], machine / "out", command=["touch", str(machine / "ran")])
    assert not (machine / "ran").exists()
    assert not list((machine / "out").iterdir())


def test_recording_is_kept_when_blktrace_ends_by_itself(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "data").write_bytes(small_recording())
    script = f"cat {machine}/data >$2/sda.blktrace.0; touch $D/dropped; sleep 1; exit 3"
    fake_blktrace(machine, monkeypatch, script)
    with pytest.raises(UnmergedError, match="blktrace failed: exit status 3.*is kept"):
        record([machine / "sda"], machine / "out")
    (kept,) = (machine / "out").iterdir()
    assert sum(map(len, BlktraceReader(kept / "sda"))) == 100
