# SPDX-License-Identifier: MIT
"""A user at a machine who follows a document, and the observable state of the machine."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

from debian_machine import Machine

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("LINNOS_MACHINE", ROOT / "build" / "machine"))
#: Our packages for its Debian.
PACKAGES = Path(os.environ.get("LINNOS_PACKAGES", ROOT / "build" / "deb"))
DOCUMENT = ROOT / "docs" / "real-machine.md"
#: The document's sections that need no patch.
OWN_KERNEL = ("Install the modules", "Switch it on", "A new kernel", "Undoing it")
DISKS = ("nvme0n1", "nvme1n1", "nvme2n1")

#: Commands that are typed differently, and the reason.
INSTEAD = (
    # `make test-machine` has already done this, in the clone and not on the machine.
    (r"^make (kernel-)?deb\b.*", ":"),
    # Three drives under the load below need less than 15 minutes.
    (r"--duration 900\b", "--duration 60"),
    (r"^linnapp enable /dev/md0\b", "linnapp enable /dev/md0 --for 60"),
    (r"--hours 24\b", "--hours 0.05 --block-s 4"),
    # The machine has a kernel for guests.
    (r"\blinux-headers-amd64\b", "linux-headers-cloud-amd64"),
    # A user may need the headers for other modules. This machine did not have them before.
    (r"^apt purge linnos-dkms linnos-tools$", r"\g<0> 'linux-headers-*'"),
)

#: The same under emulation, where pip had unpacked 0.4 GB of TensorFlow after 12 minutes. Therefore
#: latency models are trained, which do not need it.
INSTEAD_TRANSLATED = (
    (r"^\S+/pip install 'linnapp\[train\]'.*", ":"),
    (r"^linnapp train --kind network\b", "linnapp train --kind latency"),
)

#: The user's own load on the drives. Many large writes come at once at times, and reads wait behind
#: them.
USUAL_WORK = """
[global]
ioengine=libaio
direct=1
offset=64m
size=900m
time_based=1
runtime=14400
randrepeat=1
group_reporting=1
[reads]
filename={device}
rw=randread
bs=4k
iodepth=8
rate_iops=200,,
rate_process=poisson
[writes]
filename={device}
rw=randwrite
bs=512k
iodepth=32
thinktime={pause_us}
thinktime_blocks=32
"""

#: Paths that the comparison of before and after ignores: logs, data of apt and dpkg, data of this
#: boot, the user's files.
IGNORED_PATHS = re.compile(
    r"^/(proc|sys|dev|run|tmp|var/tmp|var/log|var/cache|root)(/|$)|^/var/lib/(apt|dpkg|systemd)/"
    r"|^/etc/(ld\.so\.cache|.*-)$"
)


def followed(command: str, translated: bool) -> str:
    """Return the input for a command of the document."""
    for pattern, instead in INSTEAD + (INSTEAD_TRANSLATED if translated else ()):
        command = re.sub(pattern, instead, command)
    return command


class Walk:
    """The machine and its observed state."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.began = time.monotonic()
        self.boot = machine.wait_until_up()
        self.print_progress(f"Debian's kernel is up: {machine.run('uname -r').strip()}")

    def print_progress(self, what: str) -> None:
        """Print progress at once, because the whole test takes almost an hour."""
        print(f"[{time.monotonic() - self.began:6.0f} s] {what}", file=sys.stderr, flush=True)

    def run_line(self, command: str) -> str:
        """Run a command line of a document in the clone."""
        typed = followed(command, self.machine.translated)
        self.print_progress(f"# {command}")
        if typed != command:
            self.print_progress(f"instead: {typed}")
        if typed.endswith("reboot"):
            # The package of a kernel also creates the initramfs and our modules.
            self.machine.run(f"cd clone && {typed[: -len('reboot')]} :", timeout_s=3600)
            self.reboot()
            printed = self.machine.run("uname -r")
        else:
            printed = self.machine.run(f"cd clone\n{typed}", timeout_s=3600)
        lines = printed.strip().splitlines()
        for line in lines[-12:]:
            self.print_progress(f"    {line[:160]}")
        return printed

    def reboot(self) -> None:
        """Reboot, and wait for the end of the boot."""
        self.machine.run("systemctl reboot", check=False)
        self.boot = self.machine.wait_until_up(after_boot=self.boot)

    def bring(self, folder: Path, name: str) -> None:
        """Copy the packages in a folder to the clone's folder build/`name`."""
        self.machine.run(f"mkdir -p clone/build/{name}")
        for package in sorted(folder.glob("*.deb")):
            self.machine.copy(package, f"clone/build/{name}/")

    def modes(self) -> dict[str, str]:
        """Return the mode of each disk with LinnOS."""
        printed = self.machine.run("cd /sys/block; grep -H . */linnos/mode || :")
        return dict(re.findall(r"^(\w+)/linnos/mode:(\w+)$", printed, re.M))

    def stats(self) -> dict[str, dict[str, int]]:
        """Return the counters of each drive."""
        printed = self.machine.run("cd /sys/block; grep -H . nvme*/linnos/stats/*")
        found: dict[str, dict[str, int]] = {disk: {} for disk in DISKS}
        for disk, name, count in re.findall(r"^(\w+)/linnos/stats/(\w+):(\d+)$", printed, re.M):
            found[disk][name] = int(count)
        return found

    def application(self, device: str, *options: str) -> dict[str, int]:
        """Return the counts of an application that reads a drive and checks its content."""
        printed = self.machine.run(f"python3 hinted_load.py {device} {' '.join(options)}")
        counts: dict[str, int] = json.loads(printed.splitlines()[-1])
        self.print_progress(f"    {device}: {counts}")
        assert not any(counts[name] for name in ("wrong_data", "touched", "gone", "errors"))
        assert counts["admitted"] > 0
        return counts

    def usual_work(self, begins: bool) -> None:
        """Start the usual load of the drives, or stop it.

        It has a low priority, because training in a slow emulator would otherwise
        wait for it for half an hour.
        """
        if not begins:
            self.machine.run("systemctl stop 'usual-*'")
            return
        disks = ("md0",) if "md0" in self.machine.run("ls /sys/block") else DISKS
        for k, disk in enumerate(disks):
            job = USUAL_WORK.format(device=f"/dev/{disk}", pause_us=400_000 + 130_000 * k)
            self.machine.run(
                f"cat >usual-{k}.fio <<'EOF'\n{job}EOF\n"
                f"systemd-run -q --collect -p Nice=10 --unit=usual-{k} fio $PWD/usual-{k}.fio"
            )

    def inventory(self) -> dict[str, set[str]]:
        """Return the users, files, packages (also those with settings only) and units."""
        commands = {
            "users": "getent passwd; getent group",
            "files": "find / -xdev -print",
            "packages": "dpkg-query -W -f '${Package} ${Status}\\n'",
            "units": "systemctl list-unit-files --no-legend --no-pager --full | grep -v transient",
        }
        found = {name: set(self.machine.run(line).splitlines()) for name, line in commands.items()}
        return {
            name: {line for line in lines if not IGNORED_PATHS.search(line)}
            for name, lines in found.items()
        }

    def expect_nothing_left(self, before: dict[str, set[str]], kernel: str = "") -> None:
        """Check that the machine is as before, except for Debian's packages that apt keeps.

        Parameters
        ----------
        kernel : str
            The release of a kernel that was installed in the meantime and stays.
        """
        after = self.inventory()
        more = {what: after[what] - before[what] for what in before}
        # Files of Debian packages that apt keeps, because others suggest them.
        suggested = {line for line in more["packages"] if line.endswith(" ok installed")}
        self.print_progress(
            f"kept by apt: {' '.join(sorted(line.split()[0] for line in suggested))}"
        )
        assert not [line for line in suggested if "linn" in line]
        more["packages"] -= suggested
        more["files"] -= set(self.machine.run("cat /var/lib/dpkg/info/*.list").splitlines())
        # Python may have created files in folders of these packages.
        more["files"] = {
            name for name in more["files"] if "__pycache__" not in name or "linn" in name
        }
        if kernel:
            # Files that the installation has created.
            created = re.compile(
                rf"^/(boot/grub/|(boot|usr/lib|lib|var/lib)/.*{re.escape(kernel)})"
            )
            more["files"] = {name for name in more["files"] if not created.search(name)}
        # DKMS keeps its key when it is purged.
        more["files"] -= {"/var/lib/dkms", "/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub"}
        less = {what: before[what] - after[what] for what in before}
        self.print_progress(f"left behind: {more}, gone: {less}")
        assert not any(more.values()) and not any(less.values())
