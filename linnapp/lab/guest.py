# SPDX-License-Identifier: MIT
"""Boot a guest, run a command in it and report its outcome: the parts that both labs share.

Both labs share a folder with their guest for one boot, the control folder:
it contains setup.sh and command.sh for the guest, which writes status and dmesg. The
command's environment has only the variables that it is given, not the caller's.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from linnapp.errors import LinnappError

#: Root of the repository, which contains the output of `make`.
REPOSITORY = Path(__file__).resolve().parents[2]

#: False if linnapp is installed; then REPOSITORY is the folder that contains the package.
IN_CLONE = (REPOSITORY / "kernel" / "build.sh").exists()

#: Default search path for commands in a guest.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: File descriptors of the machine for the command's input, output and errors. They are the same in
#: every run, because the guest can read these numbers.
KEYS_FD, OUT_FD, ERR_FD = 7, 8, 9
#: The machine ends with the process that started it, even if that was killed.
_REDIRECT = (
    f"exec {KEYS_FD}<&0 {OUT_FD}>&1 {ERR_FD}>&2 0</dev/null 1>machine.log 2>&1; "
    'exec setpriv --pdeathsig TERM "$@"'
)

#: Interval between checks whether a guest that receives keys has ended.
_KEYS_CHECK_S = 0.2


class LabError(LinnappError):
    """The guest could not be booted, or it died before its command ended."""


class CrashError(LabError):
    """The program that runs the machine was killed by a signal."""

    def __init__(self, message: str, *, began: bool) -> None:
        super().__init__(message)
        self.began = began


@dataclass(frozen=True)
class Folder:
    """A folder of the host that a guest can see."""

    #: Path on the host.
    source: Path
    #: True if the guest may write to it.
    writable: bool = False


@dataclass
class Guest:
    """Configuration of a guest."""

    #: The guest's kernel.
    kernel: Path
    #: Guest memory.
    memory_mb: int = 3072
    #: A folder of the host that the guest may write to, under the same path in the guest; created
    #: if it does not exist.
    out_dir: Path | None = None
    #: More folders of the host, by their paths in the guest.
    folders: Mapping[str, Folder] = field(default_factory=dict)
    #: Shell commands that run before the user's; the first failure ends the boot.
    setup: str = ""
    #: The command's environment, in addition to a few variables that are the same in every run.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: More kernel parameters.
    kernel_args: Sequence[str] = ()
    #: Host seconds after which the guest is stopped.
    timeout_s: float | None = None
    #: For the UML lab, which can do both: time stops while something runs. If false, the guest uses
    #: the host's clock, for measuring the execution time of the kernel.
    virtual_time: bool = True

    def shared(self) -> dict[str, Folder]:
        """Return all folders of the host except its root, by their paths in the guest."""
        out = {} if self.out_dir is None else {str(self.out_dir.resolve()): self.out_dir}
        return {**{place: Folder(path, True) for place, path in out.items()}, **self.folders}


@dataclass(frozen=True)
class Result:
    """Outcome of a command in the guest."""

    #: Its exit status.
    status: int
    #: The guest's kernel log.
    dmesg: str


def _write_control(
    control: Path, command: Sequence[str], guest: Guest, cwd: Path, mounts: Sequence[str]
) -> None:
    """Write the scripts that the guest's first process runs; `mounts` are the mount commands."""
    environment = {
        "PATH": DEFAULT_PATH,
        "HOME": "/run/home",
        "TMPDIR": "/run/tmp",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PWD": str(cwd),
        # A run must not depend on the iteration order of a hash table.
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        **guest.environment,
    }
    settings = [f"{name}={value}" for name, value in environment.items()]
    lines = [
        f"cd {shlex.quote(str(cwd))} || exit 125",
        # Do not use the shell's environment: it has its own variables and the kernel parameters.
        "exec " + shlex.join(["/usr/bin/env", "-i", "--", *settings, *command]),
    ]
    # The drives come first: the duration of the mounts depends on the host's folders, and would
    # shift the time at which the drives are switched on, and thus their phase.
    (control / "setup.sh").write_text(guest.setup + "".join(f"{line}\n" for line in mounts))
    (control / "command.sh").write_text("\n".join(lines) + "\n")


