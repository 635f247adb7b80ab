# SPDX-License-Identifier: MIT
"""The kernel's files per drive, ``/sys/block/<disk>/linnos`` (docs/ABI-sysfs-block-linnos).

With linnos.ko, for kernels without the patch, these are in ``/sys/kernel/linnos/<disk>``. No other
module accesses them. ``LINNAPP_SYSFS`` replaces ``/sys`` with another tree.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from linnapp.drive import journal
from linnapp.drive.latencies import N_BUCKETS
from linnapp.errors import DeviceError, ModelError
from linnapp.files import AnyPath, os_errors
from linnapp.model import KERNEL_HIDDEN, LatencyModel, Model

if TYPE_CHECKING:
    from linnapp.learn.options import Kind

MODES = ("off", "observe", "enforce")


#: columns of /sys/block/<disk>/stat (Documentation/block/stat.rst); times are in ms
_DISK_STAT = (
    *("read_ios", "read_merges", "read_sectors", "read_ms"),
    *("write_ios", "write_merges", "write_sectors", "write_ms"),
    *("in_flight", "busy_ms"),
)

#: Disks in memory, backed by a file, or without storage.
_NO_DRIVES = ("loop", "nullb", "ram", "zram")

#: larger than any model; a read that returns more is not one
_MAX_MODEL_BYTES = 64 << 20


def sysfs_root() -> Path:
    """Return the mount point of sysfs: ``/sys``, unless ``LINNAPP_SYSFS`` is set."""
    return Path(os.environ.get("LINNAPP_SYSFS", "/sys"))


#: The observer of a disk: a patched kernel, or the module. "unnamed" means that the module is
#: loaded, but has not been given the name of the disk.
ObservedBy = Literal["kernel", "module", "unnamed", "none"]
OBSERVING = ("kernel", "module")


def _module() -> Path:
    return sysfs_root() / "kernel" / "linnos"


def observer_of(name: str) -> ObservedBy:
    """Return what observes a disk, or what could observe it, see `ObservedBy`."""
    if (sysfs_root() / "block" / name / "linnos").is_dir():
        return "kernel"
    if (_module() / name).is_dir():
        return "module"
    return "unnamed" if _module().is_dir() else "none"


def is_observed(name: str) -> bool:
    """Return true if the kernel or the module observes the disk of this name now."""
    return observer_of(name) in OBSERVING


def has_module() -> bool:
    """Return true if the module linnos is loaded or installed."""
    if _module().is_dir():
        return True
    with contextlib.suppress(OSError):
        return not subprocess.run(["modprobe", "-nq", "linnos"], check=False).returncode
    return False


def observed(device: str) -> Drive:
    """Return a drive that the kernel or the module observes now; see :meth:`Drive.observe`."""
    drive = Drive(device, is_added=True)
    drive.observe()
    return drive


class Switchable:
    """A device with a setting: the mode of a drive, or whether an md array queries LinnOS.

    Attributes
    ----------
    name : str
    file : Path
        Shows and sets the value.
    title : str
        Name of the setting in messages.
    """

    name: str
    file: Path

    @property
    def title(self) -> str:
        return f"{self.name}: {self.file.name}"

    @property
    def value(self) -> str:
        """The current value."""
        return read_text(self.file)

    def set(self, value: str, *, noted: bool = True) -> None:
        """Set a value, and record a change in the journal unless `noted` is false.

        An array that is set to on again measures its benefit from the start.
        """
        before = self.value
        if value != before or value == "on":
            write_text(self.file, value)
        if value != before and noted:
            journal.note(f"{self.title} {before} -> {value}")


class Drive(Switchable):
    """A disk whose kernel has LinnOS: ``/dev/nvme0n1``, ``nvme0n1``, or one of its partitions."""

    def __init__(self, device: str, *, is_added: bool = False) -> None:
        """If `is_added`, the module may observe the drive later; see :meth:`observe`."""
        try:
            self.name = disk_name(device)
            self._disk = sysfs_root() / "block" / self.name
            self._find_files()
        except OSError as error:
            raise explained(error, error.filename or device) from error
        if self.is_observed:
            return
        if why := explain_no_queue(self.name):
            raise DeviceError(why if why.startswith(device) else f"{device}: {why}")
        if not is_added:
            self.check_observed(device)

    def _find_files(self) -> None:
        self.observer = observer_of(self.name)
        self._directory = self._disk / "linnos"
        if self.observer == "module":
            self._directory = _module() / self.name
        self.file = self._directory / "mode"

    @property
    def is_observed(self) -> bool:
        """True if the kernel or the module observes it."""
        return self.observer in OBSERVING

    def observe(self) -> None:
        """If the kernel has no LinnOS itself, load the module and let it observe the drive."""
        if self.observer == "none":
            with contextlib.suppress(OSError):  # modprobe does not exist
                subprocess.run(["modprobe", "-q", "linnos"], check=False)
            self._find_files()
        if self.observer == "unnamed":
            write_text(_module() / "add", self.name)
            journal.note(f"{self.name}: is observed by the module linnos")
            self._find_files()
        self.check_observed()

    def check_observed(self, device: str | None = None) -> None:
        """Raise an error about what is missing if nothing observes the drive."""
        device = device or self.name
        if self.is_observed:
            return
        if self.observer == "unnamed":
            raise DeviceError(
                f"{device}: the module linnos does not observe it: as root, "
                f"echo {self.name} >{_module() / 'add'}"
            )
        patched = _with_linnos()
        if patched and not (self._disk / "mq").is_dir():
            raise DeviceError(
                f"{device}: {self._directory} is missing. Other disks have it "
                f"({', '.join(patched)}), so it is not the kernel that lacks the LinnOS patch: "
                f"{self.name} has no request queue; name the disks that serve its requests"
            )
        raise DeviceError(
            f"{device}: {self._directory} is missing: this kernel lacks the LinnOS patch "
            "(CONFIG_BLK_LINNOS); boot the patched kernel, or see kernel/module/README.md"
        )

    def _read(self, name: str) -> str:
        return read_text(self._directory / name)

    def _number(self, name: str) -> int:
        return _numbers(self._directory / name, 1)[0]

    @property
    def mode(self) -> str:
        """``off``, ``observe`` or ``enforce``."""
        return self.value

    def forget(self) -> None:
        """Make the module stop observing this drive and free its model and counts.

        A patched kernel observes every disk; there, this does nothing.
        """
        if self.observer == "module":
            write_text(_module() / "remove", self.name)
            journal.note(f"{self.name}: is no longer observed by the module linnos")

    @property
    def model_id(self) -> str | None:
        """CRC-32 of the active model; None if there is none."""
        text = self._read("model_id")
        return None if text == "none" else text

    @property
    def model_kind(self) -> Kind | None:
        """Kind of the active model; None if there is none."""
        kind = self._read("model_kind")
        return None if kind == "none" else cast("Kind", kind)

    @property
    def threshold_us(self) -> int:
        """The active model's inflection point; 0 without a model."""
        return self._number("threshold_us")

    @property
    def probes(self) -> dict[str, int]:
        """``probe_after_us`` and ``probe_after_revokes``."""
        return {name: self._number(name) for name in ("probe_after_us", "probe_after_revokes")}

    @property
    def failover_us(self) -> int:
        """Cost in µs of a refusal and a read from another disk.

        A probe is late if it takes longer than the threshold and this together.
        """
        return self._number("failover_us")

    @property
    def latency_counts(self) -> list[int]:
        """Number of reads by latency, in the buckets of :mod:`linnapp.drive.latencies`."""
        return _numbers(self._directory / "latency_us_histogram", N_BUCKETS)

    @property
    def stats(self) -> dict[str, int]:
        """Every counter under ``stats/``."""
        directory = self._directory / "stats"
        with os_errors(directory, explained):
            names = sorted(path.name for path in directory.iterdir() if path.is_file())
        texts = {name: self._read(f"stats/{name}") for name in names}
        return {n: int(text) for n, text in texts.items() if re.fullmatch(r"\d{1,20}", text)}

    def read_model(self) -> bytes | None:
        """Return the content of the active model; None if there is none."""
        path = self._directory / "model"
        try:
            with path.open("rb") as stream:
                data = stream.read(_MAX_MODEL_BYTES)
        except OSError as error:
            if error.errno in (errno.ENODATA, errno.ENOENT):
                return None
            raise explained(error, path) from error
        return data or None

    def upload(self, model: Model | LatencyModel) -> None:
        """Replace the active model and check that the kernel has it.

        If the kernel refuses it, the old model stays active.
        """
        path = self._directory / "model"
        if isinstance(model, Model) and model.n_hidden != KERNEL_HIDDEN:
            raise ModelError(
                f"the kernel does not run this model's shape (hidden units {model.n_hidden}, not "
                f"{KERNEL_HIDDEN}); train it with `n_hidden={KERNEL_HIDDEN}`"
            )
        data = model.to_bytes()
        before = self.model_id
        try:
            with path.open("wb", buffering=0) as stream:
                view = memoryview(data)
                # sysfs accepts one page per call and replaces the model at the last one.
                while view:
                    view = view[stream.write(view) :]
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EFBIG, errno.ENOSPC):
                raise ModelError(
                    f"{path}: the kernel refused the model ({error.strerror}); `dmesg` says which "
                    f"check failed. Still active: {before or 'no model'}"
                ) from error
            raise explained(error, path) from error
        active = self.model_id
        if active != model.model_id or self.read_model() != data:
            raise ModelError(
                f"{path}: wrote model {model.model_id}, but {active or 'no model'} is active"
            )
        if active != before:
            journal.note(f"{self.name}: model {before or 'none'} -> {active}")


