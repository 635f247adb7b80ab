# SPDX-License-Identifier: MIT
"""Boot an x86-64 guest with several CPUs and real NVMe controllers, run one command in it.

The kernel is booted directly, and its root is the host's own file system over 9p,
read-only. KVM is used if it works, otherwise QEMU's own translator (TCG).
Time is real here: this lab tests the code with real drivers and
several CPUs. It does not measure latencies.
"""

from __future__ import annotations

import functools
import lzma
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from linnapp.lab.guest import (
    ERR_FD,
    OUT_FD,
    REPOSITORY,
    CrashError,
    Folder,
    Guest,
    LabError,
    Result,
    boot,
)

INIT = Path(__file__).with_name("init-qemu.sh")
QEMU = "qemu-system-x86_64"
DEFAULT_KERNEL = REPOSITORY / "build" / "linux-x86" / "bzImage"

#: Modules that drives and their content need if the kernel does not have them built in.
_MODULES = ("crc32c_generic", "nvme", "ext4", "xfs", "virtio_console", "virtio_rng")

#: QEMU 7.2's translator crashes occasionally, about once in some hundred boots.
_BOOTS = 3

#: 9p options with which a guest sees the files unchanged, in large messages.
_9P = "trans=virtio,version=9p2000.L,msize=262144"
_ROOT = f"{_9P},cache=loose"

#: numpy's argsort uses masked gathers of AVX2, at which programs crashed under QEMU's translator
#: (two of four runs). The feature is named X86_V3 in numpy 2.4 and AVX2 in older versions.
_ENVIRONMENT = {"NPY_DISABLE_CPU_FEATURES": "X86_V3 AVX2"}


@dataclass
class QemuGuest(Guest):
    """Configuration of a guest under QEMU."""

    memory_mb: int = 2048
    #: CPUs of the guest.
    n_cpus: int = 2
    #: Number of NVMe controllers with one namespace each, ``/dev/nvme0n1`` and on.
    n_drives: int = 3
    #: Number of controllers per drive. With more than one, the drives are multipath drives.
    n_paths: int = 1
    #: Size of each; the backing files are sparse and are removed with the guest.
    drive_mb: int = 1024
    #: ``kvm``, ``tcg``, or ``auto``, which means KVM if it works.
    accel: str = "auto"
    #: Module folder of a kernel whose drivers for the root and the drives are modules, like
    #: ``/lib/modules/VERSION``.
    modules: Path | None = None
    #: Time in the guest is the number of executed instructions, in ns, and follows the machine's
    #: clock only while the guest waits. This needs ``tcg`` and is most useful with one CPU.
    counts_instructions: bool = False
    #: When translating, QEMU 7.2 may keep the breakpoint of a kernel that patches its own text. The
    #: guest then dies of an int3 that no longer exists. This happens within seconds in a stock
    #: kernel whose tracepoints are switched under load. It does not happen with all CPUs in one
    #: thread, but then the CPUs do not run concurrently either.
    one_thread: bool = False

    @property
    def devices(self) -> list[str]:
        """Paths of the drives in the guest."""
        return [f"/dev/nvme{k}n1" for k in range(self.n_drives)]


#: A probe under KVM takes a second. Where /dev/kvm exists but is slower than
#: translation (in some nested guests), the guest does not even print within this time.
_PROBE_S = 10


@functools.cache
def kvm_works(kernel: Path) -> bool:
    """Return true if this user can boot the kernel under KVM here; the result is cached.

    The existence of the device file is not sufficient: on a machine that is itself a guest, KVM
    may refuse the processor model, or may be slower than translation.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    arguments = [
        *_machine("kvm", n_cpus=1, memory_mb=256),
        *("-kernel", str(kernel), "-append", "panic=-1 quiet"),
    ]
    try:
        # Without a root the kernel panics, and that ends QEMU.
        return not subprocess.run(arguments, capture_output=True, timeout=_PROBE_S).returncode
    except subprocess.TimeoutExpired:
        return False


def _machine(accel: str, n_cpus: int, memory_mb: int) -> list[str]:
    return [
        QEMU,
        "-nodefaults",
        "-no-user-config",
        # With this, the guest's reboot ends QEMU.
        "-no-reboot",
        *("-display", "none", "-machine", "q35", "-accel", accel, "-cpu", "max"),
        # The MP table, which replaces ACPI here, describes sockets only.
        *("-smp", f"{n_cpus},sockets={n_cpus}", "-m", str(memory_mb)),
    ]


def _drive(number: int, n_paths: int) -> list[str]:
    """Return a drive's controllers and, if there are several, the namespace that they share."""
    if n_paths == 1:
        return ["-device", f"nvme,drive=drive{number},serial=linnos{number}"]
    arguments = ["-device", f"nvme-subsys,id=subsystem{number},nqn=linnos{number}"]
    for path in range(n_paths):
        controller = f"nvme,id=path{number}-{path},serial=linnos{number},subsys=subsystem{number}"
        arguments += ["-device", controller]
    return [*arguments, "-device", f"nvme-ns,drive=drive{number},bus=path{number}-0,shared=on"]


