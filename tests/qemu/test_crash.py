# SPDX-License-Identifier: MIT
"""Crashes of QEMU: a guest that crashes before its command begins is restarted, later not."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from linnapp.lab.guest import CrashError
from linnapp.lab.qemu import DEFAULT_KERNEL, QEMU, QemuGuest, run

pytestmark = pytest.mark.qemu


def _first_time_it_crashes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a QEMU on the PATH that dies of SIGSEGV once; return the file that it then leaves."""
    crashed, program = folder / "crashed", folder / "bin" / QEMU
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        # The probe for KVM has no console, so it does not count.
        'case "$*" in *console*) ;; *) exit 1 ;; esac\n'
        f"[ -e {crashed} ] || {{ : >{crashed}; kill -SEGV $$; }}\n"
        f'exec {shutil.which(QEMU)} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return crashed


def test_guest_is_started_again_when_qemu_crashes_during_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    crashed = _first_time_it_crashes(tmp_path, monkeypatch)
    out = io.BytesIO()
    guest = QemuGuest(kernel=DEFAULT_KERNEL, n_drives=1, accel="tcg", timeout_s=600)
    assert run(["echo", "ran"], guest, stdout=out, stderr=io.BytesIO()).status == 0
    assert crashed.exists() and out.getvalue() == b"ran\n"
    assert f"{QEMU} crashed while the guest booted: once more" in capsys.readouterr().err


def test_command_is_not_repeated_when_qemu_crashes_after_it_began(tmp_path: Path) -> None:
    began = tmp_path / "began"

    def crash() -> None:
        while not began.exists():
            time.sleep(0.1)
        # Only the QEMU whose guest writes to this folder.
        subprocess.run(["pkill", "-SEGV", "-f", f"{QEMU}.*path={tmp_path}"], check=True)

    guest = QemuGuest(
        kernel=DEFAULT_KERNEL, n_drives=1, accel="tcg", out_dir=tmp_path, timeout_s=600
    )
    killer = threading.Thread(target=crash, daemon=True)
    killer.start()
    with pytest.raises(CrashError, match=signal.SIGSEGV.name) as crashed:
        script = f"echo once >>{tmp_path}/times; : >{began}; sleep 1000"
        run(["sh", "-c", script], guest, stdout=io.BytesIO(), stderr=io.BytesIO())
    killer.join()
    assert crashed.value.began
    assert (tmp_path / "times").read_text() == "once\n"