def drives() -> list[str]:
    """Return the names of the drives to use if the user names none.

    These are all disks whose kernel has LinnOS, except those of `_NO_DRIVES` and slots without a
    medium, which must be named.
    """
    found = []
    for name in _with_linnos():
        size = ""
        with contextlib.suppress(OSError):  # the disk is being removed
            size = (sysfs_root() / "block" / name / "size").read_text().strip()
        if size != "0" and not is_virtual_disk(name):
            found.append(name)
    return found


def check_has_drives() -> None:
    """Raise DeviceError if there are no drives to use when the user names none."""
    if drives():
        return
    if others := _with_linnos():
        raise DeviceError(
            f"no drive has LinnOS; name those of {', '.join(others)} to use, which are virtual or "
            "have no medium"
        )
    raise DeviceError(
        "no disk has LinnOS: this kernel lacks the patch (CONFIG_BLK_LINNOS), and no module "
        "observes a disk; boot the patched kernel, or see kernel/module/README.md"
    )


def _with_linnos() -> list[str]:
    patched = (path.parent.name for path in (sysfs_root() / "block").glob("*/linnos"))
    observed = (path.parent.name for path in (sysfs_root() / "kernel/linnos").glob("*/mode"))
    return sorted({*patched, *observed})


def is_virtual_disk(name: str) -> bool:
    """Return true if it is a disk in memory, backed by a file, or without storage."""
    return name.startswith(_NO_DRIVES)


