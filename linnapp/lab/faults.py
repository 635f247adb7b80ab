# SPDX-License-Identifier: MIT
"""Fault rules of disks, from the JSON rule files of the FISPDK fault injector.

A rule file lists the requests to be damaged, by file, and the kind of damage. Here each
entry becomes one fault rule of the disk that contains the file, an emulated drive or a
device-mapper target (:mod:`.fault_rules`): the file's name is resolved to its extents, so that only
that file's blocks are affected.

The format, in which `write` and `read` are both optional::

    {"write": {"files": [
        {"fileName": "/mnt/data/file",
         "faultInjection": {
             "frequency": "INTERVAL", "nRequests": 500,
             "faultType": {"type": "CORRUPTION",
                           "corruptionPattern": "BIT_FLIP",
                           "offset": 0, "index": 3}}}]}}

`frequency` is ALL, ALL_AFTER or INTERVAL, the last two with `nRequests`. `type`
is CORRUPTION (with `corruptionPattern` BIT_FLIP, RANDOM_BIT_FLIP, ALL_ZEROS or
ALL_ONES), DELAY (with `latencyUs`), MEDIUM_ERROR or LOST_WRITE. The thesis also has the words
CORRUPT_CONTENT, BITFLIP_CUSTOM_INDEX and REPLACE_ALL_ZEROS. For a BIT_FLIP without
`offset` (byte) or `index` (bit), the drive's random seed determines them. Two optional keys are
not in the thesis: `tag`, the I/O tag that must match, and `count`, BLOCK (the default:
4 KiB blocks are counted, even if the kernel merged them) or REQUEST. Case, spaces,
hyphens and underscores in the words are ignored.

Source of the format and its meaning: Miranda, "Realistic Fault Assessment in
SPDK-enabled Storage Stacks", 2023, Annex I.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import stat
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linnapp.errors import LinnappError, errors_about
from linnapp.files import AnyPath, os_errors
from linnapp.lab.fault_rules import on_member, rules_of

SECTOR_BYTES = 512

_FIEMAP = 0xC020660B  # FS_IOC_FIEMAP
_FIEMAP_FLAG_SYNC = 0x1
_FIEMAP_HEADER = struct.Struct("=QQIIII")
_FIEMAP_EXTENT = struct.Struct("=QQQQQIIII")
_FIEMAP_EXTENT_LAST = 0x1
#: The location is not known or not final, or the extent is not used by this file alone.
_FIEMAP_EXTENT_UNUSABLE = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400 | 0x2000
_EXTENTS_PER_CALL = 512

_FREQUENCIES = {"ALL": "all", "ALLAFTER": "all_after", "INTERVAL": "interval"}
_PATTERNS = {
    "BITFLIP": "bit_flip",
    "BITFLIPCUSTOMINDEX": "bit_flip",
    "RANDOMBITFLIP": "bit_flip",
    "ALLZEROS": "zeros",
    "REPLACEALLZEROS": "zeros",
    "ALLONES": "ones",
    "REPLACEALLONES": "ones",
}
_TYPES = {
    "CORRUPTION": "corruption",
    "CORRUPTCONTENT": "corruption",
    "DELAY": "delay",
    "MEDIUMERROR": "medium_error",
    "LOSTWRITE": "lost_write",
}


@dataclass(frozen=True)
class FaultRule:
    """One entry of a rule file."""

    #: File whose blocks are affected, or a drive itself.
    file_name: str
    #: Attributes of the drive's rule, name to value, except its ranges.
    knobs: Mapping[str, str]


def _only(where: str, entry: Mapping[str, Any], *allowed: str) -> None:
    """Raise an error if an entry has other keys than those allowed.

    With a misspelt key, a fault would not be injected, and the program under test would seem to
    survive it.
    """
    unknown = sorted(set(entry) - set(allowed))
    if unknown:
        raise LinnappError(
            f"{where}: unknown key {', '.join(map(repr, unknown))}; known are {', '.join(allowed)}"
        )


def _word(where: str, entry: Mapping[str, Any], key: str, choices: Mapping[str, str]) -> str:
    value = entry.get(key)
    if isinstance(value, str):
        known = choices.get("".join(c for c in value.upper() if c.isalnum()))
        if known is not None:
            return known
    raise LinnappError(f"{where}: {key} is {value!r}; known are {', '.join(sorted(choices))}")


def _number(where: str, entry: Mapping[str, Any], key: str, low: int, high: int) -> int:
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise LinnappError(f"{where}: {key} is {value!r}; it must be a number from {low} to {high}")
    return value


def _fault_knobs(where: str, fault: Mapping[str, Any]) -> dict[str, str]:
    _only(where, fault, "type", "corruptionPattern", "latencyUs", "offset", "index")
    kind = _word(where, fault, "type", _TYPES)
    if kind == "corruption":
        kind = _word(where, fault, "corruptionPattern", _PATTERNS)
    knobs = {"fault": kind}
    if kind == "delay":
        knobs["latency_us"] = str(_number(where, fault, "latencyUs", 0, 60_000_000))
    if kind == "bit_flip" and "RANDOM" not in fault["corruptionPattern"].upper():
        if "offset" in fault:
            knobs["offset"] = str(_number(where, fault, "offset", 0, 2**31 - 1))
        if "index" in fault:
            knobs["bit"] = str(_number(where, fault, "index", 0, 7))
    return knobs


def _entry_rule(where: str, op: str, file_name: str, entry: Mapping[str, Any]) -> FaultRule:
    _only(where, entry, "frequency", "nRequests", "faultType", "tag", "count")
    knobs = {"op": op, "count": "block"}
    knobs["frequency"] = _word(where, entry, "frequency", _FREQUENCIES)
    if knobs["frequency"] != "all":
        knobs["n"] = str(_number(where, entry, "nRequests", 1, 2**62))
    if "tag" in entry:
        knobs["tag"] = str(_number(where, entry, "tag", 0, 1023))
    if "count" in entry:
        knobs["count"] = _word(where, entry, "count", {"BLOCK": "block", "REQUEST": "request"})
    fault = entry.get("faultType")
    if not isinstance(fault, Mapping):
        raise LinnappError(f"{where}: faultType is missing or not an object")
    knobs.update(_fault_knobs(f"{where}.faultType", fault))
    if knobs["fault"] == "lost_write" and op == "read":
        raise LinnappError(f"{where}: LOST_WRITE is no fault of a read; put it under write")
    return FaultRule(file_name, knobs)


def _can_be_encoded(name: str) -> bool:
    """Return true if a file can have this name.

    Python represents bytes that are not UTF-8 by some surrogates. A name with others cannot exist.
    """
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def parse_rules(document: object) -> list[FaultRule]:
    """Return the rules of a rule file as read by ``json.load``, in its order.

    Rules of `write` and `read` are not separated.
    """
    if not isinstance(document, Mapping) or not document:
        raise LinnappError("a rule file is an object with the keys write and read")
    _only("a rule file is an object with the keys write and read", document, "write", "read")
    rules = []
    for op, part in document.items():
        files = part.get("files") if isinstance(part, Mapping) else None
        if not isinstance(files, list):
            raise LinnappError(f"{op}.files is missing or not a list")
        _only(op, part, "files")
        for k, file in enumerate(files):
            where = f"{op}.files[{k}]"
            name = file.get("fileName") if isinstance(file, Mapping) else None
            if not isinstance(name, str) or not name:
                raise LinnappError(f"{where}: fileName is missing")
            if "\0" in name or not _can_be_encoded(name):
                raise LinnappError(f"{where}: fileName is {name!r}; no file can be called that")
            _only(where, file, "fileName", "faultInjection")
            entries = file.get("faultInjection")
            if isinstance(entries, Mapping):
                entries = [entries]
            if not isinstance(entries, list) or not entries:
                raise LinnappError(f"{where}: faultInjection is missing")
            for entry in entries:
                if not isinstance(entry, Mapping):
                    raise LinnappError(f"{where}: faultInjection is not an object")
                rules.append(_entry_rule(f"{where}.faultInjection", op, name, entry))
    return rules


def load_rules(path: AnyPath) -> list[FaultRule]:
    """Read a rule file, which is JSON."""
    path = Path(path)
    try:
        with os_errors(path):
            document = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise LinnappError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise LinnappError(f"{path}: not a rule file: nested too deeply") from None
    except ValueError as error:  # JSONDecodeError, or a number with thousands of digits
        raise LinnappError(f"{path}: not JSON: {error}") from None
    with errors_about(path):
        return parse_rules(document)


def _disk_and_start(file_name: str, device: int) -> tuple[str, int]:
    """Return the disk of a device number, and the device's first sector on it."""
    node = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not node.exists():
        raise LinnappError(
            f"{file_name}: is on no block device of its own (a network or memory file system?)"
        )
    node = node.resolve()
    start = node / "start"
    if (node / "partition").exists():
        return node.parent.name, int(start.read_text())
    return node.name, 0


