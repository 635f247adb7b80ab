# SPDX-License-Identifier: MIT
"""Restore an array's state after `linnapp trial`, however it ends.

If a trial is ended by ctrl-C, a signal or an error, it restores the state itself. If it is killed,
a shell that waits for its end does so immediately. If that is killed as well, for example by the
OOM killer or systemd, a file in /run contains the state: `linnapp trial`, `enable`,
`disable` and `restore` read it first. A reboot resets md's state, and `linnapp
restore` then applies drives.conf.
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

#: Waits for a line; the end of the pipe without a line means that the trial was killed. It has its
#: own session, so that a signal from the terminal that ends the trial does not end it.
_KEEPER = """\
trap '' HUP INT TERM
read -r done || { echo "$1" >"$2" && rm -rf "$3" "$4"; }
"""


def folder_of(array: str) -> Path:
    """Return the folder of its recordings."""
    return root_of_all() / array / "trial"


def remove_folder(array: str) -> None:
    """Remove the folder of its recordings."""
    shutil.rmtree(folder_of(array), ignore_errors=True)
    with contextlib.suppress(OSError):  # models are next to it
        folder_of(array).parent.rmdir()


@contextlib.contextmanager
def put_back_at_end(array: MdArray) -> Iterator[None]:
    """Restore an array's state when the block ends or the program is killed in it."""
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
    """Restore the state after trials that were killed."""
    for path in sorted(RUN.glob(f"{_PREFIX}*.json")):
        name = path.stem.removeprefix(_PREFIX)
        try:
            with path.open() as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                log(_put_back(name, stream.read()))
                remove_folder(name)
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue  # the shell that waited for the trial's end has restored it
        except BlockingIOError:
            raise LinnappError(
                f"{name}: linnapp trial is at work and switches it; wait for its end, or end it "
                "with ctrl-C"
            ) from None
        except OSError as error:
            raise explain_os_error(error, path) from error


def _put_back(name: str, text: str) -> str:
    """Restore an array's state and return a message."""
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
