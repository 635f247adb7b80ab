# SPDX-License-Identifier: MIT
"""Parse the kernel's decisions about latency-critical reads from trace events in text form.

The text is the output of tracefs (``cat trace``) or of ``trace-cmd report``. It has a line of the
event ``linnos_decision`` (docs/formats.md) for each decision. The latencies of admitted reads are
known if it also has the events ``block_rq_issue`` and ``block_rq_complete``.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.native import HISTORY, N_FEATURES, N_FEATURES_MIN
from linnapp.trace.blktrace import parse_device

#: Reasons of decisions, with the numbers and names of the kernel's trace event.
FAST, SLOW, PROBE, NO_MODEL = 0, 1, 2, 3
REASONS = {FAST: "fast", SLOW: "slow", PROBE: "probe", NO_MODEL: "no-model"}
_REASON_OF = {name.encode(): number for number, name in REASONS.items()}

#: Value of `latency_us` for a read that was revoked or whose completion was not seen.
UNKNOWN = -1

_DECISION = re.compile(
    rb" (\d+)\.(\d{6}): linnos_decision: +dev=(\d+:\d+) sector=(\d+) nr_sector=(\d+) pending=(\d+)"
    rb" hist_pending=(\d+),(\d+),(\d+),(\d+) hist_latency_us=(\d+),(\d+),(\d+),(\d+)"
    rb" out_fast=(-?\d+) out_slow=(-?\d+) revoked=(\d) reason=([a-z-]+)"
    rb"(?: features=\{([^}\n]*)\})?"
)
_REQUEST = re.compile(
    rb" (\d+)\.(\d{6}): block_rq_(issue|complete): +(\d+),(\d+) R[A-Z]*"
    rb" (?:\d+ )?\([^)\n]*\) (\d+) \+ (\d+) [^\n]*\[([^]\n]*)\]"
)
_LOST = re.compile(rb"# entries-in-buffer/entries-written: (\d+)/(\d+)")


#: Columns of a table of decisions.
#:
#: Times use the trace's clock. `hist_*` are oldest first and not capped. `latency_us` is that of
#: the drive, from issue to completion, or ``UNKNOWN``. `features` are the inputs of a latency
#: model. `of_latency` is true if a latency model made the decision: `out_fast` is then the refusal
#: limit and `out_slow` the prediction, in us.
DECISION = np.dtype(
    [
        ("time_us", "<i8"),
        ("device", "<u4"),
        ("sector", "<u8"),
        ("n_sectors", "<u4"),
        ("pending", "<u4"),
        ("hist_pending", "<u4", HISTORY),
        ("hist_latency_us", "<u4", HISTORY),
        ("out_fast", "<i8"),
        ("out_slow", "<i8"),
        ("revoked", "?"),
        ("reason", "u1"),
        ("of_latency", "?"),
        ("features", "<u4", N_FEATURES),
        ("latency_us", "<i8"),
        ("failed", "?"),
    ]
)


def lost_events(text: bytes) -> int:
    """Return the number of events that were lost, according to the header of the text, or 0."""
    counts = _LOST.search(text)
    return int(counts[2]) - int(counts[1]) if counts else 0


def parse_decisions(text: bytes) -> npt.NDArray[Any]:
    """Parse all decisions in a text, in order of the lines. Latencies are left unknown."""
    rows = _DECISION.findall(text)
    table = np.zeros(len(rows), DECISION)
    table["latency_us"] = UNKNOWN
    if not rows:
        return table
    numbers = np.array([(*row[:2], *row[3:-2]) for row in rows]).astype(np.int64)
    table["time_us"] = numbers[:, 0] * 1_000_000 + numbers[:, 1]
    table["device"] = [parse_device(row[2].decode()) for row in rows]
    for column, name in enumerate(("sector", "n_sectors", "pending"), 2):
        table[name] = numbers[:, column]
    table["hist_pending"] = numbers[:, 5:9]
    table["hist_latency_us"] = numbers[:, 9:13]
    table["out_fast"] = numbers[:, 13]
    table["out_slow"] = numbers[:, 14]
    table["revoked"] = numbers[:, 15] == 1
    table["reason"] = [_REASON_OF[row[-2]] for row in rows]
    # Hexadecimal, as the kernel prints arrays. A network has no features, and the trees of an older
    # kernel have fewer.
    missing = [N_FEATURES - 1 - row[-1].count(b",") for row in rows]
    seen = [row[-1] + more * b",0" for row, more in zip(rows, missing, strict=True)]
    table["of_latency"] = [0 <= more <= N_FEATURES - N_FEATURES_MIN for more in missing]
    features = b",".join(itertools.compress(seen, table["of_latency"]))
    table["features"][table["of_latency"]] = np.array(
        [int(number, 16) for number in features.split(b",") if number], np.uint32
    ).reshape(-1, N_FEATURES)
    return table


@dataclasses.dataclass
class _Read:
    """An admitted read between its decision and its completion."""

    row: int
    first: int
    end: int
    not_issued: int
    not_completed: int
    latency_us: int = 0
    failed: bool = False


@dataclasses.dataclass(eq=False)
class _Request:
    """Sectors that were issued to the driver in one request, and the reads that they belong to."""

    first: int
    end: int
    issued_us: int
    reads: list[_Read]


def add_answers(text: bytes, table: npt.NDArray[Any]) -> None:
    """Add the latencies of the admitted reads from the block requests of the same text.

    The columns `latency_us` and `failed` of the table are written. A request belongs to a decision
    if it is the next request that reads the decision's sectors on its drive, because decisions and
    requests have no other link. If a read was split, its latency is that of the slowest part, while
    the kernel counts each part as a read.
    """
    waiting: dict[int, list[_Read]] = {}
    in_drive: dict[int, list[_Request]] = {}
    order = np.argsort(table["time_us"], kind="stable").tolist()
    times = table["time_us"][order].tolist()
    k = 0
    for seconds, micros, event, major, minor, sector, count, error in _REQUEST.findall(text):
        time_us = int(seconds) * 1_000_000 + int(micros)
        # A decision in the same microsecond was made before the request.
        while k < len(order) and times[k] <= time_us:
            row = table[order[k]]
            if not row["revoked"]:
                first, n = int(row["sector"]), int(row["n_sectors"])
                waiting.setdefault(int(row["device"]), []).append(
                    _Read(order[k], first, first + n, n, n)
                )
            k += 1
        device = int(major) << 20 | int(minor)
        first, end = int(sector), int(sector) + int(count)
        if event == b"issue":
            reads = _take_reads(waiting.get(device, []), first, end)
            if reads:
                request = _Request(first, end, time_us, reads)
                in_drive.setdefault(device, []).append(request)
        else:
            _complete(in_drive.get(device, []), first, end, time_us, int(error) != 0, table)


def _take_reads(waiting: list[_Read], first: int, end: int) -> list[_Read]:
    """Return the oldest waiting reads of these sectors, at most one for each sector.

    Reads whose sectors have all been issued are removed from `waiting`.
    """
    taken: list[_Read] = []
    for read in waiting:
        low, high = max(read.first, first), min(read.end, end)
        if low < high and not any(low < t.end and t.first < high for t in taken):
            taken.append(read)
            read.not_issued -= high - low
    waiting[:] = [read for read in waiting if read.not_issued > 0]
    return taken


def _complete(
    in_drive: list[_Request], first: int, end: int, time_us: int, failed: bool, table: Any
) -> None:
    """Complete sectors. A request that completes in parts does so from its beginning."""
    for request in in_drive:
        if request.first == first and end <= request.end:
            break
    else:
        return
    for read in request.reads:
        overlap = min(read.end, end) - max(read.first, first)
        if overlap <= 0:
            continue
        read.not_completed -= overlap
        read.latency_us = max(read.latency_us, time_us - request.issued_us)
        read.failed |= failed
        if read.not_completed <= 0:
            table["latency_us"][read.row] = read.latency_us
            table["failed"][read.row] = read.failed
    request.first = end
    if end == request.end:
        in_drive.remove(request)