def _arguments(guest: QemuGuest, control: Path) -> list[str]:
    kernel_args = [
        "root=hostroot",
        "rootfstype=9p",
        f"rootflags={_ROOT}",
        "ro",
        "quiet",
        # The lab's drives are virtual.
        "blk_linnos.virtual=1",
        "console=ttyS0",
        # Reboot immediately on a panic, which ends QEMU.
        "panic=-1",
        "log_buf_len=4M",
        # The check of the timer fails if the host is too busy to deliver its interrupts.
        "no_timer_check",
        "mitigations=off",
        "init=/bin/sh",
        *(["rdinit=/init"] if guest.modules else []),
        # Create no SCSI disk, and allocate no memory for one, unless a test requests it.
        *("scsi_debug.add_host=0", "scsi_debug.fake_rw=1"),
        *guest.kernel_args,
        # The kernel passes the arguments after the dashes to init.
        "--",
        str(INIT),
    ]
    accel = guest.accel
    if accel == "auto":
        accel = "kvm" if not guest.counts_instructions and kvm_works(guest.kernel) else "tcg"
    arguments = [
        *_machine(
            "tcg,thread=single" if accel == "tcg" and guest.one_thread else accel,
            guest.n_cpus,
            guest.memory_mb,
        ),
        *("-kernel", str(guest.kernel.resolve())),
        *("-append", " ".join(kernel_args)),
        *(["-icount", "shift=0,sleep=on"] if guest.counts_instructions else []),
        *("-serial", f"file:{control / 'console'}"),
        *("-device", "virtio-rng-pci"),
        *("-device", "virtio-serial-pci"),
    ]
    if guest.modules is not None:
        (control / "initrd").write_bytes(initrd(guest.modules, _MODULES, _ROOT))
        arguments += ["-initrd", str(control / "initrd")]
    for number, (name, fd) in enumerate((("stdout", OUT_FD), ("stderr", ERR_FD)), start=1):
        arguments += ["-chardev", f"file,id={name},path=/dev/fd/{fd}"]
        arguments += ["-device", f"virtserialport,nr={number},chardev={name},name={name}"]
    shares = [("hostroot", Path("/"), _access(Folder(Path("/")))), ("control", control, "")]
    for k, folder in enumerate(guest.shared().values()):
        shares.append((f"folder{k}", folder.source.resolve(), _access(folder)))
    for tag, path, options in shares:
        # A comma in a QEMU option must be doubled.
        escaped = str(path).replace(",", ",,")
        arguments += [
            "-fsdev",
            f"local,id={tag},path={escaped},security_model=none,multidevs=remap{options}",
        ]
        arguments += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    for k in range(guest.n_drives):
        image = control / f"nvme{k}.img"
        with image.open("wb") as file:
            file.truncate(guest.drive_mb << 20)
        arguments += ["-drive", f"if=none,id=drive{k},file={image},format=raw,cache=unsafe"]
        arguments += _drive(k, guest.n_paths)
    return arguments


def run(
    command: Sequence[str],
    guest: QemuGuest,
    *,
    cwd: Path | None = None,
    stdout: BinaryIO | None = None,
    stderr: BinaryIO | None = None,
) -> Result:
    """Run a command in a freshly booted guest and wait for it.

    For `cwd`, `stdout` and `stderr` see :func:`~linnapp.lab.guest.boot`.
    """
    if shutil.which(QEMU) is None:
        raise LabError(f"{QEMU} is not installed: apt-get install qemu-system-x86")
    if not guest.kernel.is_file():
        raise LabError(f"{guest.kernel}: no QEMU lab kernel there; `make kernel-x86` builds it")
    guest = replace(guest, environment={**_ENVIRONMENT, **guest.environment})
    for left in reversed(range(_BOOTS)):
        try:
            return boot(
                command,
                guest,
                lambda control: (_arguments(guest, control), os.environ),
                lambda name, _: f"mount -t 9p -o {_9P},cache=mmap {name}",
                cwd=cwd,
                stdout=stdout,
                stderr=stderr,
            )
        except CrashError as crash:
            # No guest can cause this crash. If the command had started, its progress is unknown, so
            # it must not be repeated.
            if crash.began or not left:
                raise
            print(f"linnapp: {QEMU} crashed while the guest booted: once more", file=sys.stderr)
    raise AssertionError("unreachable")


