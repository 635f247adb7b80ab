# SPDX-License-Identifier: MIT
"""``/etc/linnapp/drives.conf``: the model and mode that each drive gets, also after a reboot.

Each drive or array has a section, which is named by a path that does not change::

    [drive /dev/disk/by-id/wwn-0x5002538f31b2c3d4]
    model = /var/lib/linnapp/enable/md0/20261124-101500/nvme0n1.linnos
    mode = observe
    array = /dev/disk/by-id/md-uuid-3aaa0122:29827cfa:5331ad66:ca767371
    wwid = naa.5002538f31b2c3d4
    serial = S4EWNX0R123456
    product = Samsung SSD 883 DCT 960GB
    sectors = 1875385008

    [array /dev/disk/by-id/md-uuid-3aaa0122:29827cfa:5331ad66:ca767371]
    linnos = on
    uuid = 3aaa0122:29827cfa:5331ad66:ca767371

Files without the identities of devices (:mod:`linnapp.drive.stable_ids`) are read as well.
Unknown lines are an error, so that no drive silently stays as it is.
"""

from __future__ import annotations

import configparser
import dataclasses
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path

from linnapp.drive.stable_ids import KEYS, Identity
from linnapp.drive.sysfs import MODES
from linnapp.errors import ConfWarning, LinnappError
from linnapp.files import AnyPath, explain_os_error, os_errors, replace_text

DEFAULT_CONF = Path("/etc/linnapp/drives.conf")

HEADER = """\
# SPDX-License-Identifier: MIT
# The settings that `linnapp restore` gives drives and md arrays; linnapp-restore.service runs it
# at boot. `linnapp enable` and `linnapp disable` rewrite this file: your own comments are lost.
#
# [drive NAME]     a path that does not change, as in /dev/disk/by-id
#   model = FILE   the model file; mode off needs none
#   mode = off | observe | enforce
#   array = NAME   the md array that contains the drive
#   wwid, serial, product, sectors = ...   values to find the drive under another name
# [array NAME]
#   linnos = on | off   whether md queries LinnOS before it reads
#   uuid = ...   value to find the array under another name
"""

_KEYS = {"drive": ("model", "mode", "array", *KEYS["drive"]), "array": ("linnos", *KEYS["array"])}
#: The key that each section must have, and its values.
_REQUIRED = {"drive": ("mode", MODES), "array": ("linnos", ("on", "off"))}


