# SPDX-License-Identifier: MIT
"""Settings that a command changes until it ends, and drives that `linnapp keep` has reset.

A recording must contain all reads of the drive's default load. In ``enforce``, it would lack the
reads that are refused, and if md queries LinnOS, those that md redirects from a slow mirror. The
inflection point of such a recording differs from that of the drive. With this point, other reads
would be refused, and the next recording would differ more. A trial switches md's queries on and
off.

The settings are restored however the command ends. After ctrl-C, a signal or an error, the command
does it. If it is killed, a shell that waits for its end does so immediately. If that is killed as
well, `linnapp restore` applies drives.conf.
"""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from linnapp.drive import journal, state
from linnapp.drive.journal import Log
from linnapp.drive.md import MdArray, arrays_of
from linnapp.drive.sysfs import Drive, Switchable, disk_name, is_observed
from linnapp.errors import LinnappError
from linnapp.files import AnyPath, os_errors
from linnapp.signals import signals_held

#: Waits for a line; the end of the pipe without a line means that the command was killed. It has
#: its own session, so that a signal from the terminal that ends the command does not end it.
_KEEPER = """\
trap '' HUP INT TERM
read -r done && exit
folder=$1
shift
while [ $# -gt 0 ]; do
    echo "$1" >"$2"
    shift 2
done
rm -rf "$folder"
"""


@contextlib.contextmanager
def switched(
    meanwhile: Mapping[Switchable, Collection[str]], command: str, log: Log, folder: AnyPath = ""
) -> Iterator[None]:
    """Restore settings when the block ends or the program is killed in it.

    `meanwhile` has the values that the command gives each device. A setting that has none of them
    at the end was changed by another process, and is kept. If the program is killed, `folder` is
    removed. An array that is switched on again measures its benefit from the start
    (:meth:`.Switchable.set`).
    """
    if not meanwhile:
        yield
        return
    before = {device: device.value for device in meanwhile}
    pairs = [word for device in before for word in (before[device], str(device.file))]
    with signals_held():
        keeper = subprocess.Popen(
            ["sh", "-c", _KEEPER, f"linnapp-{command}-keeper", folder, *pairs],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
    try:
        yield
    finally:
        with signals_held():  # after another signal, the remaining ones must still be restored
            for device, value in before.items():
                try:
                    if device.value in meanwhile[device]:
                        device.set(value, noted=command != "trial")
                except LinnappError as error:
                    log(f"{device.title} could not be restored to {value}: {error}")
            keeper.communicate(b"done\n")


@contextlib.contextmanager
def observing(names: Sequence[str], command: str, log: Log) -> Iterator[None]:
    """Set drives to observe if they enforce, and their arrays to off, until the block ends."""
    drives = [Drive(name) for name in names if is_observed(name)]
    values: dict[Switchable, str] = {d: "observe" for d in drives if d.mode == "enforce"}
    arrays = {array.name: array for name in names for array in arrays_of(name)}
    values |= {array: "off" for array in arrays.values() if array.asks}
    with switched({device: [value] for device, value in values.items()}, command, log):
        for device, value in values.items():
            log(f"{device.title} is {value} during the recording, so that no read is redirected")
            device.set(value)
        yield


@contextlib.contextmanager
def alternating(array: MdArray, folder: AnyPath, log: Log) -> Iterator[None]:
    """Let a trial switch an array on and off until the block ends."""
    before = array.value
    with switched({array: ("on", "off")}, "trial", log, folder):
        journal.note(f"{array.title} off and on in turn from now on")
        yield
    journal.note(f"{array.title} {before}, as before the trial")


# -- drives that `linnapp keep` has reset --


def _resets_path() -> Path:
    return state.state_directory() / "switched-back.json"


@dataclasses.dataclass(frozen=True)
class Reset:
    """A drive that `linnapp keep` has reset."""

    #: Its stable name, as in drives.conf.
    name: str
    #: Time in seconds since 1970.
    time_s: float
    why: str

    @property
    def current_name(self) -> str:
        """Its current name."""
        return disk_name(self.name)

    @property
    def is_current(self) -> bool:
        """True if it exists and has not been switched on again."""
        try:
            return Drive(self.name).mode != "enforce"
        except LinnappError:
            return False

    def describe(self) -> str:
        """Return the event and the remedy."""
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.time_s))
        return (
            f"{self.current_name}: linnapp keep set it to observe at {at}: {self.why}; linnapp "
            "recalibrate its array, then linnapp upload --mode enforce, and mode = enforce in "
            "drives.conf"
        )


def current_resets() -> list[Reset]:
    """Return all that have not been switched on again."""
    found = []
    for name, each in state.read_json(_resets_path()).items():
        # The data come from a file, which may have any content.
        with contextlib.suppress(KeyError, TypeError, ValueError):
            found.append(Reset(name, float(each["time_s"]), str(each["why"])))
    return [each for each in found if each.is_current]


def add_reset(name: str, why: str) -> None:
    """Record an event."""
    _save_resets({**state.read_json(_resets_path()), name: {"time_s": time.time(), "why": why}})


def forget_resets(names: Iterable[str]) -> None:
    """Remove events that are obsolete: switched on again after new training, or off."""
    before, forgotten = state.read_json(_resets_path()), set(names)
    left = {name: each for name, each in before.items() if name not in forgotten}
    if left != before:
        with contextlib.suppress(LinnappError):
            _save_resets(left)


def _save_resets(resets: dict[str, Any]) -> None:
    path = _resets_path()
    with os_errors(path):
        if not resets:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
    state.write_json(path, resets)
