# SPDX-License-Identifier: MIT
"""Draw a session's longest system calls and block I/Os as one self-contained HTML file."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Any

from linnapp.errors import TraceError, needs
from linnapp.files import AnyPath
from linnapp.insight.calls import COUNTS, LAYERS, PARTS, describe_parts
from linnapp.insight.query import fetch_rows, opened
from linnapp.terminal import printable

#: maximum number of calls and of I/Os; more would be neither visible nor fast to draw
MAX_DRAWN = 3000

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
order by duration_ns desc, time_ns limit {MAX_DRAWN}
"""
_IOS = f"""
select time_ns, latency_ns, plug_ns, scheduler_ns, drive_ns, device, drive, op, sector, bytes,
  process, tid, call, decision, tag, failed
from ios where not below and latency_ns is not null
  and {_IN_WINDOW.format(length="latency_ns")}
order by latency_ns desc, time_ns limit {MAX_DRAWN}
"""
_COUNTS = f"""
select
  (select count(*) from calls where {_IN_WINDOW.format(length="duration_ns")}) as calls,
  (select count(*) from ios where not below and latency_ns is not null
    and {_IN_WINDOW.format(length="latency_ns")}) as ios
"""


@dataclasses.dataclass(frozen=True)
class Timeline:
    """Calls and I/Os of a period, the longest first."""

    session: str | None
    #: start of the session in ns since 1970, where its seconds start
    session_start_ns: int
    #: `start_ns`, `end_ns`: the period
    start_ns: int
    end_ns: int
    #: `calls`, `ios`: rows of the tables, at most `MAX_DRAWN` each
    calls: list[dict[str, Any]]
    ios: list[dict[str, Any]]
    #: `n_calls`, `n_ios`: total numbers in the period
    n_calls: int
    n_ios: int


def timeline(
    folder: AnyPath, session: str | None = None, window_s: tuple[float, float] | None = None
) -> Timeline:
    """Read the calls and I/Os to draw. `session` can be omitted if there is only one.

    `window_s` is the start and end in seconds since the session's first call.
    """
    with opened(folder) as database:
        sessions = [
            row["session"] for row in fetch_rows(database, "select distinct session from calls")
        ]
        if session is None and len(sessions) == 1:
            session = sessions[0]
        if session not in sessions:
            names = ", ".join(sorted(name for name in sessions if name)) or "none"
            is_ambiguous = session is None and bool(sessions)
            problem = "several sessions" if is_ambiguous else f"no session {session}"
            raise TraceError(f"{folder}: {problem}; --session names one: {names}")
        [bounds] = fetch_rows(database, _BOUNDS, {"session": session})
        first_ns, start_ns, end_ns = bounds["start_ns"], bounds["start_ns"], bounds["end_ns"]
        if window_s is not None:
            start_ns, end_ns = (first_ns + int(1e9 * at_s) for at_s in window_s)
        parameters = {"session": session, "start_ns": start_ns, "end_ns": end_ns}
        [counts] = fetch_rows(database, _COUNTS, parameters)
        if not counts["calls"] or end_ns <= start_ns:
            session_s = (bounds["end_ns"] - first_ns) / 1e9
            raise TraceError(f"{folder}: no calls in that time; the session took {session_s:.3f} s")
        return Timeline(
            session,
            first_ns,
            start_ns,
            end_ns,
            fetch_rows(database, _CALLS, parameters),
            fetch_rows(database, _IOS, parameters),
            counts["calls"],
            counts["ios"],
        )


_TEMPLATE = files("linnapp").joinpath("monitoring", "timeline.html.j2")
_MAX_THREADS, _MAX_ROWS, _MAX_LISTED = 24, 12, 20
#: minimum width of a bar, in percent of the panel, so that it is visible
_MIN_WIDTH = 0.05

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
#: class, left edge and width in percent, row, description
Bar = tuple[str, float, float, int, str]


def _us(ns: int | None) -> str:
    return "?" if ns is None else f"{ns / 1000:,.1f} us"


def _path(row: dict[str, Any]) -> str:
    return "(unknown)" if row["path"] is None else printable(row["path"])


class _Scale:
    """Converts times to positions in percent of the panel."""

    def __init__(self, shown: Timeline) -> None:
        self._start_ns = shown.start_ns
        self._span_ns = shown.end_ns - shown.start_ns

    def place(self, start_ns: int, length_ns: int) -> tuple[float, float]:
        """Return left edge and width, clipped to the panel."""
        left = 100 * (start_ns - self._start_ns) / self._span_ns
        right = left + 100 * length_ns / self._span_ns
        left = min(max(left, 0.0), 100 - _MIN_WIDTH)
        return left, max(min(right, 100.0) - left, _MIN_WIDTH)


def _threads(shown: Timeline, scale: _Scale) -> Iterator[tuple[str, list[Bar]]]:
    """Yield the threads with the longest total time in calls, each with its bars."""
    by_thread = collections.defaultdict(list)
    for row in shown.calls:
        by_thread[row["tid"]].append(row)
    longest = sorted(
        by_thread.items(), key=lambda item: -sum(row["duration_ns"] for row in item[1])
    )
    for tid, rows in longest[:_MAX_THREADS]:
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
    """Yield I/Os by time with the first free row. The last row takes all that find none."""
    ends = [0] * _MAX_ROWS
    for io in sorted(ios, key=lambda io: int(io["time_ns"])):
        free = (i for i, end in enumerate(ends) if end <= io["time_ns"])
        row = next(free, _MAX_ROWS - 1)
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
            for layer in LAYERS:
                if io[layer]:
                    bars.append((layer, *scale.place(start_ns, io[layer]), row, words))
                start_ns += io[layer]
        yield drive, bars


def check_can_draw() -> None:
    """Raise if the library for the page is missing."""
    with needs("the timeline needs Jinja", "'linnapp[watch]'"):
        import jinja2  # noqa: F401


def page(shown: Timeline, properties: dict[str, Any]) -> str:
    """Return the HTML page. `properties` are those of :func:`~linnapp.insight.query.recording`."""
    import jinja2

    scale = _Scale(shown)
    threads = list(_threads(shown, scale))
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_TEMPLATE.read_text()).render(
        title=printable(
            " ".join(properties.get("command") or []) or shown.session or "linnapp watch"
        ),
        session=shown.session and printable(shown.session),
        when=time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(shown.start_ns / 1e9)),
        from_s=(shown.start_ns - shown.session_start_ns) / 1e9,
        seconds=(shown.end_ns - shown.start_ns) / 1e9,
        counts=[
            f"{properties[name]} {words}" for name, words in COUNTS.items() if properties.get(name)
        ],
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
            for row in shown.calls[:_MAX_LISTED]
        ],
    )
