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

import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from linnapp.drive.stable_ids import KEYS, Identity
from linnapp.drive.sysfs import MODES
from linnapp.errors import ConfWarning, LinnappError
from linnapp.files import AnyPath, explain_os_error, os_errors, replace_text

DEFAULT_CONF = Path("/etc/linnapp/drives.conf")

HEADER = """\
# SPDX-License-Identifier: MIT
# What `linnapp restore` gives drives and md arrays back, at boot by linnapp-restore.service.
# `linnapp enable` and `linnapp disable` write it anew: comments of your own do not stay.
#
# [drive NAME]     a path that stays the same, as in /dev/disk/by-id
#   model = FILE   of the model; the mode off needs none
#   mode = off | observe | enforce
#   array = NAME   of the md array that it is in
#   wwid, serial, product, sectors = ...   what it says of itself, to find it under another name
# [array NAME]
#   linnos = on | off   whether md asks before it reads
#   uuid = ...   to find it under another name
"""

_KEYS = {
    "drive": ("model", "mode", "array", *KEYS["drive"]),
    "array": ("linnos", *KEYS["array"]),
}
_NEEDED = {"drive": "mode", "array": "linnos"}


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
class DrivesConf:
    """The file's content."""

    #: By a path that does not change.
    drives: Mapping[str, DriveEntry] = dataclasses.field(default_factory=dict)
    #: True if md queries LinnOS, by the array's name.
    arrays: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    #: Values that identify the arrays under another name.
    array_identities: Mapping[str, Identity] = dataclasses.field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to restore."""
        return not self.drives and not self.arrays

    def updated(
        self,
        drives: Mapping[str, DriveEntry],
        arrays: Mapping[str, bool],
        array_identities: Mapping[str, Identity] | None = None,
    ) -> DrivesConf:
        """Return a copy in which these entries replace those of the same names."""
        return DrivesConf(
            {**self.drives, **drives},
            {**self.arrays, **arrays},
            {**self.array_identities, **(array_identities or {})},
        )

    def renamed(self, names: Mapping[str, str]) -> DrivesConf:
        """Return a copy with other names for some drives and arrays.

        Raises ValueError if two would have the same name.
        """

        def now(name: str) -> str:
            return names.get(name, name)

        drives = {
            now(name): dataclasses.replace(
                entry,
                array=None if entry.array is None else now(entry.array),
            )
            for name, entry in self.drives.items()
        }
        arrays = {now(name): on for name, on in self.arrays.items()}
        if (len(drives), len(arrays)) != (len(self.drives), len(self.arrays)):
            raise ValueError("two drives or arrays of drives.conf would have one name")
        known = {now(name): identity for name, identity in self.array_identities.items()}
        return DrivesConf(drives, arrays, known)

    def without(self, drives: set[str], arrays: set[str]) -> DrivesConf:
        """Return a copy without these drives and arrays and without references to them."""
        left = {
            name: dataclasses.replace(
                entry,
                array=None if entry.array in arrays else entry.array,
            )
            for name, entry in self.drives.items()
            if name not in drives
        }
        return DrivesConf(
            left,
            {n: on for n, on in self.arrays.items() if n not in arrays},
            {n: known for n, known in self.array_identities.items() if n not in arrays},
        )

    def to_text(self) -> str:
        """Return the text of the file."""
        lines = [HEADER]
        for name, entry in self.drives.items():
            lines.append(f"[drive {name}]")
            if entry.model is not None:
                lines.append(f"model = {entry.model}")
            lines.append(f"mode = {entry.mode}")
            if entry.array is not None:
                lines.append(f"array = {entry.array}")
            lines += [f"{key} = {said}" for key, said in entry.identity.items()]
            lines.append("")
        for name, on in self.arrays.items():
            lines += [f"[array {name}]", f"linnos = {'on' if on else 'off'}"]
            known = self.array_identities.get(name, {})
            lines += [*(f"{key} = {said}" for key, said in known.items()), ""]
        for line in lines[1:]:
            if "\n" in line or line != line.strip():
                raise LinnappError(
                    f"{line!r}: a line of drives.conf cannot have line breaks in it or white space "
                    "at its end; name the file or the device otherwise"
                )
        return "\n".join(lines)


def load_conf(path: AnyPath) -> DrivesConf | None:
    """Read the file; return None if it does not exist."""
    try:
        text = Path(path).read_text("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise explain_os_error(error, path) from error
    except UnicodeDecodeError as error:
        raise LinnappError(f"{path}: no text in UTF-8 ({error.reason})") from error
    return parse(text, str(path))


def load_filled_conf(path: AnyPath) -> DrivesConf:
    """Read the file, which must exist and have at least one section."""
    found = load_conf(path)
    if found is None:
        raise LinnappError(f"{path}: no such file; `linnapp enable` writes it")
    if found.is_empty:
        raise LinnappError(f"{path}: names no drive and no array; `linnapp enable` writes it")
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


@dataclasses.dataclass
class _Section:
    """A section while the file is read: its first line, and its keys with their lines."""

    kind: str
    name: str
    line: int
    keys: dict[str, tuple[str, int]] = dataclasses.field(default_factory=dict)


def parse(text: str, source: str) -> DrivesConf:
    """Parse the text of a file; error messages call the file `source`."""
    sections = list(_sections(text, source))
    drives = {s.name: _drive(s, source) for s in sections if s.kind == "drive"}
    in_arrays = [section for section in sections if section.kind == "array"]
    arrays = {s.name: _choice(s, "linnos", ("on", "off"), source) == "on" for s in in_arrays}
    identities = {s.name: known for s in in_arrays if (known := _identity(s))}
    for section in sections:
        array, line = section.keys.get("array", ("", 0))
        if array and array not in arrays:
            raise LinnappError(f"{source}:{line}: no section [array {array}]")
    return DrivesConf(drives, arrays, identities)


def _identity(section: _Section) -> Identity:
    keys = KEYS[section.kind]
    return {key: section.keys[key][0] for key in keys if key in section.keys}


def _sections(text: str, source: str) -> Iterator[_Section]:
    seen: dict[tuple[str, str], int] = {}
    section: _Section | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line, where = raw.strip(), f"{source}:{number}"
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            if section is not None:
                yield _whole(section, source)
            section = _head(line, number, where)
            first = seen.setdefault((section.kind, section.name), number)
            if first != number:
                raise LinnappError(f"{where}: {section.name} has a section in line {first} already")
        elif section is None:
            raise LinnappError(f"{where}: {line[:80]!r} before the first section, [drive NAME]")
        else:
            _add(section, line, number, where)
    if section is not None:
        yield _whole(section, source)


def _head(line: str, number: int, where: str) -> _Section:
    kind, _, name = line[1:-1].strip().partition(" ")
    name = name.strip()
    if not line.endswith("]") or kind not in _KEYS or not name:
        raise LinnappError(f"{where}: {line[:80]!r}, expected [drive NAME] or [array NAME]")
    if not name.startswith("/"):
        raise LinnappError(f"{where}: {name!r}, expected a path, as /dev/disk/by-id/... is")
    return _Section(kind, name, number)


def _add(section: _Section, line: str, number: int, where: str) -> None:
    key, equals, value = (part.strip() for part in line.partition("="))
    if not equals or not value:
        raise LinnappError(f"{where}: {line[:80]!r}, expected KEY = VALUE")
    if (section.kind, key) == ("drive", "peers"):
        # Earlier versions of `linnapp enable` wrote this key for every drive. An error would keep
        # all drives and arrays of the file from being restored at the next boot.
        warnings.warn(
            f"{where}: `peers` is ignored: drives no longer ask each other. In mode enforce, a "
            "drive refuses every latency-critical read that it is predicted to serve slowly",
            ConfWarning,
            stacklevel=2,
        )
        return
    if key not in _KEYS[section.kind]:
        expected = ", ".join(_KEYS[section.kind])
        raise LinnappError(f"{where}: unknown key {key!r}; a {section.kind} has {expected}")
    if key in section.keys:
        raise LinnappError(f"{where}: {key} is given in line {section.keys[key][1]} already")
    section.keys[key] = value, number


def _whole(section: _Section, source: str) -> _Section:
    needed = _NEEDED[section.kind]
    if needed not in section.keys:
        raise LinnappError(f"{source}:{section.line}: {section.name} has no {needed}")
    return section


def _choice(section: _Section, key: str, choices: tuple[str, ...], source: str) -> str:
    value, line = section.keys[key]
    if value not in choices:
        raise LinnappError(f"{source}:{line}: {key} {value!r}, expected {' or '.join(choices)}")
    return value


def _drive(section: _Section, source: str) -> DriveEntry:
    mode = _choice(section, "mode", MODES, source)
    model, line = section.keys.get("model", (None, section.line))
    if model is None and mode != "off":
        raise LinnappError(f"{source}:{line}: {section.name} has no model, which {mode} needs")
    if model is not None and (not model.startswith("/") or ".." in Path(model).parts):
        raise LinnappError(f"{source}:{line}: model {model!r}, expected a whole path")
    array = section.keys.get("array", (None, 0))[0]
    path = None if model is None else Path(model)
    return DriveEntry(mode, path, array, _identity(section))
