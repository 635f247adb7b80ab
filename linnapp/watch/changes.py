# SPDX-License-Identifier: MIT
"""Two sessions that were watched: which system calls take longer in the second than in the first.

The mean duration of every kind of call is compared, by blocks of time as for layers of I/Os
(:func:`linnapp.stats.differences`). Many kinds are looked at, so the intervals are so wide that all
of them hold at once, at 95 %.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.watch.reader import PARTS
from linnapp.watch.watched import ask, opened

if TYPE_CHECKING:
    import duckdb

#: Of every kind of call and every block of time: how many, ns in them, in waiting of their I/Os and
#: at the drive. An I/O that a driver passed on is there once more, below.
_BLOCKS = f"""
with bounds as (
  select min(time_ns) as first, max(time_ns) - min(time_ns) + 1 as span
  from calls where session = $session
), of_calls as (
  select tid, call_time_ns, count(*) as ios, sum(plug_ns + scheduler_ns) as wait_ns,
    sum(drive_ns) as drive_ns
  from ios where session = $session and call is not null and not below group by all
)
select call, case when $by_path then path end as path,
  ((time_ns - first) * $blocks // span)::integer as block, count(*) as calls,
  sum(duration_ns)::double as duration_ns, coalesce(sum(ios), 0)::double as ios,
  coalesce(sum(wait_ns), 0)::double as wait_ns, coalesce(sum(drive_ns), 0)::double as drive_ns,
  {", ".join(f"coalesce(sum({part}), 0)::double" for part in PARTS)}
from calls cross join bounds
  left join of_calls on calls.tid = of_calls.tid and calls.time_ns = of_calls.call_time_ns
where session = $session group by 1, 2, 3 order by 1, 2, 3
"""
_PERCENTILES = """
select call, case when $by_path then path end as path,
  quantile_cont(duration_ns, 0.5) / 1e3 as p50_us, quantile_cont(duration_ns, 0.99) / 1e3 as p99_us
from calls where session = $session group by 1, 2
"""


@dataclasses.dataclass(frozen=True)
class Side:
    """A kind of call in one session; times in us."""

    calls: int
    #: `mean_us`, `p50_us`, `p99_us`: from call to return.
    mean_us: float
    p50_us: float
    p99_us: float
    #: `ios`, `wait_us`, `drive_us`: of each call, on average: I/Os that it queued, what they waited
    #: for the driver, and what they took from there on. I/Os at the same time count one after
    #: another.
    ios: float
    wait_us: float
    drive_us: float
    #: What the mean is made of, by the names of :data:`linnapp.watch.reader.PARTS`.
    parts_us: dict[str, float]


@dataclasses.dataclass(frozen=True)
class CallChange(stats.Difference):
    """How the mean duration of a kind of call differs."""

    call: str
    #: None unless paths are told apart.
    path: str | None
    before: Side
    after: Side

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {**dataclasses.asdict(self), "beyond_chance": self.is_beyond_chance}


def changes(folder: AnyPath, before: str, after: str, *, by_path: bool = False) -> list[CallChange]:
    """Compare two sessions of a folder: what both have, that which changed most first.

    `by_path` tells calls of one kind on different files apart.
    """
    with opened(folder) as database:
        kept = {row["session"] for row in ask(database, "select distinct session from calls")}
        for session in (before, after):
            if session not in kept:
                names = ", ".join(sorted(name for name in kept if name is not None))
                raise TraceError(
                    f"{folder}: no session {session} with calls; it has {names or 'none'}: "
                    "`linnapp watch -o FOLDER --session NAME` records one"
                )
        sides = [_session(database, session, by_path) for session in (before, after)]
    common = [kind for kind in sides[0] if kind in sides[1]]
    found = [_change(kind, sides[0][kind], sides[1][kind], len(common)) for kind in common]
    return sorted(
        found,
        key=lambda change: (not change.is_beyond_chance, -abs(change.us), change.call),
    )


_Kind = tuple[str, str | None]
_Blocks = npt.NDArray[np.float64]


def _session(
    database: duckdb.DuckDBPyConnection, session: str, by_path: bool
) -> dict[_Kind, tuple[Side, _Blocks]]:
    given = {"session": session, "by_path": by_path}
    span = "select max(time_ns) - min(time_ns) + 1 as ns from calls where session = $session"
    (row,) = ask(database, span, {"session": session})
    n_blocks = stats.count_blocks(row["ns"]) or 1
    rows = database.execute(_BLOCKS, {**given, "blocks": n_blocks}).fetchall()
    blocks: dict[_Kind, list[tuple[float, ...]]] = {}
    for call, path, _, *sums in rows:
        blocks.setdefault((call, path), []).append(tuple(sums))
    percentiles = {(row["call"], row["path"]): row for row in ask(database, _PERCENTILES, given)}
    found = {}
    for kind, sums in blocks.items():
        columns = np.array(sums, dtype=np.float64)
        calls, *totals = columns.sum(axis=0).tolist()
        duration_ns, ios, wait_ns, drive_ns, *parts_ns = (total / calls for total in totals)
        side = Side(
            calls=int(calls),
            mean_us=duration_ns / 1000,
            p50_us=percentiles[kind]["p50_us"],
            p99_us=percentiles[kind]["p99_us"],
            ios=ios,
            wait_us=wait_ns / 1000,
            drive_us=drive_ns / 1000,
            parts_us=dict(zip(PARTS, (ns / 1000 for ns in parts_ns), strict=True)),
        )
        found[kind] = side, columns[:, :2]
    return found


def _change(
    kind: _Kind, before: tuple[Side, _Blocks], after: tuple[Side, _Blocks], n_kinds: int
) -> CallChange:
    interval = stats.Interval.unknown()
    if min(len(before[1]), len(after[1])) >= stats.MIN_BLOCKS:
        in_us = (1, 1000)
        (interval,) = stats.differences(before[1] / in_us, after[1] / in_us, n_kinds)
    us = after[0].mean_us - before[0].mean_us
    return CallChange(us, *interval.ends, *kind, before=before[0], after=after[0])