def _access(folder: Folder) -> str:
    return "" if folder.writable else ",readonly=on"


# --- An initial root, for kernels that have the drivers of the root as modules ---

#: The modules that the root needs; their dependencies are found automatically.
ROOT_MODULES = ("virtio_pci", "9p", "9pnet_virtio")

_INIT = """\
#!/bin/busybox sh
for module in {modules}; do /bin/busybox insmod /modules/$module || exit; done
/bin/busybox mkdir -p /root
/bin/busybox mount -t 9p -o ro,{options} hostroot /root || exit
exec /bin/busybox switch_root /root /bin/sh "$@"
"""


def initrd(kernel_modules: Path, modules: Sequence[str], options: str) -> bytes:
    """Build an initial root as a cpio archive."""
    busybox = _busybox(kernel_modules)
    paths = _with_dependencies(kernel_modules, [*ROOT_MODULES, *modules])
    names = [f"{number}.ko" for number in range(len(paths))]
    init = _INIT.format(modules=" ".join(names), options=options)
    files = [
        ("bin", stat.S_IFDIR | 0o755, b""),
        ("modules", stat.S_IFDIR | 0o755, b""),
        ("bin/busybox", stat.S_IFREG | 0o755, busybox),
        ("init", stat.S_IFREG | 0o755, init.encode()),
        *(
            (f"modules/{name}", stat.S_IFREG | 0o644, _content(path))
            for name, path in zip(names, paths, strict=True)
        ),
    ]
    return _cpio(files)


def _busybox(kernel_modules: Path) -> bytes:
    """Return the busybox unpacked next to the kernel, or else the installed one."""
    unpacked = kernel_modules.resolve().parents[2] / "bin" / "busybox"
    found = str(unpacked) if unpacked.exists() else shutil.which("busybox")
    data = Path(found).read_bytes() if found else b""
    # A dynamically linked program names its loader here.
    if not data or b"/ld-linux" in data[:4096]:
        raise LabError(
            f"{found or 'busybox'}: not there, or it needs libraries; apt-get install "
            "busybox-static, or make kernel-debian"
        )
    return data


def _with_dependencies(kernel_modules: Path, wanted: Iterable[str]) -> list[Path]:
    """Return the files of modules in loading order; built-in modules are left out."""
    needs: dict[str, tuple[Path, list[str]]] = {}
    try:
        lines = (kernel_modules / "modules.dep").read_text().splitlines()
        builtin = (kernel_modules / "modules.builtin").read_text().splitlines()
    except OSError as error:
        raise LabError(f"{error.filename}: {error.strerror}; run depmod there") from error
    for line in lines:
        file, _, others = line.partition(":")
        needs[_name(file)] = (kernel_modules / file, [_name(other) for other in others.split()])
    found: dict[str, Path] = {}
    # Linux 7.3 has no module for this function of ext4: it is built in.
    has = {_name(file) for file in builtin} | ({"crc32c_generic"} - needs.keys())

    def add(name: str) -> None:
        if name in found or name in has:
            return
        if name not in needs:
            raise LabError(f"{kernel_modules}: there is no module {name}")
        path, others = needs[name]
        for other in others:
            add(other)
        found[name] = path

    for name in wanted:
        add(name.replace("-", "_"))
    return list(found.values())


def _name(file: str) -> str:
    return Path(file).name.partition(".")[0].replace("-", "_")


def _content(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return lzma.decompress(data) if path.suffix == ".xz" else data
    except (OSError, lzma.LZMAError) as error:
        raise LabError(f"{path}: {error}") from error


def _cpio(files: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Build an archive in the kernel's format (Documentation/driver-api/early-userspace)."""
    parts = []
    for number, (name, mode, data) in enumerate([*files, ("TRAILER!!!", 0, b"")], start=1):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        head = "070701" + "".join(f"{field:08X}" for field in fields) + name + "\0"
        parts += [_padded(head.encode()), _padded(data)]
    return b"".join(parts)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
