# SPDX-License-Identifier: MIT
"""Write a line to the journal for each change of a drive: the change, the user, the command."""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
import syslog
from collections.abc import Callable, Iterator
from pathlib import Path

from linnapp.errors import LinnappError

#: Receives a line for each step that is done.
Log = Callable[[str], None]

#: the kernel's login uid of a process that no login started
_NO_LOGIN = 2**32 - 1

_LOGIN = Path("/proc/self/loginuid")


def note(what: str) -> None:
    """Write ``nvme0n1: mode off -> observe``; it is lost if there is no journal and no syslog."""
    syslog.openlog("linnapp", 0, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_NOTICE, f"{what} ({_command()}, by {_user()})")


@contextlib.contextmanager
def errors_logged(log: Log) -> Iterator[None]:
    """Log errors of the block, a step whose failure must not prevent the next ones."""
    try:
        yield
    except LinnappError as error:
        log(str(error))


def _command() -> str:
    """Return ``linnapp upload``, without the further arguments, which may be long."""
    program, *words = sys.argv[:2] if sys.argv and sys.argv[0] else ["python"]
    return " ".join([Path(program).name, *(word for word in words if word.isalpha())])


def _user() -> str:
    """Return the user, and the user who logged in if sudo or su was used."""
    user, login = os.geteuid(), _NO_LOGIN
    with contextlib.suppress(OSError, ValueError):
        login = int(_LOGIN.read_text())
    return (
        _name(user) if login in (_NO_LOGIN, user) else f"{_name(user)}, logged in as {_name(login)}"
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
