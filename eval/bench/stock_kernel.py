# SPDX-License-Identifier: MIT
"""Debian's own kernel in QEMU, with a few programs of this machine in memory.

The kernel's package is downloaded, unpacked and not installed. Its root is an initial RAM disk
made of the programs that a script needs, the libraries they are linked with and the kernel's
modules, so that nothing but the kernel itself is in the way.

QEMU translates, and lets one nanosecond pass for each instruction of all that runs on the one
processor: an exact clock, that no load of the machine disturbs.
"""

from __future__ import annotations

import functools
import gzip
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.bench import BenchError

QEMU = "qemu-system-x86_64"
#: The series that is measured; the newest of Debian's packages of it is taken.
SERIES = "6.12"
_PACKAGE = rf"^linux-image-{re.escape(SERIES)}\.\S*-cloud-amd64-unsigned$"
#: Programs that any script has.
_TOOLS = ("sh", "mount", "modprobe", "sleep", "cat", "mkdir", "grep", "kill", "seq", "poweroff")
_BEGIN, _END = "-- begin --", "-- end, status"
_INIT = f"""#!/bin/sh
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/shm /run /tmp
mount -t tmpfs none /tmp
echo "{_BEGIN}" >/dev/ttyS0
sh -e /script >/dev/ttyS0 2>&1
echo "{_END} $?" >/dev/ttyS0
echo o >/proc/sysrq-trigger
sleep 60
"""


@dataclass(frozen=True)
class StockKernel:
    """An unpacked kernel package.

    Attributes
    ----------
    image : Path
        The kernel.
    modules : Path
        Its folder below ``lib/modules``.
    """

    image: Path
    modules: Path

    @property
    def release(self) -> str:
        """As ``uname -r`` says it."""
        return self.modules.name


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    try:
        return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise BenchError(f"{command[0]}: not installed") from None
    except subprocess.CalledProcessError as error:
        raise BenchError(f"{' '.join(map(str, command))}: {error.stderr.strip()}") from None


def fetch(folder: Path) -> StockKernel:
    """Debian's kernel, downloaded once.

    Parameters
    ----------
    folder : Path
        Where it is kept.

    Raises
    ------
    BenchError
        There is no such package, or no network to get it from.
    """
    if not (folder / "boot").is_dir():
        listed = _run("apt-cache", "search", "--names-only", _PACKAGE).splitlines()
        names = sorted(
            (line.split()[0] for line in listed),
            key=lambda name: [int(number) for number in re.findall(r"\d+", name)],
        )
        if not names:
            raise BenchError(f"no package {_PACKAGE}: is this Debian, after `apt-get update`?")
        with tempfile.TemporaryDirectory() as here:
            _run("apt-get", "download", "-q", names[-1], cwd=Path(here))
            (package,) = Path(here).glob("*.deb")
            new = folder.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            new.parent.mkdir(parents=True, exist_ok=True)
            _run("dpkg-deb", "-x", package, new)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    (image,) = (folder / "boot").glob("vmlinuz-*")
    (modules,) = folder.glob("**/lib/modules/*")
    if not (modules / "modules.dep").exists():
        _run("depmod", "-b", modules.parents[2], modules.name)
    return StockKernel(image, modules)


def found(tool: str) -> Path:
    """Where a program of this machine is, for `boot`.

    Raises
    ------
    BenchError
        It is not installed.
    """
    path = shutil.which(tool, path="/usr/bin:/usr/sbin:/bin:/sbin")
    if path is None:
        raise BenchError(f"{tool}: not installed")
    return Path(path)


def _libraries(program: Path) -> set[Path]:
    """What the dynamic linker loads for a program, and the linker."""
    ran = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return {Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+)", ran.stdout, re.MULTILINE)}


@functools.cache
def _module_files(modules: Path, name: str) -> tuple[Path, ...]:
    """A module and what it depends on."""
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, needs = line.partition(":")
        if re.sub(r"\.ko.*", "", Path(path).name).replace("-", "_") == name.replace("-", "_"):
            return tuple(modules / each for each in (path, *needs.split()))
    raise BenchError(f"{modules}: this kernel has no module {name}")


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, to)


def _ram_disk(
    kernel: StockKernel, script: str, programs: Iterable[Path], modules: Iterable[str], out: Path
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for folder in ("bin", "dev", "proc", "sys", "lib64"):
            (root / folder).mkdir()
        for program in (*map(found, _TOOLS), *programs):
            _copy(program.resolve(), root / "bin" / program.name)
            for library in _libraries(program):
                _copy(library.resolve(), root / library.relative_to("/"))
        inside = root / "lib" / "modules" / kernel.release
        for module in modules:
            for file in _module_files(kernel.modules, module):
                _copy(file, inside / file.relative_to(kernel.modules))
        for file in kernel.modules.glob("modules.*"):
            _copy(file, inside / file.name)
        (root / "script").write_text(script)
        (root / "init").write_text(_INIT)
        (root / "init").chmod(0o755)
        names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        packed = subprocess.run(
            [found("cpio"), "-o", "-H", "newc", "--quiet"],
            cwd=root,
            input=names.encode(),
            check=True,
            capture_output=True,
        ).stdout
    out.write_bytes(gzip.compress(packed, 1))


def boot(
    kernel: StockKernel,
    script: str,
    programs: Sequence[Path] = (),
    modules: Sequence[str] = (),
    *,
    timeout_s: float = 900,
) -> str:
    """Boot the kernel and run a script; what it printed.

    Parameters
    ----------
    kernel : StockKernel
        From `fetch`.
    script : str
        For ``sh -e``, as root, with the programs in ``PATH``.
    programs : sequence of Path
        Of this machine.
    modules : sequence of str
        That the script loads.
    timeout_s : float
        After which the guest counts as hung.

    Raises
    ------
    BenchError
        It did not boot, hung, or the script failed.
    """
    with tempfile.TemporaryDirectory() as name:
        disk = Path(name) / "disk"
        _ram_disk(kernel, script, programs, modules, disk)
        command = [
            *(QEMU, "-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"),
            *("-m", "768", "-smp", "1", "-accel", "tcg", "-icount", "shift=0,sleep=off"),
            *("-kernel", str(kernel.image)),
            *("-initrd", str(disk), "-append", "console=ttyS0 quiet panic=-1 mitigations=off"),
        ]
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=timeout_s
            )
        except FileNotFoundError:
            raise BenchError(f"{QEMU}: not installed (Debian: qemu-system-x86)") from None
        except subprocess.TimeoutExpired as hung:
            said = (hung.stdout or b"").decode(errors="replace")
            raise BenchError(f"the guest did not end in {timeout_s:.0f} s: {said[-500:]}") from None
    said = ran.stdout.replace("\r", "")
    _, begun, said = said.partition(f"{_BEGIN}\n")
    said, ended, status = said.partition(_END)
    if not begun or not ended or status.split()[0] != "0":
        raise BenchError(f"the guest failed: {(ran.stdout + ran.stderr)[-1000:]}")
    return said
