# SPDX-License-Identifier: MIT
"""The two kinds of disks that have fault rules: emulated drives and device-mapper targets.

A flashsim drive has its rules in configfs. The target ``linnos-faults`` of the module
``dm-linnos-faults`` takes the same rules for any block device, as messages.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from linnapp.errors import DeviceError

CONFIGFS = Path("/sys/kernel/config/flashsim")
_SYSFS_BLOCK = Path("/sys/class/block")
_MOUNTS = Path("/proc/self/mountinfo")

TARGET = "linnos-faults"
MODULE = "dm-linnos-faults"

#: Number of ranges written at once: configfs accepts one page.
_RANGES_PER_WRITE = 100


class DriveRules:
    """The rules of a flashsim drive."""

    def __init__(self, disk: str) -> None:
        self.folder = CONFIGFS / disk / "rules"

    def add(self, name: str, knobs: Mapping[str, str]) -> None:
        """Make a rule that is not enabled."""
        folder = self.folder / name
        try:
            folder.mkdir()
        except FileExistsError:
            raise DeviceError(
                f"{folder}: there is a rule of this name; remove the rules first"
            ) from None
        except OSError as error:
            raise DeviceError(f"{folder}: no room for another rule: {error.strerror}") from None
        try:
            for knob, value in knobs.items():
                _write(folder / knob, value)
        except BaseException:
            folder.rmdir()
            raise

    def add_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> None:
        """Add ranges of (first sector, sectors) to a rule."""
        for first in range(0, len(ranges), _RANGES_PER_WRITE):
            lines = (f"{start} {n}" for start, n in ranges[first : first + _RANGES_PER_WRITE])
            _write(self.folder / name / "ranges", "\n".join(lines))

    def enable(self, name: str) -> None:
        """Apply a rule from now on."""
        _write(self.folder / name / "enabled", "1")

    def remove(self, name: str) -> None:
        """Remove a rule."""
        (self.folder / name).rmdir()

    def rules(self) -> dict[str, dict[str, str]]:
        """Return settings and counters of each rule by name, in the order of creation."""
        return {
            folder.name: {file.name: file.read_text().strip() for file in folder.iterdir()}
            for folder in sorted(self.folder.iterdir())
            if folder.is_dir()
        }


class TargetRules:
    """The rules of a device-mapper target, with the methods of :class:`DriveRules`."""

    def __init__(self, disk: str) -> None:
        self.name = (_SYSFS_BLOCK / disk / "dm" / "name").read_text().strip()

    def _message(self, *words: str) -> str:
        return _dmsetup("message", self.name, "0", *words)

    def add(self, name: str, knobs: Mapping[str, str]) -> None:
        if name in self.rules():
            raise DeviceError(
                f"{self.name}: there is a rule {name} already; remove the rules first"
            )
        self._message("add", name, *(word for knob in knobs.items() for word in knob))

    def add_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> None:
        for first in range(0, len(ranges), _RANGES_PER_WRITE):
            part = ranges[first : first + _RANGES_PER_WRITE]
            self._message("range", name, *(str(number) for pair in part for number in pair))

    def enable(self, name: str) -> None:
        self._message("enable", name)

    def remove(self, name: str) -> None:
        self._message("remove", name)

    def rules(self) -> dict[str, dict[str, str]]:
        lines = (line.split() for line in self._message("list").splitlines())
        return {
            name: dict(zip(words[::2], words[1::2], strict=True)) for name, *words in lines if name
        }


def _write(path: Path, value: str) -> None:
    try:
        path.write_text(value)
    except OSError as error:
        raise DeviceError(f"{path}: {value!r} refused: {error.strerror}") from None


def _dmsetup(*words: str) -> str:
    """Return the output of dmsetup."""
    try:
        ran = subprocess.run(["dmsetup", *words], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        raise DeviceError("dmsetup is not installed; on Debian: apt-get install dmsetup") from None
    if ran.returncode:
        why = ran.stderr.strip().partition("\n")[0] or f"status {ran.returncode}"
        raise DeviceError(f"dmsetup {' '.join(words[:2])}: {why}; the kernel log says more")
    return ran.stdout


def disk_of(name: str) -> str:
    """Return the kernel's name of a disk, given by name or by a path such as /dev/mapper/bad."""
    if "/" not in name:
        return name
    mode = _mode_of(name)
    if not stat.S_ISBLK(mode):
        raise DeviceError(f"{name}: {'not a block device' if mode else 'there is no such device'}")
    node = Path(name).stat().st_rdev
    return Path(f"/sys/dev/block/{os.major(node)}:{os.minor(node)}").resolve().name