def _file_extents(file_name: str, fd: int) -> Iterable[tuple[int, int]]:
    """Yield an open file's physical extents as (first byte, bytes) of its file system's device."""
    offset = 0
    room = _FIEMAP_HEADER.size + _EXTENTS_PER_CALL * _FIEMAP_EXTENT.size
    while True:
        buffer = array.array("B", bytes(room))
        _FIEMAP_HEADER.pack_into(
            buffer, 0, offset, 2**64 - 1 - offset, _FIEMAP_FLAG_SYNC, 0, _EXTENTS_PER_CALL, 0
        )
        try:
            fcntl.ioctl(fd, _FIEMAP, buffer)
        except OSError as error:
            raise LinnappError(
                f"{file_name}: its file system does not report its location ({error.strerror});"
                " use ext4, xfs or the drive itself"
            ) from None
        count = _FIEMAP_HEADER.unpack_from(buffer, 0)[3]
        for k in range(count):
            logical, physical, length, _, _, flags, *_ = _FIEMAP_EXTENT.unpack_from(
                buffer, _FIEMAP_HEADER.size + k * _FIEMAP_EXTENT.size
            )
            if flags & _FIEMAP_EXTENT_UNUSABLE:
                raise LinnappError(
                    f"{file_name}: byte {logical} has no blocks of its own on the drive"
                    f" (FIEMAP flags {flags:#x})"
                )
            yield physical, length
            offset = logical + length
            if flags & _FIEMAP_EXTENT_LAST:
                return
        if not count:
            return


