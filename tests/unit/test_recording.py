# SPDX-License-Identifier: MIT
"""Errors of recording name the reason and the remedy; traces that were left on are ended."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blktrace_builder import TraceBuilder
from fake_sysfs import FakeSysfs
from running import run

from linnapp.drive import recording
from linnapp.drive.recording import UnmergedError, check_can_trace, drives_to_record, record
from linnapp.errors import DeviceError, LinnappError, TraceWarning
from linnapp.trace.blktrace import BlktraceReader


@pytest.fixture
def machine(sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a machine with a node of sda."""
    sysfs.allow_tracing(monkeypatch)
    (sysfs.tmp_path / "debug" / "block" / "sda").mkdir()
    (sysfs.tmp_path / "sda").touch()
    return sysfs.tmp_path


def test_recording_error_names_each_obstacle(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_trace_refuses_to_overwrite_a_recording(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[object] = []
    real = recording._run_blktrace

    def begin(*arguments: Any) -> Any:
        began.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(recording, "_run_blktrace", begin)
    (machine / "sdb").touch()
    out = machine / "out"
    out.mkdir()
    (out / "sdb.blk").write_bytes(b"of yesterday")
    drives = (machine / "sda", machine / "sdb")
    refused = run("trace", *drives, "-o", out, "--", "touch", machine / "ran")
    assert isinstance(refused.exception, LinnappError), refused.output
    message = f"{out}/sdb.blk: exists already; name another folder, or remove this file"
    assert str(refused.exception) == message
    assert not began and not (machine / "ran").exists()
    assert [path.name for path in out.iterdir()] == ["sdb.blk"]
    assert (out / "sdb.blk").read_bytes() == b"of yesterday"


def test_drive_in_use_is_reported_after_a_wait(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_ORPHAN_S", 0.3)
    (machine / "debug" / "block" / "sda" / "dropped").touch()
    fake_blktrace(machine, monkeypatch, "echo 'BLKTRACESETUP: Device or resource busy'; exit 1")
    begin = time.monotonic()
    with pytest.raises(DeviceError, match="is being traced already; .*blktrace -d DRIVE -k"):
        record([machine / "sda"], machine / "out")
    assert time.monotonic() - begin >= 0.3  # the other trace may have been about to end


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


@pytest.fixture
def tracer() -> Iterator[subprocess.Popen[bytes]]:
    """Start a recording that does not end by itself."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_exit_status_of_the_command_follows_the_shell(
    script: str, status: int, tracer: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    command = ["sh", "-c", script]
    assert recording._wait_for_end([], tmp_path, tracer, None, command, None) == status


def test_command_is_ended_if_ctrl_c_comes_as_it_starts(
    tracer: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = []

    def interrupted(command: list[str]) -> subprocess.Popen[bytes]:
        programs.append(subprocess.Popen(command))
        signal.raise_signal(signal.SIGINT)
        return programs[0]

    monkeypatch.setattr(recording, "start_command", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            recording._wait_for_end([], tmp_path, tracer, None, ["sleep", "600"], None)
    finally:
        signal.signal(signal.SIGINT, before)
        ended = programs[0].poll()
        programs[0].kill()
        programs[0].wait()
    assert ended == -signal.SIGTERM


def small_recording() -> bytes:
    trace = TraceBuilder()
    for i in range(100):
        trace.io(i * 100, i * 100 + 80, i * 8)
    return trace.bytes()


def recorded_files(
    machine: Path, monkeypatch: pytest.MonkeyPatch, contents: dict[str, bytes]
) -> None:
    """Replace blktrace by files that it would have written."""

    def write(_: Any, scratch: Path, *rest: Any) -> tuple[int, str, bool, str]:
        for name, data in contents.items():
            (scratch / name).write_bytes(data)
        return 0, "", False, ""

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
    (kept_folder,) = (machine / "out").iterdir()
    assert {path.name: path.read_bytes() for path in kept_folder.iterdir()} == files
    assert f"every command can read them: linnapp inspect {kept_folder}/sda" in str(raised.value)
    with pytest.raises(LinnappError, match=why) as raised:
        record([machine / "sda"], machine / "temporary", at_ctrl_c="discard")
    assert not list((machine / "temporary").iterdir()) and "kept" not in str(raised.value)
    monkeypatch.undo()
    if second is None:
        assert sum(map(len, BlktraceReader(kept_folder / "sda"))) == 100


def test_files_are_kept_when_ctrl_c_ends_the_merging(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_files(machine, monkeypatch, {"sda.blktrace.0": small_recording()})

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(recording.blktrace, "merge", interrupted)
    with (
        pytest.warns(TraceWarning, match="the recorded events are kept.*inspect"),
        pytest.raises(KeyboardInterrupt),
    ):
        record([machine / "sda"], machine / "out")
    (kept_folder,) = (machine / "out").iterdir()
    assert [path.name for path in kept_folder.iterdir()] == ["sda.blktrace.0"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), LinnappError("no space")])
def test_layers_keeps_files_that_it_cannot_merge(
    machine: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    (machine / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(machine / "temporary"))
    recorded_files(machine, monkeypatch, {"sda.blktrace.0": small_recording()})

    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(recording.blktrace, "merge", fail)
    result = run("layers", "--device", machine / "sda", "--", "true")
    (kept_folder,) = (machine / "temporary").iterdir()
    assert [path.name for path in kept_folder.iterdir()] == ["sda.blktrace.0"]
    assert result.exit_code
    assert f"are kept, and every command can read them: linnapp inspect {kept_folder}/sda" in (
        f"{result.output} {result.exception}"
    )
    assert sum(map(len, BlktraceReader(kept_folder / "sda"))) == 100


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
    with pytest.raises(UnmergedError, match="blktrace failed: exit status 3.*are kept"):
        record([machine / "sda"], machine / "out")
    (kept_folder,) = (machine / "out").iterdir()
    assert sum(map(len, BlktraceReader(kept_folder / "sda"))) == 100
