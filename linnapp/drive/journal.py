# SPDX-License-Identifier: MIT
"""Write a line to the journal for each change of a drive: the change and the command."""

from __future__ import annotations

import contextlib
import sys
import syslog
from collections.abc import Callable, Iterator
from pathlib import Path

from linnapp.errors import LinnappError

#: Receives a line for each step that is done.
Log = Callable[[str], None]


def note(what: str) -> None:
    """Write ``nvme0n1: mode off -> observe``; it is lost if there is no journal and no syslog.

    The journal adds the user who logged in (``_AUDIT_LOGINUID``) and the whole command line.
    """
    program, *words = sys.argv[:2] if sys.argv and sys.argv[0] else ["python"]
    command = " ".join([Path(program).name, *(word for word in words if word.isalpha())])
    syslog.openlog("linnapp", 0, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_NOTICE, f"{what} ({command})")


@contextlib.contextmanager
def errors_logged(log: Log) -> Iterator[None]:
    """Log errors of the block, a step whose failure must not prevent the next ones."""
    try:
        yield
    except LinnappError as error:
        log(str(error))
