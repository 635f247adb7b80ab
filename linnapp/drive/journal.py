# SPDX-License-Identifier: MIT
"""One line to the journal for whoever changes a drive: what, who, by which command."""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
import syslog
from collections.abc import Callable
from pathlib import Path

#: Who hears of what is done, a line for each step.
Log = Callable[[str], None]

#: what the kernel says of a process that nobody's login began
_NO_LOGIN = 2**32 - 1

_LOGIN = Path("/proc/self/loginuid")


def note(what: str) -> None:
    """Write ``nvme0n1: mode off -> observe``; without a journal and a syslog it is lost."""
    syslog.openlog("linnapp", 0, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_NOTICE, f"{what} ({_command()}, by {_who()})")


def _command() -> str:
    """``linnapp upload``; the arguments after that may be long."""
    program, *words = sys.argv[:2] if sys.argv and sys.argv[0] else ["python"]
    return " ".join([Path(program).name, *(word for word in words if word.isalpha())])


def _who() -> str:
    """The user, and who logged in to become it with sudo or su."""
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
