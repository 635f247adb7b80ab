# SPDX-License-Identifier: MIT
"""Tables with a row for each I/O, and the split of a trace's reads into three slices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError


@dataclasses.dataclass(frozen=True)
class Rows:
    """Base class of tables: fields that are arrays have a row for each I/O, others are shared."""

    def _columns(self) -> list[str]:
        fields = (field.name for field in dataclasses.fields(self))
        return [name for name in fields if isinstance(getattr(self, name), np.ndarray)]

    def __len__(self) -> int:
        return len(getattr(self, self._columns()[0]))

    def each(self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Self:
        """Return a copy in which `change` was applied to every array."""
        changed = {name: change(getattr(self, name)) for name in self._columns()}
        return dataclasses.replace(self, **changed)

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp] | slice) -> Self:
        """Return the I/Os that `rows` selects."""
        return self.each(lambda column: column[rows])

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """Concatenate several instances. Fields that are not arrays are taken from the first."""
        first, *others = parts
        names = first._columns()
        columns = {n: [getattr(part, n) for part in (first, *others)] for n in names}
        return dataclasses.replace(first, **{n: np.concatenate(columns[n]) for n in names})


#: Minimum number of reads from which a model of either kind can be trained.
LEAST_READS = 128


class Shares(Protocol):
    """Shares of the reads that are not used for training."""

    @property
    def validation_share(self) -> float:
        """Share of all reads that precedes the test part."""

    @property
    def test_share(self) -> float:
        """Share of all reads at the end."""


@dataclasses.dataclass(frozen=True)
class Split:
    """Three consecutive slices of a trace's reads, in order of time."""

    training: slice
    validation: slice
    test: slice


def split(n: int, options: Shares) -> Split:
    """Split `n` reads into slices for training, for validation and for testing."""
    first_test = n - max(1, round(n * options.test_share))
    first_validation = first_test - max(1, round(n * options.validation_share))
    return Split(
        slice(0, max(0, first_validation)),
        slice(max(0, first_validation), first_test),
        slice(first_test, n),
    )


def check_enough(n_reads: int) -> None:
    """Raise TraceError if there are too few reads to train on."""
    if n_reads < LEAST_READS:
        raise TraceError(
            f"{n_reads} reads are too few to learn from: at least {LEAST_READS} are needed, and "
            "some ten thousand for a useful model; record longer"
        )