def resolve(file_name: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the disk of a file or block device, and its first sectors and lengths there.

    A partition has a single range, and a whole disk has none. A file must be on a file system on a
    disk or partition, and its blocks must be allocated (`fallocate` does that for a file that is
    not written yet).
    """
    try:
        fd = os.open(file_name, os.O_RDONLY)
    except (OSError, ValueError) as error:  # A NUL character, or one that no file name can have.
        raise LinnappError(f"{file_name!r}: {getattr(error, 'strerror', error)}") from None
    try:
        status = os.fstat(fd)
        if stat.S_ISBLK(status.st_mode):
            disk, start = _disk_and_start(file_name, status.st_rdev)
            if not start:
                return disk, []
            length = os.lseek(fd, 0, os.SEEK_END)
            return disk, [(start, length // SECTOR_BYTES)]
        if not stat.S_ISREG(status.st_mode):
            raise LinnappError(f"{file_name}: neither a file nor a drive")
        disk, start = _disk_and_start(file_name, status.st_dev)
        ranges = [
            (start + first // SECTOR_BYTES, length // SECTOR_BYTES)
            for first, length in _file_extents(file_name, fd)
        ]
    finally:
        os.close(fd)
    if not ranges:
        raise LinnappError(f"{file_name}: has no blocks yet; give it some with fallocate")
    return disk, ranges


def install(rules: Iterable[FaultRule], member: str | None = None) -> list[tuple[str, str]]:
    """Create and enable rules, all or none, and return the disk and the name of each.

    Every file is resolved before the first rule is created, and rules are enabled only when all of
    them exist. They are named ``faults0``, ``faults1``, ...

    Parameters
    ----------
    rules : iterable of FaultRule
        The rules.
    member : str, optional
        For files on md's raid1: the name of the mirror that gets the rules, such as ``dm-0``.
    """
    placed = []
    for rule in rules:
        disk, ranges = resolve(rule.file_name)
        if member is not None and disk != member:
            disk, ranges = member, on_member(disk, ranges, member)
        placed.append((rule, disk, ranges, rules_of(disk)))
    with contextlib.ExitStack() as undo:
        for k, (rule, _, ranges, store) in enumerate(placed):
            store.add(f"faults{k}", rule.knobs)
            undo.callback(store.remove, f"faults{k}")
            store.add_ranges(f"faults{k}", ranges)
        for k, (_, _, _, store) in enumerate(placed):
            store.enable(f"faults{k}")
        undo.pop_all()
    return [(disk, f"faults{k}") for k, (_, disk, _, _) in enumerate(placed)]
