# SPDX-License-Identifier: MIT
"""Leaves an array as it was before `linnapp trial`, however that ends.

A trial that is told to end (ctrl-C, kill, an error) puts back what it found. If it is killed
outright, a shell that waits for its end does so at once. If that is killed with it, as the OOM
killer or systemd may do, a file in /run has what is to be put back: `linnapp trial`, `enable`,
`disable` and `restore` look there first. After a reboot md has forgotten it all, and `linnapp
restore` switches on what drives.conf says.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from linnapp.drive import journal
from linnapp.drive.enable.checks import name_to_keep
from linnapp.drive.enable.places import root_of_all
from linnapp.drive.journal import Log
from linnapp.drive.md import MdArray
from linnapp.errors import DeviceError, LinnappError
from linnapp.files import explain_os_error, os_errors
from linnapp.signals import signals_held

RUN = Path("/run/linnapp")
_PREFIX = "trial-"

#: Waits for a line; that none came, but the end of the pipe, says that the trial was killed. It is
#: of a session of its own, so that what ends the trial at a terminal does not end it.
_KEEPER = """\
trap '' HUP INT TERM
read -r done || { echo "$1" >"$2" && rm -rf "$3" "$4"; }
"""


def folder_of(array: str) -> Path:
    """Where its recordings are."""
    return root_of_all() / array / "trial"


def remove_folder(array: str) -> None:
    """Remove that."""
    shutil.rmtree(folder_of(array), ignore_errors=True)
    with contextlib.suppress(OSError):  # models are beside it
        folder_of(array).parent.rmdir()


@contextlib.contextmanager
def put_back_at_end(array: MdArray) -> Iterator[None]:
    """Put back whether an array asks, when the block ends or the program is killed in it."""
    was = array.state
    path = RUN / f"{_PREFIX}{array.name}.json"
    with os_errors(path):
        RUN.mkdir(parents=True, exist_ok=True)
        stream = path.open("a+")
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with stream:
        stream.truncate(0)
        json.dump({"array": name_to_keep(array.name), "linnos": was}, stream)
        stream.flush()
        folder = folder_of(array.name)
        with signals_held():
            keeper = subprocess.Popen(
                ["sh", "-c", _KEEPER, "linnapp-trial-keeper", was, array.attribute, path, folder],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        try:
            journal.note(f"{array.name}: linnos off and on in turn from now on")
            yield
        finally:
            with signals_held():
                array.set_state(was, noted=False)
                path.unlink()
                keeper.communicate(b"done\n")
                journal.note(f"{array.name}: linnos {was}, as before the trial")


def put_back_left(log: Log) -> None:
    """Put back what trials left behind that were killed."""
    for path in sorted(RUN.glob(f"{_PREFIX}*.json")):
        name = path.stem.removeprefix(_PREFIX)
        try:
            with path.open() as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                log(_put_back(name, stream.read()))
                remove_folder(name)
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue  # who waited for the trial's end has been here
        except BlockingIOError:
            raise LinnappError(
                f"{name}: linnapp trial is at work and switches it; wait for its end, or end it "
                "with ctrl-C"
            ) from None
        except OSError as error:
            raise explain_os_error(error, path) from error


def _put_back(name: str, text: str) -> str:
    """What is to be said of it."""
    try:
        left = json.loads(text)
        array, was = str(left["array"]), str(left["linnos"])
        found = MdArray(name)
    except (ValueError, TypeError, KeyError):
        return f"{name}: a trial did not end in order, and left no word of what was before"
    except DeviceError:
        return f"{name}: a trial did not end in order; the array is gone"
    if array != name_to_keep(name):
        return f"{name}: a trial did not end in order; that array is gone, this is another"
    found.set_state(was)
    return f"{name}: linnos {was}, as before a trial that did not end in order"
