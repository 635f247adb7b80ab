# SPDX-License-Identifier: MIT
"""Boot a user-mode Linux guest in virtual time and run one command in it.

The guest's root is the host's own file system, read-only; it can write to
tmpfs and to one folder of the host. Time in the guest moves only when nothing
in it can run (`time-travel=inf-cpu`), so a latency measured there does not
depend on how busy the host is.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from linnapp.lab.guest import Guest, LabError, Result, read_result, wait_for, write_control

INIT = Path(__file__).with_name("init.sh")

#: Wall clock at boot, the same in every run so that a run repeats exactly.
WALL_CLOCK_START_NS = 1_600_000_000 * 10**9


def run(
    command: Sequence[str],
    guest: Guest,
    *,
    cwd: Path | None = None,
    stdout: BinaryIO | None = None,
    stderr: BinaryIO | None = None,
) -> Result:
    """Run a command in a freshly booted guest and wait for it.

    Parameters
    ----------
    command : sequence of str
        Program and arguments, found through the host's PATH.
    guest : Guest
        What to boot.
    cwd : Path, optional
        Working folder of the command, by default the caller's.
    stdout, stderr : binary file, optional
        Where the command's output goes while it runs, by default to this
        process's own.

    Returns
    -------
    Result

    Raises
    ------
    LabError
        When the kernel is missing, does not boot, crashes, or does not
        finish within ``guest.timeout_s``.
    """
    if not os.access(guest.kernel, os.X_OK):
        raise LabError(f"{guest.kernel}: no lab kernel there; `make kernel` builds it")
    out = stdout if stdout is not None else sys.stdout.buffer
    err = stderr if stderr is not None else sys.stderr.buffer

    with tempfile.TemporaryDirectory(prefix="linnos-lab-") as name:
        control = Path(name)
        mount = ""
        if guest.out_dir is not None:
            out_dir = guest.out_dir.resolve()
            out_dir.mkdir(parents=True, exist_ok=True)
            quoted = shlex.quote(str(out_dir))
            mount = f"mount -t hostfs -o {quoted} none {quoted}\n"
        write_control(control, command, guest, cwd or Path.cwd(), mount)

        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        arguments = [
            str(guest.kernel),
            f"mem={guest.memory_mb}M",
            "root=/dev/root",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            "quiet",
            "time-travel=inf-cpu",
            f"time-travel-start={WALL_CLOCK_START_NS}",
            "con=null",
            "ssl=null",
            "con0=null,fd:2",
            f"ssl0=null,fd:{out_write}",
            f"ssl1=null,fd:{err_write}",
            f"uml_dir={control}/",
            "umid=guest",
            "panic=-1",
            "log_buf_len=4M",
            "init=/bin/sh",
            f"linnos_control={control}",
            *guest.kernel_args,
            # After the dashes: what the kernel hands to init.
            "--",
            str(INIT),
        ]
        if getattr(out, "isatty", lambda: False)():
            arguments.append("linnos_tty=1")
        with (control / "console").open("wb") as console:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                pass_fds=(out_write, err_write),
                env={**os.environ, "HOME": name, "TMPDIR": _tmpfs_dir()},
                start_new_session=True,
            )
        os.close(out_write)
        os.close(err_write)
        wait_for(process, [(out_read, out), (err_read, err)], guest.timeout_s)
        return read_result(control)


def _tmpfs_dir() -> str:
    """A folder for the guest's memory file; tmpfs, or it would be written to disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
