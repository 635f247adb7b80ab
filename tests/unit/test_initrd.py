# SPDX-License-Identifier: MIT
"""The initrd for kernels with modules: the archive, and the order of loading."""

from __future__ import annotations

import lzma
import shutil
import subprocess
from pathlib import Path

import pytest

from linnapp.lab.guest import LabError
from linnapp.lab.qemu import initrd


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """Return the modules of a kernel, and a busybox next to them."""
    folder = tmp_path / "lib" / "modules" / "6.12"
    (folder / "kernel").mkdir(parents=True)
    (folder / "modules.dep").write_text(
        "kernel/9p.ko.xz: kernel/9pnet.ko.xz kernel/netfs.ko.xz\n"
        "kernel/9pnet.ko.xz:\n"
        "kernel/9pnet-virtio.ko.xz: kernel/9pnet.ko.xz\n"
        "kernel/netfs.ko.xz:\n"
        "kernel/nvme.ko.xz: kernel/nvme-core.ko.xz\n"
        "kernel/nvme-core.ko.xz:\n"
    )
    (folder / "modules.builtin").write_text("kernel/virtio_console.ko\nkernel/virtio_pci.ko\n")
    for name in ("9p", "9pnet", "9pnet-virtio", "netfs", "nvme", "nvme-core"):
        (folder / "kernel" / f"{name}.ko.xz").write_bytes(lzma.compress(name.encode()))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "busybox").write_bytes(b"static")
    return folder


@pytest.mark.skipif(shutil.which("cpio") is None, reason="no cpio: apt-get install cpio")
def test_modules_are_loaded_after_those_they_need(modules: Path, tmp_path: Path) -> None:
    archive = initrd(modules, ["nvme", "virtio_console"], "trans=virtio")
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(["cpio", "-i", "--quiet"], input=archive, cwd=root, check=True)
    init = (root / "init").read_text()
    loaded = next(line for line in init.splitlines() if line.startswith("for module"))
    names = loaded.split(" in ")[1].split(";")[0].split()
    content = [(root / "modules" / name).read_text() for name in names]
    assert content == ["9pnet", "netfs", "9p", "9pnet-virtio", "nvme-core", "nvme"]
    assert "-o ro,trans=virtio hostroot" in init and (root / "init").stat().st_mode & 0o111
    assert (root / "bin" / "busybox").read_bytes() == b"static"


def test_missing_modules_and_programs_are_named(modules: Path) -> None:
    with pytest.raises(LabError, match="there is no module xfs"):
        initrd(modules, ["xfs"], "")
    (modules / "kernel" / "nvme.ko.xz").write_bytes(b"?")
    with pytest.raises(LabError, match=r"nvme\.ko\.xz"):
        initrd(modules, ["nvme"], "")
    (modules.parents[2] / "bin" / "busybox").write_bytes(b"\x7fELF /lib64/ld-linux-x86-64.so.2")
    with pytest.raises(LabError, match="needs libraries; apt-get install busybox-static"):
        initrd(modules, [], "")
    (modules / "modules.dep").unlink()
    (modules.parents[2] / "bin" / "busybox").write_bytes(b"static")
    with pytest.raises(LabError, match=r"modules\.dep: No such file .*depmod"):
        initrd(modules, [], "")
