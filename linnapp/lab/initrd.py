# SPDX-License-Identifier: MIT
"""An initial root for kernels that have the drivers of the lab's root as modules.

Distributions' kernels do. The modules are loaded from this root, which is then replaced by the
QEMU lab's own root, the host's files over 9p.
"""

from __future__ import annotations

import lzma
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from linnapp.lab.guest import LabError

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
    beside = kernel_modules.resolve().parents[2] / "bin" / "busybox"
    found = str(beside) if beside.exists() else shutil.which("busybox")
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
    has = {_name(file) for file in builtin}

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
