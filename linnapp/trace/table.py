# SPDX-License-Identifier: MIT
"""A recording in memory: its I/Os as a table of arrays, to look at and to compute with.

What takes a recording takes such a table in the place of a path and goes through it in the same
chunks, so that the results are the same. A table needs some 70 bytes an I/O; where that is too
much, give the path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from linnapp.errors import needs
from linnapp.trace.blktrace import COLUMNS, IoChunk, TraceStats


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class IoTable(IoChunk):
    """All I/Os of a recording: the columns of :class:`~linnapp.trace.blktrace.IoChunk`.

    Attributes
    ----------
    name : str
        The recording's file name.
    files : tuple of str
        Names of all its files.
    sha256 : str
        Over their contents, in order.
    stats : TraceStats
    chunk_ends : tuple of int
        Where each chunk that was read ends.
    reader : reader
        What it was read with.
    """

    name: str
    files: tuple[str, ...]
    sha256: str
    stats: TraceStats
    chunk_ends: tuple[int, ...]
    reader: object

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<IoTable {self.name}: {len(self)} I/Os>"

    def to_pandas(self) -> Any:
        """As a ``pandas.DataFrame``, a row per I/O; ``hist_latency_us_1`` is the latest read's.

        Raises
        ------
        LinnappError
            If pandas is not installed.
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
    """Iterates over a table's I/Os in the chunks in which they were read.

    Parameters
    ----------
    table : IoTable
    """

    def __init__(self, table: IoTable) -> None:
        self.stats = table.stats
        self._table = table

    @property
    def size_bytes(self) -> int:
        """Bytes of the recording's files."""
        return self.stats["bytes"]

    def __iter__(self) -> Iterator[IoChunk]:
        start = 0
        for end in self._table.chunk_ends:
            yield self._table.take(slice(start, end))
            start = end
