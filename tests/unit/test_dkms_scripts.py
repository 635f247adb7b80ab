# SPDX-License-Identifier: MIT
"""linnos-dkms when apt installs it or a kernel: it prints one sentence and never fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("dpkg") is None, reason="no dpkg here")

PACKAGING = Path(__file__).parents[2] / "packaging"
KERNEL = "6.1.0-56-amd64"

#: Stand-ins for programs that the scripts call. Each call is written to $T/calls.
STUBS = {
    "uname": f"echo {KERNEL}",
    "df": 'echo Avail; cat "$T/room_kib" 2>/dev/null || echo 999999999',
    "modprobe": '[ ! -e "$T/in_use" ]',
    "lsinitramfs": 'cat "$T/in_initramfs"',
    "update-initramfs": ":",
    "mokutil": 'cat "$T/key"',
    # It knows the installed modules of one kernel, and builds unless $T/why has a reason.
    "dkms": """
case $1 in
status) [ ! -e "$T/installed" ] || echo "linnos/1.0, $6, x86_64: installed" ;;
install)
	if [ -e "$T/why" ]; then
		mkdir -p "$TREE/build"
		cat "$T/why" >"$TREE/build/make.log"
		exit 10
	fi ;;
remove) rm -f "$T/installed" ;;
esac""",
}


class Root:
    """The files of a machine in a folder, with one kernel, its headers and its initramfs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "var/lib/dkms/linnos/1.0"
        self.write("var/lib/dkms/linnos/1.0/source/module/build.sh", "#!/bin/sh\n").chmod(0o755)
        self.write(f"boot/initrd.img-{KERNEL}", "")
        self.write("in_initramfs", f"usr/lib/modules/{KERNEL}/kernel/drivers/md/raid1.ko\n")
        (folder / "lib/modules" / KERNEL / "kernel").mkdir(parents=True)
        self.write(f"lib/modules/{KERNEL}/build/.config", "CONFIG_MD=y\n")
        for name, does in STUBS.items():
            stub = f'#!/bin/sh\necho "{name} $*" >>"$T/calls"\n{does}\n'
            self.write(f"stubs/{name}", stub).chmod(0o755)

    def write(self, name: str, text: str) -> Path:
        """Write a file with this text."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, script: str, *arguments: str) -> str:
        """Run a script of the package on these files, not the machine's; return its output."""
        text = (PACKAGING / f"linnos-dkms.{script}").read_text().replace("@VERSION@", "1.0")
        for path in ("/var/lib/dkms", "/lib/modules", "/boot/", "/sys/", "/usr/src"):
            text = text.replace(path, f"{self.folder}{path}")
        self.write("calls", "")
        result = subprocess.run(
            ["sh", "-c", text, script, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                "PATH": f"{self.folder}/stubs:{os.environ['PATH']}",
                "T": str(self.folder),
                "TREE": str(self.tree),
            },
            check=False,
        )
        assert not result.returncode, result.stdout
        return result.stdout

    def called(self, what: str) -> bool:
        """Return true if a command line that begins like this was run."""
        return any(
            line.startswith(what) for line in (self.folder / "calls").read_text().split("\n")
        )


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


@pytest.mark.parametrize("action", ["configure", "triggered"])
def test_installation_builds_the_modules_and_updates_the_initramfs(root: Root, action: str) -> None:
    assert root.run("postinst", action) == (
        f"linnos-dkms: {KERNEL}: building linnos, raid1 and raid10\n"
    )
    assert root.called(f"dkms install -m linnos -v 1.0 -k {KERNEL}")
    assert root.called(f"update-initramfs -u -k {KERNEL}")


def test_failed_build_is_removed_and_explained(root: Root) -> None:
    root.write("why", "CC raid1.o\nkernel/module/build.sh: raid1.ko is of another kernel\n")
    printed = root.run("postinst", "configure")
    assert f"{KERNEL}: the kernel's own modules stay: raid1.ko is of another kernel\n" in printed
    assert root.called(f"dkms remove -m linnos -v 1.0 -k {KERNEL}")
    assert not root.called("update-initramfs") and not (root.tree / "build").exists()


def test_each_reason_is_a_sentence(root: Root) -> None:
    check = root.tree / "source/module/build.sh"
    check.write_text("#!/bin/sh\necho 'kernel/module/build.sh: no headers of it' >&2; exit 1\n")
    stay = f"linnos-dkms: {KERNEL}: the kernel's own modules stay: "
    assert root.run("postinst", "configure") == f"{stay}no headers of it\n"
    check.write_text("#!/bin/sh\n")
    root.write("room_kib", "4096")
    assert root.run("postinst", "configure") == (
        f"{stay}{root.folder}/var/lib/dkms has less than 64 MiB of room; make some, then as root: "
        "dpkg-reconfigure linnos-dkms\n"
    )
    root.write(f"boot/config-{KERNEL}", "CONFIG_BLK_LINNOS=y\n")
    assert root.run("postinst", "configure") == f"{stay}it has LinnOS itself\n"
    assert not root.called("dkms install")


def test_md_that_is_loaded_is_unloaded_or_named(root: Root) -> None:
    root.write("sys/module/raid1/refcnt", "1\n")
    root.write("sys/module/raid10/version", "linnos\n")
    assert "arrays run" not in root.run("postinst", "configure")
    assert root.called("modprobe -qr raid1") and not root.called("modprobe -qr raid10")
    root.write("in_use", "")
    assert (
        "arrays run on the kernel's own raid1, which does not ask: mdadm --stop them, modprobe -r "
        "raid1, mdadm --assemble them; or reboot\n"
    ) in root.run("postinst", "configure")


def test_secure_boot_without_the_key_is_explained(root: Root) -> None:
    """Modules that it would not load must not replace md's own: the root may be on an array."""
    variable = root.folder / "sys/firmware/efi/efivars/SecureBoot-8be4df61"
    variable.parent.mkdir(parents=True)
    for on, key, is_built in (
        (1, "is not enrolled", False),
        (0, "", True),
        (1, "is already enrolled", True),
    ):
        root.folder.joinpath("installed").unlink(missing_ok=True)
        variable.write_bytes(bytes([6, 0, 0, 0, on]))
        root.write("key", key)
        printed = root.run("postinst", "configure")
        assert ("building" in printed, "mokutil --import" in printed) == (is_built, not is_built)
        assert root.called("dkms install") is is_built
        assert root.called("dkms generate_mok") is bool(on)
        assert root.called("update-initramfs") is is_built


def test_removal_restores_the_kernels_modules_in_the_initramfs(root: Root) -> None:
    root.write("in_initramfs", f"usr/lib/modules/{KERNEL}/updates/dkms/linnos.ko\n")
    root.write("sys/module/raid1/version", "linnos\n")
    assert root.run("prerm", "upgrade", "2.0") == ""
    assert root.called("dkms remove") and not root.called("update-initramfs")
    assert root.run("prerm", "remove") == ""
    assert root.called(f"update-initramfs -u -k {KERNEL}") and root.called("modprobe -qr raid1")
    root.write("in_use", "")
    assert "arrays run on raid1 of this package" in root.run("prerm", "remove")