def md_drives() -> dict[str, list[str]]:
    """Return the disks below each md array, by its name; for a partition, its disk."""
    found = {}
    for array in sorted((sysfs_root() / "block").glob("md*")):
        # The array or a disk may disappear in the meantime.
        with contextlib.suppress(OSError):
            members = sorted((array / "slaves").iterdir())
            found[array.name] = sorted({_disk_of(member) for member in members})
    return found


def _disk_of(member: Path) -> str:
    """Return the disk to which a link leads; for a partition, its disk."""
    directory = member.resolve()
    return directory.parent.name if (directory / "partition").exists() else member.name


_NVME_HEAD = re.compile(r"nvme(\d+)(n\d+)")
_NVME_PATH = re.compile(r"nvme(\d+)c(\d+)(n\d+)")
#: Devices in memory, and those that pass I/Os on without a sign of it in sysfs, by their names.
_KINDS_WITHOUT_QUEUE = ("drbd", "pmem", "ram", "zram")


def nvme_paths(name: str) -> list[str]:
    """Return the paths below the head of NVMe multipath; empty for any other disk."""
    head = _NVME_HEAD.fullmatch(name)
    if head is None:
        return []
    found = (path.name for path in (sysfs_root() / "block").glob(f"nvme{head[1]}c*{head[2]}"))
    return sorted(path for path in found if _NVME_PATH.fullmatch(path))


def explain_no_queue(name: str) -> str | None:
    """Explain why LinnOS cannot observe a disk that serves no requests itself, and what to do.

    None if the disk has request queues, or is an NVMe multipath drive that the module can observe.
    """
    disk = sysfs_root() / "block" / name
    if (disk / "mq").is_dir():
        return None
    if paths := nvme_paths(name):
        if not any((sysfs_root() / "block" / path / "linnos").is_dir() for path in paths):
            return None  # The module linnos observes the paths for it.
        return (
            f"{name} is the head of NVMe's multipath, which has no request queue. The patched "
            f"kernel observes its path {', '.join(paths)}, which has no node in /dev; boot with "
            "nvme_core.multipath=N, and there is one disk, with both (docs/real-machine.md)"
        )
    if _NVME_HEAD.fullmatch(name) and disk.is_dir():
        return (
            f"{name} is the head of an NVMe multipath drive to which no path leads: no controller "
            "reaches it; `nvme list-subsys` shows the controllers and their states"
        )
    below = sorted(_disk_of(member) for member in (disk / "slaves").glob("*"))
    if not below and not any((disk / kind).is_dir() for kind in ("md", "dm")):
        if name.startswith(_KINDS_WITHOUT_QUEUE):
            return f"{name} has no request queue to observe; name a drive"
        return None
    enable = f", or let `linnapp enable {node_of(name)}` do all of it"
    return (
        f"{name} passes its I/Os on (as md, dm-crypt, LVM and bcache do) and has no request queue "
        f"of its own; name the disks below it: {', '.join(below) or 'see `lsblk`'}"
        + (enable if (disk / "md").is_dir() else "")
    )