def boot(
    command: Sequence[str],
    guest: Guest,
    machine: Callable[[Path], tuple[list[str], Mapping[str, str]]],
    mount: Callable[[str, Folder], str],
    *,
    cwd: Path | None = None,
    keys: int | None = None,
    stdout: BinaryIO | None = None,
    stderr: BinaryIO | None = None,
) -> Result:
    """Boot a guest, run one command in it and wait for both.

    Parameters
    ----------
    command : sequence of str
        Program and arguments, found through the PATH of ``guest.environment``.
    machine : callable
        Takes the control folder; returns the program that runs the machine, with its arguments, and
        its environment. It runs in the control folder, can read typed keys from KEYS_FD, and writes
        the command's output to OUT_FD and ERR_FD. In that folder, ``folderK`` is a symbolic
        link to the K-th folder of ``guest.shared()``.
    mount : callable
        Takes ``folderK`` and the folder; returns the shell command that mounts it in this kind of
        guest, without the mount point.
    cwd : Path, optional
        Working folder of the command, by default the caller's.
    keys : int, optional
        File descriptor of a terminal; keys typed there are passed to the machine one by one.
    stdout, stderr : binary file, optional
        Destination of the command's output, by default this process's own.
    """
    out = stdout if stdout is not None else sys.stdout.buffer
    err = stderr if stderr is not None else sys.stderr.buffer
    with tempfile.TemporaryDirectory(prefix="linnos-lab-") as name:
        control = Path(name)
        mounts = []
        for k, (place, folder) in enumerate(guest.shared().items()):
            if folder.writable:
                folder.source.mkdir(parents=True, exist_ok=True)
            (control / f"folder{k}").symlink_to(folder.source.resolve())
            quoted = shlex.quote(place)
            mounts.append(f"mkdir -p {quoted}\n{mount(f'folder{k}', folder)} {quoted}")
        _write_control(control, command, guest, cwd or Path.cwd(), mounts)
        arguments, environment = machine(control)
        with contextlib.nullcontext(subprocess.DEVNULL) if keys is None else _typed(keys) as typed:
            out_read, out_write = os.pipe()
            err_read, err_write = os.pipe()
            process = subprocess.Popen(
                ["/bin/sh", "-c", _REDIRECT, "sh", *arguments],
                stdin=typed,
                stdout=out_write,
                stderr=err_write,
                cwd=control,
                env=environment,
                start_new_session=True,
            )
            os.close(out_write)
            os.close(err_write)
            ended = _wait_for(process, [(out_read, out), (err_read, err)], guest.timeout_s)
        return _read_result(control, ended)


@contextlib.contextmanager
def _typed(terminal: int) -> Iterator[int]:
    """Pass keys on when they are pressed; yield the read end of a pipe that receives them.

    Ctrl-C is still handled by the caller. The terminal's settings are restored at the end.
    """
    before = termios.tcgetattr(terminal)
    read, write = os.pipe()
    done = threading.Event()

    def pump() -> None:
        with contextlib.suppress(OSError):  # the guest or the terminal is gone
            while not done.is_set():
                if select.select([terminal], [], [], _KEYS_CHECK_S)[0]:
                    os.write(write, os.read(terminal, 4096))

    thread = threading.Thread(target=pump, daemon=True)
    try:
        tty.setcbreak(terminal)
        thread.start()
        yield read
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        os.close(read)
        os.close(write)


def _pump(source: BinaryIO, sink: BinaryIO) -> None:
    while chunk := os.read(source.fileno(), 65536):
        try:
            sink.write(chunk)
            sink.flush()
        except (BrokenPipeError, ValueError):
            # The reader of our output is gone. The guest's output must still be
            # read, or the guest would block forever.
            continue


#: Session leaders of the guests that run now, in all threads.
_running: set[int] = set()


def end_all() -> None:
    """End all guests of this process, in all threads, because only one thread receives ctrl-C."""
    for leader in tuple(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)


def _wait_for(
    process: subprocess.Popen[bytes],
    outputs: Sequence[tuple[int, BinaryIO]],
    timeout_s: float | None,
) -> int:
    """Copy the guest's output while it runs, wait for it, and end all of its processes.

    The process leads its own session. Each output is the read end of a pipe from the guest, and the
    destination of its content. Return the exit status, or the negative number of the signal that
    killed it.
    """
    pumps = []
    _running.add(process.pid)
    for fd, sink in outputs:
        source = os.fdopen(fd, "rb", buffering=0)
        pump = threading.Thread(target=_pump, args=(source, sink), daemon=True)
        pump.start()
        pumps.append((pump, source))
    try:
        return process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise LabError(f"the guest did not finish within {timeout_s:g} s: stopped") from None
    finally:
        # A guest can consist of several processes. End the remaining ones,
        # also when the user pressed ctrl-C.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _running.discard(process.pid)
        for pump, source in pumps:
            # The pipe is at its end unless another process holds it, or the reader of our output
            # stalls.
            pump.join(timeout=60)
            source.close()


def _read_result(control: Path, ended: int) -> Result:
    """Read the command's outcome from the control folder; `ended` is from :func:`_wait_for`."""
    try:
        status = (control / "status").read_text().strip()
        dmesg = (control / "dmesg").read_text(errors="replace")
    except FileNotFoundError:
        # Logs of the machine, and of its kernel if that has a log of its own.
        logs = [control / "machine.log", control / "console"]
        words = [log.read_text(errors="replace") for log in logs if log.exists()]
        tail = "\n".join("\n".join(words).splitlines()[-30:])
        died = "the guest died before its command ended"
        if ended < 0:
            by = signal.Signals(-ended).name
            raise CrashError(
                f"{died} (its machine by {by}); its last words:\n{tail}",
                began=(control / "began").exists(),
            ) from None
        raise LabError(f"{died}; its last words:\n{tail}") from None
    if status == "setup":
        raise LabError("the lab could not be set up; see the message above")
    return Result(int(status), dmesg)
