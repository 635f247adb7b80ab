# SPDX-License-Identifier: MIT
"""A recording in memory: its I/Os as a table of arrays, for inspection and computation.

Functions that accept the path of a recording also accept a table. They process it in the same
chunks, so that the results are identical. A table needs up to 180 bytes per I/O. If this is
too much, use the path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.arguments import check_number
from linnapp.errors import needs
from linnapp.figures import axes_for
from linnapp.trace.blktrace import COLUMNS, IoChunk, TraceStats

#: Column of the features that depends on the time after which a read is overdue.
OVERDUE = 5


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class IoTable(IoChunk):
    """The I/Os of a recording, with the columns of :class:`~linnapp.trace.blktrace.IoChunk`.

    Attributes
    ----------
    name : str
        File name of the recording.
    files : tuple of str
        Names of all files of the recording.
    sha256 : str
        Of the unpacked contents of the files, in order.
    stats : TraceStats
        Counts of the reader.
    chunk_ends : tuple of int
        Index of the end of each chunk that was read.
    starts : array or None
        Of blktrace, the start times of reads (:data:`~linnapp.trace.blktrace.START`).
    first : int
        For a part, the index of its first I/O in the recording.
    whole : bool
        True if the table contains all I/Os of the recording.
    label : str
        Name in messages, by default `name`.
    """

    name: str
    files: tuple[str, ...]
    sha256: str
    stats: TraceStats
    chunk_ends: tuple[int, ...]
    starts: npt.NDArray[Any] | None
    first: int = 0
    whole: bool = True
    label: str = ""

    def __getitem__(self, rows: slice) -> IoTable:
        """Return consecutive I/Os, ``reads[:n]``. They keep the history of the whole recording.

        Raises
        ------
        TypeError
            If `rows` is not a slice.
        ValueError
            If the step is not 1.
        """
        if not isinstance(rows, slice):
            raise TypeError(
                f"reads[{rows!r}]: expected a slice as in reads[:1000]; reads.take(mask) chooses "
                "by a mask"
            )
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise ValueError(f"a step of {step}: what is left out would be missing in the history")
        stop = max(start, stop)
        ends = [end - start for end in self.chunk_ends if start < end < stop]
        part = self.take(slice(start, stop))
        n_writes = int(np.count_nonzero(part.is_write))
        return dataclasses.replace(
            self,
            **{name: getattr(part, name) for name in COLUMNS},
            features=part.features,
            chunk_ends=(*ends, stop - start) if stop > start else (),
            first=self.first + start,
            whole=self.whole and stop - start == len(self),
            stats=self.stats.with_counts(reads=len(part) - n_writes, writes=n_writes),
        )

    def overdue(self, overdue_us: int | None) -> npt.NDArray[np.int64] | None:
        """Return how many reads were in flight for longer than `overdue_us` at each read.

        The result is None for a log, and if `overdue_us` is None. It is 0 for writes.
        """
        if self.starts is None or overdue_us is None:
            return None
        # A start at s is overdue at times above s - 1 + overdue_us, because the parser adds 1 ns to
        # start times. The first such I/O is found for each start; the last one is recorded.
        times_ns = np.maximum.accumulate(self.arrival_ns)
        overdue_ns = np.uint64(1000 * overdue_us)
        begin = np.searchsorted(
            times_ns, self.starts["start_ns"] - np.uint64(1) + overdue_ns, "right"
        )
        until = np.clip(self.starts["until"], self.first, self.first + len(self)) - np.uint64(
            self.first
        )
        until = np.maximum(until.astype(np.int64), begin)
        change = np.bincount(begin, minlength=len(self) + 1) - np.bincount(
            until, minlength=len(self) + 1
        )
        return np.where(self.is_write, 0, np.cumsum(change)[:-1])

    def split(self, share: float = 0.5) -> tuple[IoTable, IoTable]:
        """Split the I/Os in order of time, for training and for testing.

        `share` is the share of the first part.
        """
        check_number("share", share, 0, 1, open_ends="low high")
        at = round(len(self) * share)
        return self[:at], self[at:]

    def plot(self, axes: Any = None) -> Any:
        """Plot the cumulative distribution of read latencies, on new axes by default."""
        axes = axes_for(axes)
        latency_us = np.sort(self.latency_ns[self.is_served_read]) / 1000
        axes.set_xscale("log")
        axes.plot(latency_us, np.linspace(0, 100, len(latency_us)))
        axes.set_xlabel("read latency, us")
        axes.set_ylabel("reads, %")
        axes.set_title(f"{self}: {len(latency_us)} reads")
        return axes

    def __str__(self) -> str:
        rows = "" if self.whole else f"[{self.first}:{self.first + len(self)}]"
        return f"{self.label or self.name}{rows}"

    def __repr__(self) -> str:
        return f"<IoTable {self}: {len(self)} I/Os>"

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``, one row per I/O.

        In columns such as ``hist_latency_us_1``, 1 is the most recent read.
        """
        with needs("a data frame needs pandas", "pandas"):
            import pandas as pd
        columns: dict[str, Any] = {}
        for name in COLUMNS:
            array = getattr(self, name)
            if array.ndim == 1:
                columns[name] = array
            else:
                for ago in range(1, array.shape[1] + 1):
                    columns[f"{name}_{ago}"] = array[:, -ago]
        return pd.DataFrame(
            columns | {"is_read": self.is_read, "is_served_read": self.is_served_read}
        )


class TableReader:
    """Iterate over the I/Os of a table in the chunks in which they were read.

    If `overdue_us` is given, their features say how many reads are in flight for longer.
    """

    def __init__(self, table: IoTable, overdue_us: int | None = None) -> None:
        self.stats = table.stats
        self._table = table
        self._overdue_us = overdue_us

    @property
    def size_bytes(self) -> int:
        """Total size of the recording's files in bytes."""
        return self.stats["bytes"]

    def __iter__(self) -> Iterator[IoChunk]:
        start = 0
        overdue = self._table.overdue(self._overdue_us)
        for end in self._table.chunk_ends:
            chunk = self._table.take(slice(start, end))
            features = None
            if overdue is not None and chunk.features is not None:
                features = chunk.features.copy()
                features[:, OVERDUE] = overdue[start:end]
            yield dataclasses.replace(chunk, features=features)
            start = end
