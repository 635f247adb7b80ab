# SPDX-License-Identifier: MIT
"""What there is to draw of a session: its longest system calls and block I/Os, when and where."""

from __future__ import annotations

import dataclasses
from typing import Any

from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.watch.reader import PARTS
from linnapp.watch.watched import ask, opened

#: More of either would neither be seen nor quickly drawn.
MOST = 3000

_BOUNDS = """
select min(time_ns) as start_ns, max(time_ns + duration_ns) as end_ns from calls
where session is not distinct from $session
"""
_IN_WINDOW = """
session is not distinct from $session and time_ns < $end_ns
  and time_ns + coalesce({length}, 0) >= $start_ns
"""
_CALLS = f"""
select time_ns, duration_ns, {", ".join(PARTS)}, tid, process, call, path, bytes, result
from calls
where {_IN_WINDOW.format(length="duration_ns")}
order by duration_ns desc, time_ns limit {MOST}
"""
_IOS = f"""
select time_ns, latency_ns, plug_ns, scheduler_ns, drive_ns, device, drive, op, sector, bytes,
  process, tid, call, decision, tag, failed
from ios where not below and latency_ns is not null
  and {_IN_WINDOW.format(length="latency_ns")}
order by latency_ns desc, time_ns limit {MOST}
"""
_HOW_MANY = f"""
select
  (select count(*) from calls where {_IN_WINDOW.format(length="duration_ns")}) as calls,
  (select count(*) from ios where not below and latency_ns is not null
    and {_IN_WINDOW.format(length="latency_ns")}) as ios
"""


@dataclasses.dataclass(frozen=True)
class Timeline:
    """Calls and I/Os of a stretch of time, the longest first."""

    session: str | None
    #: Since 1970; seconds of the session count from there.
    session_start_ns: int
    #: `start_ns`, `end_ns`: of the stretch.
    start_ns: int
    end_ns: int
    #: `calls`, `ios`: rows of the tables, `MOST` of each at most.
    calls: list[dict[str, Any]]
    ios: list[dict[str, Any]]
    #: `n_calls`, `n_ios`: how many there are; the others are shorter.
    n_calls: int
    n_ios: int


def timeline(
    folder: AnyPath, session: str | None = None, window_s: tuple[float, float] | None = None
) -> Timeline:
    """Find what there is to draw of a session, which may be left out where there is one.

    The window is from when to when, in seconds since the session's first call.
    """
    with opened(folder) as database:
        kept = [row["session"] for row in ask(database, "select distinct session from calls")]
        if session is None and len(kept) == 1:
            session = kept[0]
        if session not in kept:
            names = ", ".join(sorted(name for name in kept if name)) or "none"
            which = "several sessions" if session is None and kept else f"no session {session}"
            raise TraceError(f"{folder}: {which}; --session names one: {names}")
        [bounds] = ask(database, _BOUNDS, {"session": session})
        first_ns, start_ns, end_ns = bounds["start_ns"], bounds["start_ns"], bounds["end_ns"]
        if window_s is not None:
            start_ns, end_ns = (first_ns + int(1e9 * at_s) for at_s in window_s)
        given = {"session": session, "start_ns": start_ns, "end_ns": end_ns}
        [how_many] = ask(database, _HOW_MANY, given)
        if not how_many["calls"] or end_ns <= start_ns:
            took_s = (bounds["end_ns"] - first_ns) / 1e9
            raise TraceError(f"{folder}: no calls in that time; the session took {took_s:.3f} s")
        return Timeline(
            session,
            first_ns,
            start_ns,
            end_ns,
            ask(database, _CALLS, given),
            ask(database, _IOS, given),
            how_many["calls"],
            how_many["ios"],
        )
