# SPDX-License-Identifier: MIT
"""Hedging table: how long to wait before hedging a read, by its predicted latency.

A read is late if it has taken longer than almost all reads with a similar prediction. The limit is
a percentile of the latencies of reads that were not used to train the trees that predicted them, in
classes of the prediction, two per doubling. Limits must not decrease with the prediction. Classes
that violate this are merged, which is an isotonic regression of the percentile.

Slow reads come in bursts, so more future reads are late than the percentile implies: up to 3.9 %
instead of 1 % in the second halves of recordings, with a table from the first halves. All limits
are therefore multiplied by the smallest factor with which no eighth of the recording has more late
reads than the percentile implies. With this factor at most 1.0 % of the reads of the other half
were late in 16 tests, forward and backward on five recordings of real drives and three of emulated
ones. Under a load that differs from the recorded one, more reads can be late.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

#: Minimum number of reads beyond the percentile of a row.
MIN_BEYOND = 10

#: Number of classes per doubling of the prediction.
PER_DOUBLING = 2

#: Number of consecutive parts of the recording that are considered separately.
N_PARTS = 8

#: Maximum value in a file.
_MOST_US = 2**32 - 1

FIRST_LINE = "linnos hedge table 1"


@dataclasses.dataclass(frozen=True)
class Row:
    """Reads with a prediction of at least `from_us` are hedged after `after_us`."""

    from_us: int
    after_us: int
    reads: int


@dataclasses.dataclass(frozen=True)
class HedgeTable:
    """Times after which reads of a drive are hedged.

    Attributes
    ----------
    percentile : float
        In each eighth of the recording, at least this percentage of the reads took no longer than
        `after_us` of their rows.
    rows : tuple of Row
        In order of rising predictions. The first begins at 0.
    why_one_row : str
        Reason why the table does not depend on the prediction, or empty if it does.
    factor : float
        Factor by which the percentiles of the rows are multiplied; see :func:`raised`.
    """

    percentile: float
    rows: tuple[Row, ...]
    why_one_row: str = ""
    factor: float = 1.0

    def after_us(self, predicted_us: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the time in us after which reads with these predictions are hedged."""
        at = np.searchsorted([row.from_us for row in self.rows], predicted_us, side="right") - 1
        return np.array([row.after_us for row in self.rows])[at]

    def to_text(self) -> str:
        """Return the content of the file that accompanies a model (docs/formats.md)."""
        reads = sum(row.reads for row in self.rows)
        times = f" times {self.factor:.2f}" if self.factor > 1 else ""
        lines = [
            FIRST_LINE,
            f"# p{self.percentile:g} of {reads} reads{times}: predicted us, hedge after",
        ]
        lines += [f"{row.from_us} {row.after_us}" for row in self.rows]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Return the table for the training record."""
        return {
            "percentile": self.percentile,
            "why_one_row": self.why_one_row or None,
            "factor": self.factor,
            "rows": [list(dataclasses.astuple(row)) for row in self.rows],
        }


def reads_needed(percentile: float) -> int:
    """Return how many reads a row needs so that ``MIN_BEYOND`` of them exceed the percentile."""
    return math.ceil(round(MIN_BEYOND * 100 / (100 - percentile), 6))


def learn(
    predicted_us: npt.NDArray[Any],
    latency_us: npt.NDArray[Any],
    percentile: float,
    all_latency_us: npt.NDArray[Any],
) -> HedgeTable:
    """Compute a hedging table from reads that were not used to train their predictions.

    Parameters
    ----------
    predicted_us, latency_us : array, shape (n,)
    percentile : float
        Above 0 and below 100.
    all_latency_us : array, shape (m,), m > 0
        Latencies of all reads of the recording, which are used if the others are too few.

    Returns
    -------
    HedgeTable
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
    rising: list[tuple[int, int, int]] = []  # First read, one past the last read, percentile.
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
    """Return the table with all times multiplied by the factor that these reads require.

    The factor is the smallest, not below 1, that is sufficient for each eighth of the reads.

    Parameters
    ----------
    table : HedgeTable
    predicted_us, latency_us : array, shape (n,), n > 0
        All reads of the recording in order of time, including the training data.
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
    """Merge classes, given by their first reads of `n`, until each has at least `needed` reads."""
    kept = [0]
    for start in starts[1:]:
        if start - kept[-1] >= needed and n - start >= needed:
            kept.append(int(start))
    return kept


def _from_us(number: int) -> int:
    """Return the smallest integer prediction of a class."""
    return math.ceil(2 ** (number / PER_DOUBLING))


def _percentile_us(latency_us: npt.NDArray[Any], percentile: float) -> int:
    """Return the percentile by nearest rank, at least 1, because 0 would duplicate every read."""
    return max(1, int(np.percentile(latency_us, percentile, method="inverted_cdf")))