def rules_of(disk: str) -> DriveRules | TargetRules:
    """Return the rules of a disk, by the name in ``/sys/class/block``."""
    if (CONFIGFS / disk / "rules").is_dir():
        return DriveRules(disk)
    name = _SYSFS_BLOCK / disk / "dm" / "name"
    if name.exists() and _is_target(name.read_text().strip()):
        return TargetRules(disk)
    raise DeviceError(
        f"{disk}: neither a flashsim drive of this kernel nor a device of `linnapp faults attach`; "
        "fault rules need one of them"
    )


def _is_target(name: str) -> bool:
    return f" {TARGET} " in _dmsetup("table", name)


def on_member(disk: str, ranges: Sequence[tuple[int, int]], member: str) -> list[tuple[int, int]]:
    """Convert ranges of an md array to ranges of one of its mirrors.

    Parameters
    ----------
    disk : str
        The array, such as ``md0``.
    ranges : sequence of (int, int)
        First sector and sectors.
    member : str
        The mirror's disk, such as ``dm-0``.
    """
    md = _SYSFS_BLOCK / disk / "md"
    if not md.is_dir():
        raise DeviceError(f"{disk}: is no md array, so it has no member {member}")
    level = (md / "level").read_text().strip()
    if level != "raid1":
        raise DeviceError(
            f"{disk}: is {level}; only a member of raid1 has a file's blocks in order"
        )
    offset = md / f"dev-{member}" / "offset"
    if not offset.exists():
        members = ", ".join(sorted(path.name.removeprefix("dev-") for path in md.glob("dev-*")))
        raise DeviceError(f"{member}: is no member of {disk}; its members are {members}")
    first = int(offset.read_text())
    return [(start + first, n) for start, n in ranges]


def _use_of(device: str) -> str:
    """Describe how a device that cannot be opened exclusively is used, and the remedy."""
    node = Path(device).stat().st_rdev
    number = f"{os.major(node)}:{os.minor(node)}"
    for line in _MOUNTS.read_text().splitlines():
        words = line.split(" ")
        if words[2] == number:
            return f"is mounted on {words[4]}; unmount it first"
    holders = Path(f"/sys/dev/block/{number}/holders")
    names = ", ".join(sorted(path.name for path in holders.iterdir())) if holders.is_dir() else ""
    if names:
        return f"is part of {names}; stop {names} first"
    return "is in use (mounted, swap, or part of an array); end that first"


def attach(device: str, name: str, seed: int) -> Path:
    """Put a fault target on a block device, and return the new device's path.

    The device works as before until rules are installed.
    """
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name):
        raise DeviceError(f"{name}: must consist of letters, digits, '_', '.' and '-'")
    try:
        fd = os.open(device, os.O_RDWR | os.O_EXCL)
    except OSError as error:
        if stat.S_ISBLK(_mode_of(device)) and error.errno == errno.EBUSY:
            raise DeviceError(
                f"{device}: {_use_of(device)}, because the target lies between the device and"
                " its user"
            ) from None
        raise DeviceError(f"{device}: {error.strerror}") from None
    try:
        if not stat.S_ISBLK(os.fstat(fd).st_mode):
            raise DeviceError(
                f"{device}: not a block device; `losetup --find --show {device}` makes one of a"
                " file"
            )
        sectors = os.lseek(fd, 0, os.SEEK_END) // 512
    finally:
        os.close(fd)
    path = Path("/dev/mapper") / name
    if path.exists():
        raise DeviceError(f"{path}: exists already; choose another --name")
    table = f"0 {sectors} {TARGET} {os.path.realpath(device)} 0 {seed}"
    try:
        _dmsetup("create", name, "--table", table)
    except DeviceError:
        if TARGET not in _dmsetup("targets"):
            raise DeviceError(
                f"{device}: the kernel has no target {TARGET}; install linnos-dkms, or insmod"
                f" {MODULE}.ko of kernel/module/build.sh"
            ) from None
        raise
    if not path.exists():
        # Without udev, the node must be made here.
        _dmsetup("mknodes", name)
    return path


def _mode_of(device: str) -> int:
    try:
        return Path(device).stat().st_mode
    except OSError:
        return 0


def detach(name: str) -> None:
    """Remove a fault target and its rules; the device below stays as it is."""
    name = name.removeprefix("/dev/mapper/")
    if not _is_target(name):
        raise DeviceError(f"{name}: is not a device of `linnapp faults attach`")
    opened = _dmsetup("info", "-c", "--noheadings", "-o", "open", name).strip()
    if opened != "0":
        raise DeviceError(
            f"{name}: is in use, by {opened} openers; unmount it or stop its array first"
        )
    _dmsetup("remove", name)
    if (Path("/dev/mapper") / name).exists():
        _dmsetup("mknodes")


def remove_rules(disk: str) -> int:
    """Remove all rules of a disk and return their number."""
    store = rules_of(disk)
    names = list(store.rules())
    for rule in names:
        store.remove(rule)
    return len(names)
