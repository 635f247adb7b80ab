# SPDX-License-Identifier: MIT
"""Boot a user-mode Linux guest in virtual time and run one command in it.

The guest's root is the host's own file system, read-only; it can write to
tmpfs and to the folders of the host that it is given. Time in the guest advances
only when nothing in it can run (`time-travel=inf-cpu`), so a latency measured
there does not depend on the load of the host.

The machine does not depend either on the user, the folder or the environment that it is
started with: it runs in the control folder, where all of its inputs have short names that are the
same in every run. Folders of the host are mounted as `/proc/self/cwd/NAME/.`, a path that the host
resolves.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from linnapp import __version__
from linnapp.lab.guest import (
    ERR_FD,
    IN_CLONE,
    KEYS_FD,
    OUT_FD,
    REPOSITORY,
    Folder,
    Guest,
    LabError,
    Result,
    boot,
)

#: Scripts that the guest's first process reads.
_INIT = ("init.sh", "init-mounts.sh")
#: The archive of a release unpacks to this folder, with the file `linux`.
ARCHIVE = f"linnos-lab-kernel-{__version__}"


def _find_kernel() -> Path:
    """Return the lab kernel: $LINNOS_LAB_KERNEL, that of the clone, or a release's archive.

    The archive can be unpacked in the folder of the package, in the virtual environment, or next to
    the environment. If there is no kernel, return the path in the environment.
    """
    if given := os.environ.get("LINNOS_LAB_KERNEL"):
        path = Path(given)
        return path / "linux" if path.is_dir() else path
    built = REPOSITORY / "build" / "linux-um" / "linux"
    if IN_CLONE:
        return built
    environment = Path(sys.prefix)
    places = [environment, environment.parent, REPOSITORY, REPOSITORY / "linnapp"]
    found = [place / ARCHIVE / "linux" for place in places]
    return next((kernel for kernel in found if kernel.exists()), found[0])


DEFAULT_KERNEL = _find_kernel()


def check_kernel(kernel: Path) -> None:
    """Raise an error that says how to get a kernel if this file is not a program."""
    if kernel.is_file() and os.access(kernel, os.X_OK):
        return
    if kernel.is_file():
        raise LabError(f"{kernel}: not executable; a lab kernel is a program: chmod +x {kernel}")
    archive = f"{ARCHIVE}.tar.xz"
    folder = shlex.quote(str(Path(sys.prefix)))
    remedy = "`make kernel` builds it" if IN_CLONE else f"unpack it: tar -xf {archive} -C {folder}"
    raise LabError(
        f"{kernel}: no lab kernel there; {remedy}, or set LINNOS_LAB_KERNEL to the file `linux` of "
        f"{archive}, which is part of each release"
    )


#: Mount a folder of the host in the guest. hostfs takes the folder's path as its whole option
#: string, which only the mount(2) system call can pass. util-linux 2.39 and later prefer
#: fsconfig(2), which takes a path for an unknown option; the variable makes them use mount(2).
#: Older versions ignore it.
MOUNT_HOSTFS = "LIBMOUNT_FORCE_MOUNT2=always mount -t hostfs"

#: Wall clock at boot, the same in every run so that a run repeats exactly.
WALL_CLOCK_START_NS = 1_600_000_000 * 10**9
#: Kernel message before it kills a program because the host allows no more mappings.
_TOO_MANY_MAPPINGS = "UML ran out of memory on the host side!"
_VIRTUAL_TIME = ("time-travel=inf-cpu", f"time-travel-start={WALL_CLOCK_START_NS}")


def run(
    command: Sequence[str],
    guest: Guest,
    *,
    cwd: Path | None = None,
    stdout: BinaryIO | None = None,
    stderr: BinaryIO | None = None,
) -> Result:
    """Run a command in a freshly booted guest and wait for it.

    For `cwd`, `stdout` and `stderr` see :func:`~linnapp.lab.guest.boot`. If the output is a
    terminal, the command has a terminal of the same size and reads the keys typed there.
    """
    check_kernel(guest.kernel)
    out = stdout if stdout is not None else sys.stdout.buffer
    terminal = bool(getattr(out, "isatty", lambda: False)())
    keys = terminal and stdout is None and sys.stdin.isatty()

    def machine(control: Path) -> tuple[list[str], dict[str, str]]:
        for name in _INIT:
            shutil.copyfile(Path(__file__).with_name(name), control / name)
        if terminal:
            size = os.get_terminal_size(out.fileno())
            (control / "terminal").write_text(f"{size.lines} {size.columns}\n")
        if keys:
            (control / "keys").touch()
        (control / "linux").symlink_to(guest.kernel.resolve())
        (control / "tmp").symlink_to(_memory_folder(guest.memory_mb))
        return ["taskset", "-c", str(cpu), *_arguments(guest, keys)], {"PATH": os.defpath}

    with _one_cpu() as cpu:
        result = boot(
            command, guest, machine, _mount,
            cwd=cwd, keys=sys.stdin.fileno() if keys else None, stdout=out, stderr=stderr,
        )  # fmt: skip
    if _TOO_MANY_MAPPINGS in result.dmesg:
        err = stderr if stderr is not None else sys.stderr.buffer
        err.write(
            b"linnapp lab: a program was ended (SIGSEGV): its pages needed more mappings than this "
            b"host lets a process have; `sysctl -w vm.max_map_count=1048576` allows them\n"
        )
    return result


@contextmanager
def _one_cpu() -> Iterator[int]:
    """Yield a CPU for a guest, which it shares with no other guest if there are enough CPUs.

    A guest is two processes that alternate: the kernel and the program that runs on it. On two CPUs
    each turn waits until an idle CPU has woken up, which takes several times as long as the turn.
    """
    cpus = sorted(os.sched_getaffinity(0))
    for cpu in cpus:
        # The claim ends with the process that holds it and leaves no file.
        with socket.socket(socket.AF_UNIX) as claim:
            try:
                claim.bind(f"\0linnos-guest-on-cpu-{cpu}")
            except OSError:
                continue
            yield cpu
            return
    yield cpus[os.getpid() % len(cpus)]


def _mount(name: str, folder: Folder) -> str:
    flags = "" if folder.writable else " -r"
    return f"{MOUNT_HOSTFS}{flags} -o /proc/self/cwd/{name}/. none"


def _arguments(guest: Guest, keys: bool) -> list[str]:
    return [
        *_without_randomisation(),
        # The shell that starts us has added variables to the environment.
        *("/usr/bin/env", "-i", "HOME=.", "TMPDIR=./tmp"),
        "./linux",
        f"mem={guest.memory_mb}M",
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        "quiet",
        # The lab's drives are virtual.
        "blk_linnos.virtual=1",
        *(_VIRTUAL_TIME if guest.virtual_time else ()),
        "con=null",
        "ssl=null",
        "con0=null,fd:2",
        f"ssl0={f'fd:{KEYS_FD}' if keys else 'null'},fd:{OUT_FD}",
        f"ssl1=null,fd:{ERR_FD}",
        "uml_dir=./",
        "umid=guest",
        "panic=-1",
        "log_buf_len=4M",
        "init=/bin/sh",
        # Create no SCSI disk, and allocate no memory for one, unless a test requests it.
        *("scsi_debug.add_host=0", "scsi_debug.fake_rw=1"),
        *guest.kernel_args,
        # The kernel passes the arguments after the dashes to init.
        *("--", "-c", f'"{MOUNT_HOSTFS} -nr -o /proc/self/cwd/. none /run && . /run/init.sh"'),
    ]


@functools.cache
def _without_randomisation() -> tuple[str, ...]:
    """Return a command prefix that disables address space randomisation, if the host allows it.

    The guest's memory grows by the gap before the kernel's heap, whose size is otherwise random.
    """
    prefix = ("setarch", "-R")
    try:
        allowed = not subprocess.run([*prefix, "true"], capture_output=True).returncode
    except OSError:
        allowed = False
    return prefix if allowed else ()


def _memory_folder(memory_mb: int, folders: Sequence[str] = ("/dev/shm",)) -> str:
    """Return a folder for the guest's memory file, on tmpfs so that it is not written to disk.

    Containers usually have a /dev/shm of 64 MB whose files cannot be executed. Then use the folder
    for temporary files.
    """
    for folder in folders:
        if os.access(folder, os.W_OK):
            found = os.statvfs(folder)
            has_space = found.f_bavail * found.f_frsize >= memory_mb << 20
            if has_space and not found.f_flag & os.ST_NOEXEC:
                return folder
    return tempfile.gettempdir()
