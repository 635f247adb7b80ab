# SPDX-License-Identifier: MIT
"""The kernel's files per drive, ``/sys/block/<disk>/linnos`` (docs/ABI-sysfs-block-linnos).

Or those of linnos.ko, for kernels without the patch, ``/sys/kernel/linnos/<disk>``. The only module
that touches them. ``LINNAPP_SYSFS`` puts another tree in the place of ``/sys``.
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
from linnapp.drive.counters.latencies import N_BUCKETS
from linnapp.errors import DeviceError, ModelError
from linnapp.files import AnyPath, os_errors
from linnapp.model import LatencyModel, Model
from linnapp.model.latency_model import Choosing
from linnapp.model.model_file import KERNEL_HIDDEN

if TYPE_CHECKING:
    from linnapp.learn.options import Kind

MODES = ("off", "observe", "enforce")


#: columns of /sys/block/<disk>/stat (Documentation/block/stat.rst); times are in ms
_DISK_STAT = (
    *("read_ios", "read_merges", "read_sectors", "read_ms"),
    *("write_ios", "write_merges", "write_sectors", "write_ms"),
    *("in_flight", "busy_ms"),
)

#: Disks of memory, of a file, or of nothing.
_NO_DRIVES = ("loop", "nullb", "ram", "zram")

#: larger than any model; a read that returns more is not one
_MAX_MODEL_BYTES = 64 << 20


def sysfs_root() -> Path:
    """Where sysfs is: ``/sys``, unless ``LINNAPP_SYSFS`` says otherwise."""
    return Path(os.environ.get("LINNAPP_SYSFS", "/sys"))


#: What observes a disk: a patched kernel, the module, a module to which it is not named, nothing.
ObservedBy = Literal["kernel", "module", "unnamed", "none"]


def _module() -> Path:
    return sysfs_root() / "kernel" / "linnos"


def observer_of(name: str) -> ObservedBy:
    """What observes the disk of this name, or would."""
    if (sysfs_root() / "block" / name / "linnos").is_dir():
        return "kernel"
    if (_module() / name).is_dir():
        return "module"
    return "unnamed" if _module().is_dir() else "none"


def has_module() -> bool:
    """Whether the module linnos is loaded, or there to be."""
    if _module().is_dir():
        return True
    with contextlib.suppress(OSError):
        return not subprocess.run(["modprobe", "-nq", "linnos"], check=False).returncode
    return False


def observed(device: str) -> Drive:
    """A drive, named to the module, and that loaded, if the kernel has no LinnOS itself."""
    name = disk_name(device)
    if observer_of(name) == "none":
        with contextlib.suppress(OSError):  # there is no modprobe
            subprocess.run(["modprobe", "-q", "linnos"], check=False)
    if observer_of(name) == "unnamed" and not has_no_queue(name):
        _write(_module() / "add", name)
        journal.note(f"{name}: named to the module linnos")
    return Drive(device)


class Drive:
    """A disk whose kernel has LinnOS: ``/dev/nvme0n1``, ``nvme0n1``, or a partition's."""

    def __init__(self, device: str) -> None:
        try:
            self.name = disk_name(device)
            self._disk = sysfs_root() / "block" / self.name
            self._directory = self._disk / "linnos"
            self.observer = observer_of(self.name)
        except OSError as error:
            raise explained(error, error.filename or device) from error
        if self.observer == "module":
            self._directory = _module() / self.name
        elif self.observer != "kernel" and (why := has_no_queue(self.name)):
            raise DeviceError(why if why.startswith(device) else f"{device}: {why}")
        elif self.observer == "unnamed":
            raise DeviceError(
                f"{device}: the module linnos does not observe it: as root, "
                f"echo {self.name} >{_module() / 'add'}"
            )
        elif self.observer == "none":
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
        return _text(self._directory / name)

    def _number(self, name: str) -> int:
        return _numbers(self._directory / name, 1)[0]

    def _write(self, name: str, text: str) -> None:
        _write(self._directory / name, text)

    @property
    def device_number(self) -> int:
        """The disk's number, as the kernel keeps it: major << 20 | minor."""
        major, minor = _numbers(self._disk / "dev", 2, ":")
        return major << 20 | minor

    @property
    def mode(self) -> str:
        """``off``, ``observe`` or ``enforce``."""
        text = self._read("mode")
        # Some kernels' files show all choices with the current one in brackets.
        current = re.search(r"\[(\w+)\]", text)
        return current[1] if current else text

    def set_mode(self, mode: str) -> None:
        """Switch the mode; a mode that needs a model is refused without one."""
        if mode not in MODES:
            raise DeviceError(f"mode {mode!r}: expected one of {', '.join(MODES)}")
        before = self.mode
        self._write("mode", mode)
        if mode != before:
            journal.note(f"{self.name}: mode {before} -> {mode}")

    def forget(self) -> None:
        """Have the module not observe it any more, and let go of model and counts.

        A patched kernel observes every disk: there, nothing is done.
        """
        if self.observer == "module":
            _write(_module() / "remove", self.name)
            journal.note(f"{self.name}: the module linnos observes it no more")

    @property
    def model_id(self) -> str | None:
        """CRC-32 of the active model, or None."""
        text = self._read("model_id")
        return None if text == "none" else text

    @property
    def model_kind(self) -> Kind | None:
        """Kind of the active model, or None."""
        if not self.runs_latency_models:
            return None if self.model_id is None else "network"
        kind = self._read("model_kind")
        return None if kind == "none" else cast("Kind", kind)

    @property
    def model_usage(self) -> Choosing | None:
        """Whether reads may be refused, or sent elsewhere, by the active model.

        None without one, or where it cannot be read.
        """
        kind = self.model_kind
        if kind != "latency":
            return None if kind is None else "always"
        try:
            data = self.read_model()
            model = None if data is None else LatencyModel.from_bytes(data, self.name)
        except (DeviceError, ModelError):
            return None
        return None if model is None else model.choosing

    @property
    def runs_latency_models(self) -> bool:
        """Whether this kernel knows the second kind of model."""
        return (self._directory / "model_kind").exists()

    @property
    def threshold_us(self) -> int:
        """The active model's inflection point; 0 without a model."""
        return self._number("threshold_us")

    @property
    def probes(self) -> dict[str, int]:
        """``probe_after_us`` and ``probe_after_revokes``."""
        return {name: self._number(name) for name in ("probe_after_us", "probe_after_revokes")}

    @property
    def failover_us(self) -> int | None:
        """How late a probe may be beyond the threshold; None if the kernel does not say."""
        if not (self._directory / "failover_us").exists():
            return None
        return self._number("failover_us")

    @property
    def latency_counts(self) -> list[int] | None:
        """Reads by how long they took, in the buckets of :mod:`linnapp.drive.counters.latencies`.

        None where the kernel does not count them, or in other buckets.
        """
        path = self._directory / "latency_us_histogram"
        if not path.exists():
            return None
        words = _text(path).split()
        if len(words) != N_BUCKETS or not all(map(str.isdecimal, words)):
            return None
        return [int(word) for word in words]

    @property
    def stats(self) -> dict[str, int]:
        """Every counter under ``stats/``."""
        directory = self._directory / "stats"
        with os_errors(directory, explained):
            names = sorted(path.name for path in directory.iterdir() if path.is_file())
        counters = {}
        for name in names:
            text = self._read(f"stats/{name}")
            if re.fullmatch(r"\d{1,20}", text):
                counters[name] = int(text)
        return counters

    @property
    def disk_stat(self) -> dict[str, int]:
        """What the block layer counts of the disk, whatever the policy's mode.

        `read_ios`, `read_merges`, `read_sectors`, `read_ms`, the same of writes, `in_flight` and
        `busy_ms`. The times are from request to completion: what a scheduler adds is in them.
        """
        return disk_stat(self.name)

    @property
    def pending_pages(self) -> int | None:
        """Pages of 4 KiB that the policy has in flight; None where debugfs cannot be read."""
        path = sysfs_root() / "kernel/debug"
        if self._directory.parent == self._disk:
            path /= f"block/{self.name}/rqos/linnos/in_flight"
        else:
            path /= f"linnos/{self.name}/in_flight"
        try:
            counts = re.match(r"(\d+) pages", _text(path))
        except DeviceError:
            return None
        return int(counts[1]) if counts else None

    def read_model(self) -> bytes | None:
        """Content of the active model, or None."""
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
        """Replace the active model and check that the kernel has it; refused, the old one stays."""
        path = self._directory / "model"
        if isinstance(model, LatencyModel):
            self.check_runs_latency_models(f"model {model.model_id} is a latency model")
        elif model.n_hidden != KERNEL_HIDDEN:
            raise ModelError(
                f"the kernel does not run this model's shape (hidden units {model.n_hidden}, not "
                f"{KERNEL_HIDDEN}); train it with `n_hidden={KERNEL_HIDDEN}`"
            )
        data = model.to_bytes()
        before = self.model_id
        try:
            with path.open("wb", buffering=0) as stream:
                view = memoryview(data)
                # sysfs takes a page per call and replaces the model with the last one.
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

    def check_runs_latency_models(self, what: str = "latency models are asked for") -> None:
        """Refuse what needs a kernel that knows the second kind of model."""
        if not self.runs_latency_models:
            raise ModelError(
                f"{what}, which this kernel does not run ({self._directory}/model_kind is "
                "missing); boot a newer one, or upload a network, which `linnapp train` makes "
                "unless told otherwise"
            )


