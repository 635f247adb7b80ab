# SPDX-License-Identifier: MIT
"""The drives and arrays that `linnapp keep` has switched back, with reasons, in a state file."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Iterable

from linnapp.drive import state
from linnapp.drive.md import MdArray, is_md
from linnapp.drive.sysfs import Drive, disk_name
from linnapp.errors import LinnappError
from linnapp.files import os_errors, replace_text

_FILE = "switched-back.json"


@dataclasses.dataclass(frozen=True)
class SwitchedBack:
    """A drive or array that was switched back."""

    #: Its stable name, as in drives.conf.
    name: str
    #: Time in seconds since 1970.
    time_s: float
    why: str

    @property
    def shown(self) -> str:
        """Its current name."""
        return disk_name(self.name)

    @property
    def stands(self) -> bool:
        """True if it exists and has not been switched on again."""
        try:
            if is_md(self.name):
                return not MdArray(self.name).asks
            return Drive(self.name).mode != "enforce"
        except LinnappError:
            return False

    @property
    def words(self) -> str:
        """Description of the event and of the remedy."""
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.time_s))
        if is_md(self.name):
            return (
                f"{self.shown}: linnos was switched off at {at} by linnapp keep: {self.why}; to "
                f"train anew and switch it on: linnapp enable /dev/{self.shown}"
            )
        return (
            f"{self.shown}: back to observe since {at} by linnapp keep: {self.why}; linnapp "
            "recalibrate its array, then linnapp upload --mode enforce, and mode = enforce in "
            "drives.conf"
        )


def standing() -> list[SwitchedBack]:
    """Return all that have not been switched on again; for other users, those in root's state."""
    return [each for each in _load().values() if each.stands]


def remember(name: str, why: str) -> None:
    """Record an event."""
    _save({**_load(), name: SwitchedBack(name, time.time(), why)})


def forget(names: Iterable[str]) -> None:
    """Remove events that are obsolete: switched on again after new training, or off."""
    before = _load()
    left = {name: each for name, each in before.items() if name not in set(names)}
    if left != before:
        with contextlib.suppress(LinnappError):
            _save(left)


def _load() -> dict[str, SwitchedBack]:
    found = {}
    for name, each in state.load_shared(_FILE).items():
        # The data come from a file, which may have any content.
        with contextlib.suppress(KeyError, TypeError, ValueError):
            found[name] = SwitchedBack(name, float(each["time_s"]), str(each["why"]))
    return found


def _save(all_: dict[str, SwitchedBack]) -> None:
    path = state.state_directory() / _FILE
    with os_errors(path):
        if not all_:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
    content = {each.name: {"time_s": each.time_s, "why": each.why} for each in all_.values()}
    replace_text(path, json.dumps(content, indent=1) + "\n")
