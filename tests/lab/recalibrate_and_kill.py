# SPDX-License-Identifier: MIT
"""Runs in the guest: recalibrate loaded drives, and kill the command at every step.

Each run of `linnapp recalibrate` is a separate process, forked after the slow import of
TensorFlow, that gets SIGKILL at one step. After the recording, the run forks at each step, so that
no work is repeated: the copy continues and dies at its step, the run itself waits and completes in
the end. After each death the script prints the state of every drive: its mode, its model, and the
number of decisions about some hinted reads. One JSON object per line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from linnapp import files, stats
from linnapp.cli import cli
from linnapp.drive import comparison, recalibration, state
from linnapp.drive.switches import run_directory
from linnapp.drive.sysfs import Drive
from linnapp.learn import fit as recipe
from linnapp.learn import network as training
from linnapp.learn.network import import_tensorflow
from linnapp.model import Model
from linnapp.trace import blktrace

RWF_LATCRIT = 0x8000

# Recordings of two seconds, which a calm load is the same in all the time, are to be long enough.
stats.BLOCK_S, comparison.MIN_BLOCK_READS = 0.03, 10
HINTED_READS = 50

#: Bytes of a model that the kernel accepts per write.
PAGE_BYTES = 4096


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def before(target: Any, name: str, call: int = 1) -> Any:
    """Die at the nth call of `target.name`."""
    return _at(target, name, call, after=False)


def after(target: Any, name: str, call: int = 1) -> Any:
    """Die after the nth call of `target.name`."""
    return _at(target, name, call, after=True)


def _at(target: Any, name: str, call: int, *, after: bool) -> Any:
    real = getattr(target, name)
    calls = 0

    def counted(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and not after:
            die()
        result = real(*arguments, **keywords)
        if calls == call:
            die()
        return result

    return mock.patch.object(target, name, counted)


@contextlib.contextmanager
def while_recording(*, tracer_too: bool) -> Iterator[None]:
    """Die half a second after tracing was switched on; the tracer may be killed first."""

    def later() -> None:
        while not Path("/sys/kernel/debug/block/flash0/dropped").exists():
            time.sleep(0.01)
        time.sleep(0.5)
        if tracer_too:
            subprocess.run(["pkill", "-KILL", "-x", "blktrace", "-P", str(os.getpid())], check=True)
        die()

    threading.Thread(target=later, daemon=True).start()
    yield


@contextlib.contextmanager
def half_uploaded() -> Iterator[None]:
    """Die when half of a model's pages are written to the kernel's file."""
    real = Path.open

    def opened(self: Path, mode: str = "r", *arguments: Any, **keywords: Any) -> Any:
        stream = real(self, mode, *arguments, **keywords)
        if self.name == "model" and "w" in mode:
            part = memoryview(Model.load(NEW[-1]).to_bytes())
            part = part[: len(part) // 2 // PAGE_BYTES * PAGE_BYTES]
            while part:
                part = part[stream.write(part) :]
            die()
        return stream

    with mock.patch.object(Path, "open", opened):
        yield


#: Model files that are loaded for the upload.
NEW: list[Path] = []

#: References to patches; a patch that is garbage collected is undone.
KEPT: list[Any] = []

#: Steps at which a run dies without a copy, with a tracer to end.
WHILE_RECORDING: dict[str, Callable[[], Any]] = {
    "recording": lambda: while_recording(tracer_too=False),
    "recording, tracer too": lambda: while_recording(tracer_too=True),
}

#: Steps at which the copies made at the first upload die.
WHILE_UPLOADING: dict[str, Callable[[], Any]] = {
    "half uploaded": half_uploaded,
    "uploaded": lambda: after(Drive, "upload"),
    "second upload": lambda: before(recalibration, "_upload"),
    "second uploaded": lambda: after(Drive, "upload", 2),
    "remembering": lambda: before(state, "drive_directory", 3),
}


@contextlib.contextmanager
def copies(report: Callable[[str, int], None], reset: Callable[[], None]) -> Iterator[None]:
    """Fork at the steps after the recording; each copy dies at its step."""

    def copy(step: str, at: Callable[[], Any] | None) -> bool:
        """Return True in the copy, and False in the run, after the copy's death was reported."""
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            if at is None:
                die()
            else:
                KEPT.append(at())
                KEPT[-1].__enter__()  # until death
            return True
        report(step, os.waitpid(pid, 0)[1])
        reset()
        return False

    def hook(target: Any, name: str, action: Callable[[], object], *, after: bool) -> None:
        """Run `action` at the first call of `target.name`."""
        real = getattr(target, name)

        def called(*arguments: Any, **keywords: Any) -> Any:
            patch.stop()
            if not after:
                action()
            result = real(*arguments, **keywords)
            if after:
                action()
            return result

        patch = mock.patch.object(target, name, called)
        patch.start()

    hook(blktrace, "merge", lambda: copy("merging", None), after=True)
    hook(
        recalibration,
        "find_inflection_points",
        lambda: copy("labelling", None) or copy("training", lambda: before(training, "_judged", 3)),
        after=False,
    )
    hook(recipe, "save_drive", lambda: copy("saving", None), after=True)
    hook(files, "_put_in_place", lambda: copy("renaming", None), after=False)
    hook(
        recalibration,
        "_upload",
        lambda: (
            copy("uploading", None) or any(copy(step, at) for step, at in WHILE_UPLOADING.items())
        ),
        after=False,
    )
    yield