def drives() -> list[str]:
    """Names of the drives that are meant where none is named.

    All disks whose kernel has LinnOS, but of those that are no drives, as `_NO_DRIVES` and slots
    without a medium, only what somebody gave a mode other than off, or a model.
    """
    return [name for name in _with_linnos() if _is_drive(name) or _is_set_up(name)]


def check_has_drives() -> None:
    """Find out whether any drive is meant where none is named."""
    if drives():
        return
    if others := _with_linnos():
        raise DeviceError(
            f"no drive has LinnOS; of {', '.join(others)}, which are none or have no medium, name "
            "those that you mean"
        )
    raise DeviceError(
        "no disk has LinnOS: this kernel lacks the patch (CONFIG_BLK_LINNOS), and no module "
        "observes a disk; boot the patched kernel, or see kernel/module/README.md"
    )


def _with_linnos() -> list[str]:
    patched = (path.parent.name for path in (sysfs_root() / "block").glob("*/linnos"))
    observed = (path.parent.name for path in (sysfs_root() / "kernel/linnos").glob("*/mode"))
    return sorted({*patched, *observed})


def _is_drive(name: str) -> bool:
    try:
        size = (sysfs_root() / "block" / name / "size").read_text().strip()
    except OSError:
        size = ""  # it is being removed
    return not is_made_up(name) and size != "0"


