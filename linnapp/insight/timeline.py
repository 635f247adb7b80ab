# SPDX-License-Identifier: MIT
"""What there is to draw of a session: its longest system calls and block I/Os, when and where."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Any

from linnapp.errors import TraceError, needs
from linnapp.files import AnyPath
from linnapp.insight.calls import COUNTS, PARTS, describe_parts
from linnapp.insight.query import ask, opened
from linnapp.terminal import printable

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


_TEMPLATE = files("linnapp").joinpath("monitoring", "timeline.html.j2")
_THREADS, _ROWS, _LONGEST = 24, 12, 20
#: in percent of the panel: what is shorter would not be seen
_LEAST = 0.05

_KINDS = {
    "read": [
        "read",
        "pread64",
        "readv",
        "preadv",
        "preadv2",
        "sendfile",
        "readahead",
        "getdents64",
    ],
    "write": ["write", "pwrite64", "writev", "pwritev", "pwritev2", "copy_file_range", "fallocate"],
    "sync": ["fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync"],
}
_KIND_OF = {call: kind for kind, calls in _KINDS.items() for call in calls}
_LAYERS = ("plug_ns", "scheduler_ns", "drive_ns")

#: class, left edge and width in percent, row, words
Bar = tuple[str, float, float, int, str]


def _us(ns: int | None) -> str:
    return "?" if ns is None else f"{ns / 1000:,.1f} us"


def _path(row: dict[str, Any]) -> str:
    return "(unknown)" if row["path"] is None else printable(row["path"])


class _Scale:
    """From times to places in percent."""

    def __init__(self, shown: Timeline) -> None:
        self._start_ns = shown.start_ns
        self._span_ns = shown.end_ns - shown.start_ns

    def place(self, start_ns: int, length_ns: int) -> tuple[float, float]:
        """Left edge and width, within the panel."""
        left = 100 * (start_ns - self._start_ns) / self._span_ns
        right = left + 100 * length_ns / self._span_ns
        left = min(max(left, 0.0), 100 - _LEAST)
        return left, max(min(right, 100.0) - left, _LEAST)


def _threads(shown: Timeline, scale: _Scale) -> Iterator[tuple[str, list[Bar]]]:
    """The threads that were in calls for longest, each with its calls."""
    by_thread = collections.defaultdict(list)
    for row in shown.calls:
        by_thread[row["tid"]].append(row)
    longest = sorted(
        by_thread.items(), key=lambda item: -sum(row["duration_ns"] for row in item[1])
    )
    for tid, rows in longest[:_THREADS]:
        bars = [
            (
                _KIND_OF.get(row["call"], "other"),
                *scale.place(row["time_ns"], row["duration_ns"]),
                0,
                f"{row['call']} {_path(row)}: {_us(row['duration_ns'])}, returned {row['result']}"
                + (f"; {parts}" if (parts := describe_parts(row)) else ""),
            )
            for row in rows
        ]
        yield f"{printable(rows[0]['process'] or '')} {tid}", bars


def _rows_for(ios: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int]]:
    """Each I/O, in the order of time, with the first row that is free; the last one takes all."""
    ends = [0] * _ROWS
    for io in sorted(ios, key=lambda io: int(io["time_ns"])):
        free = (i for i, end in enumerate(ends) if end <= io["time_ns"])
        row = next(free, _ROWS - 1)
        ends[row] = io["time_ns"] + io["latency_ns"]
        yield io, row


def _drives(shown: Timeline, scale: _Scale) -> Iterator[tuple[str, list[Bar]]]:
    by_drive = collections.defaultdict(list)
    for io in shown.ios:
        by_drive[io["drive"] or io["device"] or "?"].append(io)
    for drive, ios in sorted(by_drive.items()):
        bars: list[Bar] = []
        for io, row in _rows_for(ios):
            words = (
                f"{io['op']} of {io['bytes']} bytes at sector {io['sector']} by "
                f"{printable(io['process'] or '')} {io['tid']}"
                + (f" in {io['call']}" if io["call"] else "")
                + (f" with the tag {io['tag']}" if io["tag"] is not None else "")
                + f": {_us(io['latency_ns'])}; plug {_us(io['plug_ns'])}, scheduler "
                f"{_us(io['scheduler_ns'])}, drive {_us(io['drive_ns'])}"
                + (f"; LinnOS: {io['decision']}" if io["decision"] else "")
            )
            if io["decision"] == "revoked" or io["drive_ns"] is None:
                kind = "revoked" if io["decision"] == "revoked" else "whole"
                bars.append((kind, *scale.place(io["time_ns"], io["latency_ns"]), row, words))
                continue
            start_ns = io["time_ns"]
            for layer in _LAYERS:
                if io[layer]:
                    bars.append((layer, *scale.place(start_ns, io[layer]), row, words))
                start_ns += io[layer]
        yield drive, bars


def check_can_draw() -> None:
    """Find out whether a page can be made."""
    with needs("the timeline needs Jinja", "'linnapp[watch]'"):
        import jinja2  # noqa: F401


def page(shown: Timeline, said: dict[str, Any]) -> str:
    """The page; `said` is what :func:`~linnapp.insight.query.recording` says of the session."""
    import jinja2

    scale = _Scale(shown)
    threads = list(_threads(shown, scale))
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_TEMPLATE.read_text()).render(
        title=printable(" ".join(said.get("command") or []) or shown.session or "linnapp watch"),
        session=shown.session and printable(shown.session),
        when=time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(shown.start_ns / 1e9)),
        from_s=(shown.start_ns - shown.session_start_ns) / 1e9,
        seconds=(shown.end_ns - shown.start_ns) / 1e9,
        counts=[f"{said[name]} {words}" for name, words in COUNTS.items() if said.get(name)],
        left_out_calls=shown.n_calls - sum(len(bars) for _, bars in threads),
        left_out_ios=shown.n_ios - len(shown.ios),
        n_calls=shown.n_calls,
        n_ios=shown.n_ios,
        threads=threads,
        drives=list(_drives(shown, scale)),
        longest=[
            {
                **row,
                "path": _path(row),
                "process": printable(row["process"] or ""),
                "at_ms": (row["time_ns"] - shown.session_start_ns) / 1e6,
                "took": _us(row["duration_ns"]),
                "parts": describe_parts(row),
            }
            for row in shown.calls[:_LONGEST]
        ],
    )
