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
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

INIT = Path(__file__).with_name("init.sh")

#: Wall clock at boot, the same in every run so that a run repeats exactly.
WALL_CLOCK_START_NS = 1_600_000_000 * 10**9


class LabError(RuntimeError):
    """The guest could not be booted, or died before its command ended."""


@dataclass
class Guest:
    """What to boot.

    Attributes
    ----------
    kernel : Path
        The UML kernel, an ordinary executable.
    memory_mb : int
        Guest memory; it holds the content of the emulated drives.
    out_dir : Path or None
        The one folder of the host that the guest may write to, seen there
        under the same path.
    setup : str
        Shell commands that run before the user's; the first failure ends the
        boot.
    environment : mapping
        Added to the command's environment.
    kernel_args : sequence of str
        More kernel parameters.
    timeout_s : float or None
        Host seconds after which the guest is stopped.
    """

    kernel: Path
    memory_mb: int = 3072
    out_dir: Path | None = None
    setup: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    kernel_args: Sequence[str] = ()
    timeout_s: float | None = None


@dataclass(frozen=True)
class Result:
    """How a command in the guest ended.

    Attributes
    ----------
    status : int
        Its exit status.
    dmesg : str
        The guest's kernel log.
    """

    status: int
    dmesg: str


def _command_script(command: Sequence[str], guest: Guest, cwd: Path) -> str:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/run/home",
        "TMPDIR": "/run/tmp",
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "TERM": os.environ.get("TERM", "dumb"),
        # A run must not depend on the order of a hash table.
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        **guest.environment,
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    lines.append(f"cd {shlex.quote(str(cwd))} || exit 125")
    lines.append("exec " + shlex.join(command))
    return "\n".join(lines) + "\n"


def _pump(source: BinaryIO, sink: BinaryIO) -> None:
    while chunk := os.read(source.fileno(), 65536):
        try:
            sink.write(chunk)
            sink.flush()
        except (BrokenPipeError, ValueError):
            # The reader of our output went away; the guest must still be
            # drained, or it would wait for ever.
            continue


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
        (control / "setup.sh").write_text(mount + guest.setup)
        (control / "command.sh").write_text(_command_script(command, guest, cwd or Path.cwd()))

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
        with open(control / "console", "wb") as console:
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
        pumps = []
        for fd, sink in ((out_read, out), (err_read, err)):
            source = os.fdopen(fd, "rb", buffering=0)
            pump = threading.Thread(target=_pump, args=(source, sink), daemon=True)
            pump.start()
            pumps.append((pump, source))
        try:
            process.wait(timeout=guest.timeout_s)
        except subprocess.TimeoutExpired:
            raise LabError(
                f"the guest did not finish within {guest.timeout_s:g} s: stopped"
            ) from None
        finally:
            # UML is several processes; whatever is left of them goes too,
            # also when the user pressed ctrl-C.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            for pump, source in pumps:
                pump.join(timeout=5)
                source.close()
        return _result(control)


def _tmpfs_dir() -> str:
    """A folder for the guest's memory file; tmpfs, or it would be written to disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


def _result(control: Path) -> Result:
    try:
        status = (control / "status").read_text().strip()
        dmesg = (control / "dmesg").read_text(errors="replace")
    except FileNotFoundError:
        console = (control / "console").read_text(errors="replace")
        tail = "\n".join(console.splitlines()[-30:])
        raise LabError(f"the guest died before its command ended; its last words:\n{tail}") from None
    if status == "setup":
        raise LabError("the lab could not be set up; see the message above")
    return Result(int(status), dmesg)