def is_made_up(name: str) -> bool:
    """Whether it is a disk of memory, of a file, or of nothing."""
    return name.startswith(_NO_DRIVES)


def _is_set_up(name: str) -> bool:
    try:
        drive = Drive(name)
        return drive.mode != "off" or drive.model_id is not None
    except DeviceError:
        return False


def md_drives() -> dict[str, list[str]]:
    """The disks below each md array, by its name; of a partition in it the disk is meant."""
    found = {}
    for array in sorted((sysfs_root() / "block").glob("md*")):
        # It or a disk may go meanwhile.
        with contextlib.suppress(OSError):
            members = sorted((array / "slaves").iterdir())
            found[array.name] = sorted({_disk_of(member) for member in members})
    return found


def _disk_of(member: Path) -> str:
    """The disk that a link to it, or to one of its partitions, leads to."""
    directory = member.resolve()
    return directory.parent.name if (directory / "partition").exists() else member.name


_NVME_HEAD = re.compile(r"nvme(\d+)(n\d+)")
_NVME_PATH = re.compile(r"nvme(\d+)c(\d+)(n\d+)")
#: what no more than passes I/Os on, by the beginning of its name, or is memory
_KINDS_WITHOUT_QUEUE = {
    "bcache": "a bcache device",
    "drbd": "a DRBD device",
    "pmem": "persistent memory",
    "ram": "a disk of memory",
    "zram": "a disk of memory",
}


def nvme_paths(name: str) -> list[str]:
    """The paths below the head of NVMe's multipath; none of another disk."""
    head = _NVME_HEAD.fullmatch(name)
    if head is None:
        return []
    found = (path.name for path in (sysfs_root() / "block").glob(f"nvme{head[1]}c*{head[2]}"))
    return sorted(path for path in found if _NVME_PATH.fullmatch(path))


def has_no_queue(name: str) -> str | None:
    """Why LinnOS cannot observe a disk that serves no requests itself, and what to do; or None."""
    disk = sysfs_root() / "block" / name
    if (disk / "mq").is_dir():
        return None
    if paths := nvme_paths(name):
        known = [path for path in paths if observer_of(path) in ("kernel", "module")]
        has = f"{', '.join(known)} has LinnOS" if known else "LinnOS does not observe it"
        return (
            f"{name} is the head of NVMe's multipath, which has no request queue: its path "
            f"{', '.join(paths)} serves its reads ({has}) but has no node in /dev; boot with "
            "nvme_core.multipath=N, and there is one disk, with both (docs/real-machine.md)"
        )
    below = sorted(_disk_of(member) for member in (disk / "slaves").glob("*"))
    name_below = f"name the disks below it: {', '.join(below)}" if below else "name the disks below"
    if (disk / "md").is_dir():
        return (
            f"{name} is an md array, which has no request queue of its own; {name_below}, or let "
            f"`linnapp enable {node_of(name)}` do all of it"
        )
    if (disk / "dm").is_dir():
        return (
            f"{name} is a device-mapper volume (dm-crypt, LVM), which has no request queue of its "
            f"own; {name_below}"
        )
    for prefix, kind in _KINDS_WITHOUT_QUEUE.items():
        if name.startswith(prefix):
            return f"{name} is {kind}, which has no request queue to observe; {name_below}"
    if below:
        return f"{name} passes its I/Os on and has no request queue of its own; {name_below}"
    return None