@dataclasses.dataclass(frozen=True)
class DriveEntry:
    """The settings to give a drive."""

    #: {"off", "observe", "enforce"}
    mode: str
    model: Path | None = None
    #: The md array that contains the drive.
    array: str | None = None
    #: Values that identify the drive under another name, by key.
    identity: Identity = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ArrayEntry:
    """The settings to give an array."""

    #: True if md queries LinnOS before it reads.
    asks: bool
    #: Values that identify the array under another name, by key.
    identity: Identity = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class DrivesConf:
    """The file's content: entries by paths that do not change."""

    drives: Mapping[str, DriveEntry] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, ArrayEntry] = dataclasses.field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to restore."""
        return not self.drives and not self.arrays

    @property
    def models(self) -> list[Path]:
        """The model files that are in use."""
        return [entry.model for entry in self.drives.values() if entry.model is not None]

    def updated(self, other: DrivesConf) -> DrivesConf:
        """Return a copy in which the entries of `other` replace those of the same names."""
        return DrivesConf({**self.drives, **other.drives}, {**self.arrays, **other.arrays})

    def renamed(self, names: Mapping[str, str]) -> DrivesConf:
        """Return a copy with other names for some drives and arrays.

        Raises ValueError if two would have the same name.
        """
        drives = {
            names.get(name, name): dataclasses.replace(
                entry, array=entry.array and names.get(entry.array, entry.array)
            )
            for name, entry in self.drives.items()
        }
        arrays = {names.get(name, name): entry for name, entry in self.arrays.items()}
        if (len(drives), len(arrays)) != (len(self.drives), len(self.arrays)):
            raise ValueError("two drives or arrays of drives.conf would have one name")
        return DrivesConf(drives, arrays)

    def without(self, names: Collection[str]) -> DrivesConf:
        """Return a copy without these drives and arrays and without references to them."""
        return DrivesConf(
            {
                name: dataclasses.replace(entry, array=None) if entry.array in names else entry
                for name, entry in self.drives.items()
                if name not in names
            },
            {name: entry for name, entry in self.arrays.items() if name not in names},
        )

    def to_text(self) -> str:
        """Return the text of the file."""
        sections: list[tuple[str, dict[str, object]]] = [
            (f"drive {name}", {"model": d.model, "mode": d.mode, "array": d.array, **d.identity})
            for name, d in self.drives.items()
        ]
        sections += [
            (f"array {name}", {"linnos": "on" if array.asks else "off", **array.identity})
            for name, array in self.arrays.items()
        ]
        lines = [HEADER]
        for title, values in sections:
            lines.append(f"[{title}]")
            lines += [f"{key} = {value}" for key, value in values.items() if value is not None]
            lines.append("")
        for line in lines[1:]:
            if "\n" in line or line != line.strip():
                raise LinnappError(
                    f"{line!r}: a line of drives.conf cannot contain line breaks or end with white "
                    "space; give the file or the device another name"
                )
        return "\n".join(lines)


def load_conf(path: AnyPath) -> DrivesConf:
    """Read the file; it is empty if it does not exist."""
    try:
        return parse(Path(path).read_text("utf-8-sig"), str(path))
    except FileNotFoundError:
        return DrivesConf()
    except OSError as error:
        raise explain_os_error(error, path) from error
    except UnicodeDecodeError as error:
        raise LinnappError(f"{path}: not a text in UTF-8 ({error.reason})") from error


def load_filled_conf(path: AnyPath) -> DrivesConf:
    """Read the file, which must exist and have at least one section."""
    found = load_conf(path)
    if found.is_empty:
        why = "names no drive and no array" if Path(path).exists() else "no such file"
        raise LinnappError(f"{path}: {why}; `linnapp enable` writes it")
    return found


def save_conf(path: AnyPath, conf: DrivesConf) -> None:
    """Write the file atomically.

    If it would be empty, it is removed instead, as is its folder if that is then empty.
    """
    path = Path(path)
    with os_errors(path):
        if conf.is_empty:
            path.unlink(missing_ok=True)
            if path == DEFAULT_CONF and path.parent.is_dir() and not any(path.parent.iterdir()):
                path.parent.rmdir()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, conf.to_text())


def parse(text: str, source: str) -> DrivesConf:
    """Parse the text of a file; error messages call the file `source`."""
    parser = configparser.ConfigParser(
        delimiters=("=",), comment_prefixes=("#",), default_section="", interpolation=None
    )
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        # Indented lines would continue the line before.
        parser.read_string("\n".join(map(str.strip, text.split("\n"))), source)
    except configparser.Error as error:
        raise LinnappError(
            f"{' '.join(str(error).split())}; expected sections [drive PATH] and [array PATH] with "
            "lines KEY = VALUE, each once"
        ) from error
    drives, arrays = {}, {}
    for title in parser.sections():
        kind, _, name = (part.strip() for part in title.partition(" "))
        values = dict(parser[title])
        if kind == "drive" and values.pop("peers", ""):
            # Earlier versions of `linnapp enable` wrote this key for every drive. An error would
            # keep all drives and arrays of the file from being restored at the next boot.
            warnings.warn(
                f"{source}: `peers` is ignored: drives no longer ask each other. In mode enforce, "
                "a drive refuses every latency-critical read that it is predicted to serve slowly",
                ConfWarning,
                stacklevel=2,
            )
        if why := _find_fault(kind, name, values, parser):
            raise LinnappError(f"{source}: [{title}]: {why}")
        identity = {key: values[key] for key in KEYS[kind] if key in values}
        if kind == "array":
            arrays[name] = ArrayEntry(values["linnos"] == "on", identity)
        else:
            model = Path(values["model"]) if "model" in values else None
            drives[name] = DriveEntry(values["mode"], model, values.get("array"), identity)
    return DrivesConf(drives, arrays)


def _find_fault(
    kind: str, name: str, values: Mapping[str, str], sections: Collection[str]
) -> str | None:
    """Return the fault of a section, or None."""
    if kind not in _KEYS or not name.startswith("/"):
        return "expected [drive PATH] or [array PATH], with a path such as /dev/disk/by-id/..."
    for each, value in values.items():
        if each not in _KEYS[kind]:
            return f"unknown key {each!r}; a {kind} has {', '.join(_KEYS[kind])}"
        if not value:
            return f"{each} has no value"
    key, choices = _REQUIRED[kind]
    chosen, model, array = (values.get(each) for each in (key, "model", "array"))
    if chosen is None:
        return f"{key} is missing, expected {' or '.join(choices)}"
    if chosen not in choices:
        return f"{key} is {chosen!r}, expected {' or '.join(choices)}"
    if kind == "drive" and model is None and chosen != "off":
        return f"no model, which {chosen} needs"
    if model is not None and (not model.startswith("/") or ".." in Path(model).parts):
        return f"model {model!r}, expected an absolute path without .."
    if array is not None and f"array {array}" not in sections:
        return f"no section [array {array}]"
    return None