def run(arguments: list[str], log: Path, at: Any) -> int:
    """Run `linnapp recalibrate` in a separate process; return its wait status."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(fd, 1)
            os.dup2(fd, 2)
            real = recalibration.load_model

            def load(path: Path) -> Any:
                NEW.append(path)
                return real(path)

            with mock.patch.object(recalibration, "load_model", load), at:
                cli.main(["recalibrate", *arguments], standalone_mode=False)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitpid(pid, 0)[1]


def hinted_reads(device: str) -> dict[str, int]:
    """Submit some hinted reads; return the number of decisions and their results."""
    # Also for a probe, because it was predicted slow first.
    inferences = Path("/sys/block") / Path(device).name / "linnos" / "stats" / "inferences"
    begin = int(inferences.read_text())
    fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, 4096)
    answered = revoked = 0
    for number in range(HINTED_READS):
        try:
            answered += os.preadv(fd, [buffer], number * 4096, RWF_LATCRIT) == 4096
        except BlockingIOError:
            raise
        except OSError as error:
            assert error.errno == 16, error
            revoked += 1
    os.close(fd)
    end = int(inferences.read_text())
    return {"answered": answered, "revoked": revoked, "decisions": end - begin}


def look(devices: list[str]) -> dict[str, Any]:
    """Return the state of every drive."""
    found = {}
    for device in devices:
        drive = Drive(device)
        data = drive.read_model()
        model = None if data is None else Model.from_bytes(data)  # checks its checksum
        found[drive.name] = {
            "mode": drive.mode,
            "model_id": drive.model_id,
            "whole": model is not None and model.model_id == drive.model_id,
            "threshold_us": drive.threshold_us,
            **hinted_reads(device),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", nargs="+", required=True)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("options", nargs="*")
    given = parser.parse_args()
    old = Model.load(given.old)

    def reset() -> None:
        for device in given.devices:
            Drive(device).upload(old)
            Drive(device).set_mode("enforce")

    results = os.fdopen(os.dup(1), "w", buffering=1)

    def report(step: str, status: int) -> None:
        record = {"step": step, "signal": os.WTERMSIG(status), "status": os.WEXITSTATUS(status)}
        found = {"drives": look(given.devices), "traced": _is_traced(given.devices)}
        results.write(json.dumps({**record, **found}) + "\n")

    def one(step: str, at: Any) -> None:
        with given.log.open("a") as log:
            log.write(f"--- {step}\n")
        status = run(arguments, given.log, at)
        # A second process restores the modes if the run was killed during the recording.
        for _ in range(1000):
            if not list(run_directory().glob("*")):
                break
            time.sleep(0.01)
        report(step, status)

    import_tensorflow()
    arguments = [*given.devices, "--models", str(given.models), *given.options]
    for step, at in WHILE_RECORDING.items():
        reset()
        one(step, at())
    reset()
    one("first whole run", copies(report, reset))
    one("second whole run", contextlib.nullcontext())


def _is_traced(devices: list[str]) -> bool:
    """Return true if a drive is still traced after the time for an orderly end."""
    files = [Path(f"/sys/kernel/debug/block/{Path(d).name}/dropped") for d in devices]
    for _ in range(100):
        if not any(file.exists() for file in files):
            return False
        time.sleep(0.01)
    return True


if __name__ == "__main__":
    main()