def explain_no_node(name: str) -> str | None:
    """Explain why a disk cannot be opened, and what to do; None if the reason is not known."""
    path = _NVME_PATH.fullmatch(name)
    if path is None:
        return None
    return (
        f"{name} is a path below nvme{path[1]}{path[3]}, the head of NVMe's multipath, and has no "
        "node in /dev, so that it can be neither recorded nor opened; boot with "
        "nvme_core.multipath=N, and there is one disk with a node (docs/real-machine.md)"
    )


def node_of(name: str) -> Path:
    """Return the path of a disk's device node; "!" in the kernel's names is "/" there."""
    return Path("/dev", name.replace("!", "/"))


def _no_disk(device: str, name: str, what: str) -> DeviceError:
    """Return the error for a name that is not a disk, with the similar device if there is one."""
    disks = sorted(path.name for path in (sysfs_root() / "block").glob("*"))
    instead = "`lsblk` lists the drives"
    if controller := re.fullmatch(r"nvme(\d+)", name):
        namespaces = re.compile(rf"nvme({controller[1]}|\d+c{controller[1]})n\d+")
        found = [disk for disk in disks if namespaces.fullmatch(disk)]
        what = "an NVMe controller, not a disk"
        instead = f"name one of its disks: {', '.join(found)}" if found else instead
    return DeviceError(f"{device}: {what}; {instead}")


def disk_name(device: str) -> str:
    """Return the name of the disk that a device is or is a partition of."""
    path = Path(device)
    name = path.name
    if "/" in device:
        try:
            resolved = path.resolve(strict=True)
            is_block = stat.S_ISBLK(resolved.stat().st_mode)
        except OSError as error:
            raise DeviceError(f"{device}: {error.strerror}; `lsblk` lists the drives") from error
        if not is_block and "LINNAPP_SYSFS" not in os.environ:
            raise _no_disk(device, resolved.name, "not a block device")
        name = resolved.name
        if is_block:
            number = resolved.stat().st_rdev
            known = sysfs_root() / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
            if known.exists():
                name = known.resolve().name
    block = sysfs_root() / "block"
    disks = sorted(path.name for path in block.glob("*"))
    if name in disks:
        return name
    # A partition's directory is in its disk's, as are others that are not partitions.
    for disk in disks:
        if (block / disk / name / "partition").is_file():
            return disk
    raise _no_disk(device, name, f"no such disk under {block}")


def device_number(name: str) -> int:
    """Return a disk's number in the kernel's internal form: major << 20 | minor."""
    major, minor = _numbers(sysfs_root() / "block" / name / "dev", 2, ":")
    return major << 20 | minor


def disk_stat(name: str) -> dict[str, int]:
    """Return the block layer's counters of a disk, which do not depend on LinnOS.

    `read_ios`, `read_merges`, `read_sectors`, `read_ms`, the same for writes, `in_flight` and
    `busy_ms`. The times are from request to completion, so they include time in a scheduler.
    """
    columns = _numbers(sysfs_root() / "block" / name / "stat", len(_DISK_STAT))
    return dict(zip(_DISK_STAT, columns, strict=True))


def write_text(path: Path, text: str) -> None:
    """Write to one of the kernel's files."""
    with os_errors(path, explained):
        path.write_text(text)


def read_text(path: Path) -> str:
    """Return the text of one of the kernel's files."""
    with os_errors(path, explained):
        return path.read_text(errors="replace").strip()


def _numbers(path: Path, n: int, separator: str | None = None) -> list[int]:
    """Return the first `n` numbers in one of the kernel's files."""
    text = read_text(path)
    try:
        found = [int(word) for word in text.split(separator)]
    except ValueError:
        found = []
    if len(found) < n:
        raise DeviceError(
            f"{path}: {text[:80]!r}, expected {'a number' if n == 1 else f'{n} numbers'}; empty "
            "files belong to a drive that is being removed; `lsblk` lists the existing ones"
        )
    return found[:n]


def explained(error: OSError, path: AnyPath) -> DeviceError:
    """Explain an error of one of the kernel's files, and what to do about it."""
    reason = error.strerror or str(error)
    if error.errno in (errno.EACCES, errno.EPERM):
        reason += "; run as root"
    elif error.errno == errno.EINVAL:
        reason += "; the kernel refused the value, `dmesg` may say why"
    return DeviceError(f"{path}: {reason}")
