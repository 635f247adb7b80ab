# SPDX-License-Identifier: MIT
"""When to hedge a read, by how long it was predicted to take.

A read is late when it has taken longer than nearly all do that were predicted to take as long. What
those take is a percentile of reads that had no part in the trees which predicted them, in classes
of the prediction, two a doubling. A longer prediction is never late earlier: classes of which that
would hold are made one, which is isotonic regression of the percentile.

Slow reads come in bursts, so that of later reads more are late than the percentile says: up to
3.9 % instead of 1 % in the second halves of recordings by the first. All times are therefore
multiplied by the factor with which no eighth of the recording has more late reads than the
percentile says. With it at most 1.0 % of the other half's reads were late in 16 tests, forward and
backward on five recordings of real drives and three of emulated ones. A load that differs from the
recorded one can have more.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

#: Beyond a row's percentile there must have been so many reads.
MIN_BEYOND = 10

#: Classes of the prediction in each doubling of it.
PER_DOUBLING = 2

#: Consecutive parts of the recording, in none of which more reads are late.
N_PARTS = 8

#: what a file can hold
_MOST_US = 2**32 - 1

FIRST_LINE = "linnos hedge table 1"


@dataclasses.dataclass(frozen=True)
class Row:
    """From which prediction on a read is hedged after how long."""

    from_us: int
    after_us: int
    reads: int


@dataclasses.dataclass(frozen=True)
class HedgeTable:
    """When to hedge reads of a drive.

    Attributes
    ----------
    percentile : float
        In each eighth of the recording, how many percent of the reads at least took no longer than
        `after_us` of their rows.
    rows : tuple of Row
        By rising predictions, the first from 0.
    why_one_row : str
        Why predictions do not count; empty when they do.
    factor : float
        By which the percentiles of the rows are multiplied; see :func:`raised`.
    """

    percentile: float
    rows: tuple[Row, ...]
    why_one_row: str = ""
    factor: float = 1.0

    def after_us(self, predicted_us: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """When to hedge reads of these predictions."""
        at = np.searchsorted([row.from_us for row in self.rows], predicted_us, side="right") - 1
        return np.array([row.after_us for row in self.rows])[at]

    def to_text(self) -> str:
        """What the file beside a model holds (docs/formats.md)."""
        reads = sum(row.reads for row in self.rows)
        times = f" times {self.factor:.2f}" if self.factor > 1 else ""
        lines = [
            FIRST_LINE,
            f"# p{self.percentile:g} of {reads} reads{times}: predicted us, hedge after",
        ]
        lines += [f"{row.from_us} {row.after_us}" for row in self.rows]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """For the training record."""
        return {
            "percentile": self.percentile,
            "why_one_row": self.why_one_row or None,
            "factor": self.factor,
            "rows": [list(dataclasses.astuple(row)) for row in self.rows],
        }


def reads_needed(percentile: float) -> int:
    """How many reads a row needs, for ``MIN_BEYOND`` of them to be beyond the percentile."""
    return math.ceil(round(MIN_BEYOND * 100 / (100 - percentile), 6))


def learn(
    predicted_us: npt.NDArray[Any],
    latency_us: npt.NDArray[Any],
    percentile: float,
    all_latency_us: npt.NDArray[Any],
) -> HedgeTable:
    """When to hedge, from reads whose latencies had no part in their predictions.

    Parameters
    ----------
    predicted_us, latency_us : array, shape (n,)
    percentile : float
        Above 0 and below 100.
    all_latency_us : array, shape (m,), m > 0
        Of all reads of the recording: where the others are too few, this is their table.
    """
    needed = reads_needed(percentile)
    if len(latency_us) < needed:
        why = (
            f"{len(latency_us)} reads that did not teach are too few for p{percentile:g} by "
            f"prediction: {needed} are needed; it is that of all {len(all_latency_us)}"
        )
        row = Row(0, _percentile_us(all_latency_us, percentile), len(all_latency_us))
        return HedgeTable(percentile, (row,), why)
    order = np.argsort(predicted_us, kind="stable")
    predicted, latency = np.maximum(predicted_us[order], 1), latency_us[order]
    classes = np.floor(PER_DOUBLING * np.log2(predicted)).astype(int)
    starts = _enough(np.flatnonzero(np.diff(classes, prepend=-1)), len(classes), needed)
    stops = [*starts[1:], len(classes)]
    rising: list[tuple[int, int, int]] = []  # first read, behind the last, percentile
    for start, stop in zip(starts, stops, strict=True):
        first = start
        after_us = _percentile_us(latency[first:stop], percentile)
        while rising and rising[-1][2] > after_us:
            first = rising.pop()[0]
            after_us = _percentile_us(latency[first:stop], percentile)
        rising.append((first, stop, after_us))
    rows = [
        Row(_from_us(int(classes[first])) if first else 0, after_us, stop - first)
        for first, stop, after_us in rising
    ]
    return HedgeTable(percentile, tuple(rows))


def raised(
    table: HedgeTable, predicted_us: npt.NDArray[Any], latency_us: npt.NDArray[Any]
) -> HedgeTable:
    """The table with all times multiplied by the factor that each eighth of these reads needs.

    Parameters
    ----------
    predicted_us, latency_us : array, shape (n,), n > 0
        All reads of the recording in order of time, also those that taught.
    """
    n_parts = max(1, min(N_PARTS, len(latency_us) // reads_needed(table.percentile)))
    ratios = latency_us / table.after_us(predicted_us)
    factor = max(
        1.0,
        *(
            float(np.percentile(part, table.percentile, method="inverted_cdf"))
            for part in np.array_split(ratios, n_parts)
        ),
    )
    rows = tuple(
        dataclasses.replace(row, after_us=min(_MOST_US, math.ceil(row.after_us * factor)))
        for row in table.rows
    )
    return dataclasses.replace(table, rows=rows, factor=factor)


def _enough(starts: npt.NDArray[np.intp], n: int, needed: int) -> list[int]:
    """Join classes, given by their first reads of `n`, until each has as many reads as it needs."""
    kept = [0]
    for start in starts[1:]:
        if start - kept[-1] >= needed and n - start >= needed:
            kept.append(int(start))
    return kept


def _from_us(number: int) -> int:
    """The least whole prediction of a class."""
    return math.ceil(2 ** (number / PER_DOUBLING))


def _percentile_us(latency_us: npt.NDArray[Any], percentile: float) -> int:
    """By nearest rank, as everywhere; at least 1, since 0 would be to send every read twice."""
    return max(1, int(np.percentile(latency_us, percentile, method="inverted_cdf")))
