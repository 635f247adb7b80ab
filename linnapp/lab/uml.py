# SPDX-License-Identifier: MIT
"""Boot a user-mode Linux guest in virtual time and run one command in it.

The guest's root is the host's own file system, read-only; it can write to
tmpfs and to one folder of the host. Time in the guest moves only when nothing
in it can run (`time-travel=inf-cpu`), so a latency measured there does not
depend on how busy the host is.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from linnapp.lab.guest import REPOSITORY, Guest, LabError, Result, boot

INIT = Path(__file__).with_name("init.sh")
DEFAULT_KERNEL = REPOSITORY / "build" / "linux-um" / "linux"

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
    terminal = bool(getattr(out, "isatty", lambda: False)())

    def machine(control: Path, out_fd: int, err_fd: int) -> tuple[list[str], dict[str, str]]:
        return _arguments(guest, control, out_fd, err_fd, terminal=terminal), {
            **os.environ,
            "HOME": str(control),
            "TMPDIR": _tmpfs_dir(),
        }

    return boot(
        command,
        guest,
        machine,
        lambda path: f"mount -t hostfs -o {path} none {path}",
        cwd=cwd,
        stdout=out,
        stderr=stderr,
    )


def _arguments(
    guest: Guest, control: Path, out_fd: int, err_fd: int, *, terminal: bool
) -> list[str]:
    return [
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
        f"ssl0=null,fd:{out_fd}",
        f"ssl1=null,fd:{err_fd}",
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
        *(["linnos_tty=1"] if terminal else []),
    ]


def _tmpfs_dir() -> str:
    """A folder for the guest's memory file; tmpfs, or it would be written to disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
