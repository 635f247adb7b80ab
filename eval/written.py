# SPDX-License-Identifier: MIT
"""Does it help a model of latencies to know when a read's pages were written, or how hot they are?

    python -m eval.written az-e az-c               # development cells, seed 1010
    python -m eval.written az-e --replicated       # each write goes to all drives
    python -m eval.written --log FILE              # a real drive's log, whose writes are its own

The core has neither: here both are computed from the recording, as tables of hashed stamps and of
hashed counters that decay would have them. The first half teaches trees without and with them, the
second judges: what a deviance is lower by, area under ROC, and what is gained by choosing between
reads of one moment (`python -m eval.pairs`). Mirrors have what was written in common: of them such
a choice is between reads that are alike in that, too.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eval.pairs import (
    Floats,
    Reads,
    estimates,
    grown,
    halves,
    load,
    parser,
    predictions,
    recordings,
    shown,
)
from linnapp.learn.judging.pairs import Estimate, judge
from linnapp.learn.judging.ranking import area_under_roc
from linnapp.learn.labelling.inflection import size_classes
from linnapp.learn.trees.training import (
    OVERDUE_PERCENTILE,
    deviances,
)
from linnapp.model.latency_model import CAP, N_FEATURES
from linnapp.trace.blktrace import IoChunk
from linnapp.trace.difference import MAX_BLOCKS
from linnapp.trace.formats.text_trace import SECTOR_BYTES
from linnapp.trace.logged_drive import PAGE_BYTES

#: Stamps in a table of 32 bits each: 16 KB a drive, and what is hardly ever shared.
STAMPS = (4096, 65536)
#: Of a larger I/O the first so many pages count.
MOST_PAGES = 64
#: Counters of accesses, each of a region of so many pages; they fall to a third in so long.
COUNTERS, REGION_PAGES, DECAY_S = 4096, 64, 1.0

#: Columns beside the features, by what is tried.
TRIED = {
    "without": (),
    "since written, 4096 stamps": (0,),
    "since written, 65536 stamps": (1,),
    "hot and cold": (2,),
}


def beside(chunks: list[IoChunk]) -> Floats:
    """The columns of each I/O of a recording."""
    first, size, arrival_ns, is_write = (
        np.concatenate([getattr(chunk, name) for chunk in chunks])
        for name in ("sector", "size_bytes", "arrival_ns", "is_write")
    )
    page = first.astype(np.int64) * SECTOR_BYTES // PAGE_BYTES
    n_pages = np.clip(-(-size.astype(np.int64) // PAGE_BYTES), 1, MOST_PAGES)
    ages = [since_written_us(page, n_pages, arrival_ns, is_write, stamps) for stamps in STAMPS]
    counters = _hashed(page // REGION_PAGES, COUNTERS)
    return np.column_stack((*ages, decayed_count(counters, arrival_ns / 1e9)))


def since_written_us(
    page: npt.NDArray[np.int64],
    n_pages: npt.NDArray[np.int64],
    arrival_ns: npt.NDArray[np.uint64],
    is_write: npt.NDArray[np.bool_],
    stamps: int,
) -> Floats:
    """How long before each I/O the latest write of one of its pages began; `CAP` without one."""
    ios = np.repeat(np.arange(len(page)), n_pages)
    begins = np.cumsum(n_pages) - n_pages
    slot = _hashed(page[ios] + np.arange(len(ios)) - begins[ios], stamps)
    by_slot = np.argsort(slot, kind="stable")
    at = np.arange(len(by_slot))
    last = np.maximum.accumulate(np.where(is_write[ios[by_slot]], at, -1))
    before = np.concatenate(([-1], last[:-1]))
    known = (before >= 0) & (slot[by_slot][before] == slot[by_slot])
    times_us = arrival_ns[ios[by_slot]].astype(np.int64) // 1000
    since_us = np.where(known, np.minimum(times_us - times_us[before], CAP), CAP)
    in_order = np.empty(len(ios))
    in_order[by_slot] = since_us
    return np.asarray(np.minimum.reduceat(in_order, begins))


def decayed_count(counter: npt.NDArray[np.int64], times_s: Floats) -> Floats:
    """Of each I/O, what its counter holds of those before it.

    c[i] = d[i] * (c[i - 1] + 1), d being what is left in the meantime: composed in pairs, pairs of
    pairs, ... (Hillis and Steele, CACM 29:12, 1986).
    """
    order = np.argsort(counter, kind="stable")
    same = np.diff(counter[order], prepend=-1) == 0
    left = np.where(same, np.exp(-np.diff(times_s[order], prepend=0) / DECAY_S), 0.0)
    count, step = left.copy(), 1
    while step < len(left) and left.any():
        count[step:] += left[step:] * count[:-step]
        left[step:] *= left[:-step].copy()
        left[:step] = 0.0
        step *= 2
    found = np.empty(len(count))
    found[order] = count
    return found


def _hashed(number: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Fibonacci hashing to a power of two."""
    bits = np.uint64(64 - (size.bit_length() - 1))
    return np.asarray((number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> bits).astype(
        np.int64
    )


def lower_by(without: list[Floats], now: list[Floats]) -> Estimate:
    """Of deviances, mean of the drives; blocks of each drive's time."""
    lower = [before - after for before, after in zip(without, now, strict=True)]
    parts = [[(len(b), b.sum()) for b in np.array_split(of, MAX_BLOCKS)] for of in lower]
    return estimates(np.sum(parts, axis=0).astype(np.float64))[0]


def _kind(reads: Reads, columns: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Size classes, and powers of two of what the columns beside the features hold."""
    kind = size_classes(reads.pages)
    for column in columns:
        held = reads.features[:, N_FEATURES + column]
        kind = kind * 64 + np.log2(1 + held).astype(np.int64)
    return kind


def rows(drives: list[Reads]) -> list[list[str]]:
    """A row of the table for each of `TRIED`."""
    taught, judged = halves(drives)
    without: list[Floats] = []
    first_deviances: list[Floats] = []
    table = []
    for name, columns in TRIED.items():
        kept = [*range(N_FEATURES), *(N_FEATURES + column for column in columns)]
        taught_here, judged_here = (
            [Reads(r.arrival_ns, r.latency_us, r.pending, r.pages, r.features[:, kept]) for r in of]
            for of in (taught, judged)
        )
        predicted = [
            predictions(grown(early.features, early.latency_us), late)
            for early, late in zip(taught_here, judged_here, strict=True)
        ]
        deviance = [
            deviances(us, reads.latency_us) for us, reads in zip(predicted, judged, strict=True)
        ]
        without, first_deviances = without or predicted, first_deviances or deviance
        areas = [
            area_under_roc(
                us, late.latency_us > np.percentile(early.latency_us, OVERDUE_PERCENTILE)
            )
            for us, early, late in zip(predicted, taught, judged, strict=True)
        ]
        row = [
            name, f"{np.concatenate(deviance).mean():.4f}",
            shown(lower_by(first_deviances, deviance), digits=4),
            " ".join("-" if area is None else f"{area:.3f}" for area in areas),
        ]  # fmt: skip
        if len(drives) > 1:
            pairs, alike = (
                judge([
                    [replace(reads.judged(us, before), kind=_kind(reads, by))]
                    for reads, us, before in zip(judged, predicted, without, strict=True)
                ])
                for by in ((), columns)
            )  # fmt: skip
            row += [shown(pairs.over_turns_us), shown(pairs.over_rival_us)]
            row += [f"{shown(alike.over_rival_us)}, {alike.pairs} pairs" if columns else ""]
        table.append(row)
    return table


def main() -> None:
    options = parser("python -m eval.written", __doc__)
    options.add_argument("of", nargs="*", help="a cell, or a folder with flash0.blk to flash2.blk")
    options.add_argument("--log", type=Path, help="a log of one drive")
    arguments = options.parse_args()
    head = ["of", "trees", "deviance", "lower by", "area under ROC", "over turns, us"]
    head += ["more than without", "more, of pairs alike in it"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    logs = () if arguments.log is None else (arguments.log,)
    for name in (*logs, *arguments.of):
        paths = [name] if isinstance(name, Path) else recordings(arguments, name)
        for row in rows([load(path, beside) for path in paths]):
            print(f"| {' | '.join((str(name), *row))} |", flush=True)


if __name__ == "__main__":
    main()
