# SPDX-License-Identifier: MIT
"""Has drives serve all that would come to them by itself, while they are recorded.

In ``enforce``, what is refused is never seen to be slow, and where md asks, what it steers away
from a slow mirror is not seen there either. Of such a recording the inflection point would drift
away from the drive's, and refuse other reads, and drift again. So drives that enforce observe,
and arrays that ask do not, until that is over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from linnapp.drive.journal import Log
from linnapp.drive.md import MdArray, arrays_of
from linnapp.drive.sysfs import Drive, observer_of
from linnapp.errors import LinnappError
from linnapp.signals import signals_held


@contextlib.contextmanager
def observing(names: Sequence[str], log: Log) -> Iterator[None]:
    """Keep no read from the disks of these names for a while, then have all as it was before.

    A mode, or an array's state, that somebody else sets meanwhile is left as it is. An array that
    is on again finds out anew what choosing is worth (:meth:`.MdArray.set_state`).
    """
    enforcing: list[Drive] = []
    asking: list[tuple[MdArray, str]] = []
    drives = [Drive(name) for name in names if observer_of(name) in ("kernel", "module")]
    try:
        for drive in drives:
            if drive.mode == "enforce":
                log(f"{drive.name}: observes while it is recorded, and refuses nothing")
                enforcing.append(drive)
                drive.set_mode("observe")
        for array in {array.name: array for name in names for array in arrays_of(name)}.values():
            if array.asks:
                log(f"{array.name}: linnos is off while its drives are recorded, steers nothing")
                asking.append((array, array.state))
                array.set_state("off")
        yield
    finally:
        failures = []
        with signals_held():  # told to end once more, the others are still to be switched back
            for drive in enforcing:
                try:
                    if drive.mode == "observe":
                        drive.set_mode("enforce")
                except LinnappError as error:
                    failures.append(
                        f"{drive.name} is left in observe, no longer in enforce: {error}"
                    )
            for array, state in asking:
                try:
                    if array.state == "off":
                        array.set_state(state)
                except LinnappError as error:
                    failures.append(
                        f"{array.name}'s linnos is left off, no longer {state}: {error}"
                    )
        for failure in failures:
            log(failure)