def has_no_node(name: str) -> str | None:
    """Why a disk cannot be opened, and what to do about it; None if that is not known of it."""
    path = _NVME_PATH.fullmatch(name)
    if path is None:
        return None
    return (
        f"{name} is a path below nvme{path[1]}{path[3]}, the head of NVMe's multipath, and has no "
        "node in /dev, so that it can be neither recorded nor opened; boot with "
        "nvme_core.multipath=N, and there is one disk with a node (docs/real-machine.md)"
    )


def node_of(name: str) -> Path:
    """Where the node of a disk is; "!" in the kernel's names is "/" there."""
    return Path("/dev", name.replace("!", "/"))


def _no_disk(device: str, name: str) -> DeviceError:
    """An error for what has the name of something near a disk, or of nothing."""
    block = sysfs_root() / "block"
    disks = sorted(path.name for path in block.glob("*"))
    what = f"no such disk under {block}"
    instead = "`lsblk` lists the drives"
    if controller := re.fullmatch(r"nvme(\d+)", name):
        namespaces = re.compile(rf"nvme({controller[1]}|\d+c{controller[1]})n\d+")
        found = [disk for disk in disks if namespaces.fullmatch(disk)]
        what = "an NVMe controller, no disk"
        instead = f"name one of its disks: {', '.join(found)}" if found else instead
    elif character := re.fullmatch(r"ng(\d+n\d+)", name):
        what, instead = "NVMe's character device, no disk", f"name /dev/nvme{character[1]}"
    elif re.fullmatch(r"sg\d+", name):
        what, instead = "SCSI's character device, no disk", "`lsscsi -g` lists the disks of these"
    return DeviceError(f"{device}: {what}; {instead}")


def disk_name(device: str) -> str:
    """Name of the disk that a device is, or is a partition of."""
    path = Path(device)
    name = path.name
    if "/" in device:
        try:
            resolved = path.resolve(strict=True)
            is_block = stat.S_ISBLK(resolved.stat().st_mode)
        except OSError as error:
            raise DeviceError(f"{device}: {error.strerror}; `lsblk` lists the drives") from error
        if not is_block and "LINNAPP_SYSFS" not in os.environ:
            error_of = _no_disk(device, resolved.name)
            if "no such disk" in str(error_of):
                raise DeviceError(f"{device}: not a block device; `lsblk` lists the drives")
            raise error_of
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
    # A partition's directory lies in its disk's, as others do that are none.
    for disk in disks:
        if (block / disk / name / "partition").is_file():
            return disk
    raise _no_disk(device, name)


def disk_stat(name: str) -> dict[str, int]:
    """What the block layer counts of a disk, observed or not, as :attr:`Drive.disk_stat`."""
    columns = _numbers(sysfs_root() / "block" / name / "stat", len(_DISK_STAT))
    return dict(zip(_DISK_STAT, columns, strict=True))


def _write(path: Path, text: str) -> None:
    with os_errors(path, explained):
        path.write_text(text)


def _text(path: Path) -> str:
    """What one of the kernel's files says."""
    with os_errors(path, explained):
        return path.read_text(errors="replace").strip()


def _numbers(path: Path, n: int, separator: str | None = None) -> list[int]:
    """The first `n` numbers in one of the kernel's files."""
    text = _text(path)
    try:
        found = [int(word) for word in text.split(separator)]
    except ValueError:
        found = []
    if len(found) < n:
        raise DeviceError(
            f"{path}: {text[:80]!r}, expected {'a number' if n == 1 else f'{n} numbers'}; empty "
            "files are of a drive that is being removed, `lsblk` lists those that are there"
        )
    return found[:n]


def explained(error: OSError, path: AnyPath) -> DeviceError:
    """What went wrong with one of the kernel's files, and what to do about it."""
    reason = error.strerror or str(error)
    if error.errno in (errno.EACCES, errno.EPERM):
        reason += "; run as root"
    elif error.errno == errno.EINVAL:
        reason += "; the kernel refused the value, `dmesg` may say why"
    return DeviceError(f"{path}: {reason}")
