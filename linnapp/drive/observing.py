# SPDX-License-Identifier: MIT
"""Let drives serve their full default load while they are recorded.

In ``enforce``, a refused read is never seen to be slow. If md queries LinnOS, reads that it
redirects from a slow mirror are not seen there either. The inflection point of such a recording
would drift away from the drive's own, other reads would be refused, and it would drift further.
Therefore, during the recording, drives in ``enforce`` are set to ``observe`` and arrays do not
query LinnOS.
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
    """Redirect no read from these disks until the block ends, then restore the settings.

    A mode or an array's state that was changed by another process in the meantime is not touched.
    An array that is switched on again measures its benefit from the start
    (:meth:`.MdArray.set_state`).
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
        with signals_held():  # after another signal, the remaining ones must still be restored
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
