# SPDX-License-Identifier: MIT
"""Arrays with a row for each I/O, of which rows are taken and which are joined."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class Rows:
    """Fields that are arrays have a row for each I/O, the others are of all."""

    def _columns(self) -> list[str]:
        fields = (field.name for field in dataclasses.fields(self))
        return [name for name in fields if isinstance(getattr(self, name), np.ndarray)]

    def __len__(self) -> int:
        return len(getattr(self, self._columns()[0]))

    def each(self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Self:
        """With every array changed alike."""
        changed = {name: change(getattr(self, name)) for name in self._columns()}
        return dataclasses.replace(self, **changed)

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp] | slice) -> Self:
        """The I/Os that `rows` selects."""
        return self.each(lambda column: column[rows])

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """One of several; what is of all is as in the first."""
        first, *others = parts
        names = first._columns()
        columns = {n: [getattr(part, n) for part in (first, *others)] for n in names}
        return dataclasses.replace(first, **{n: np.concatenate(columns[n]) for n in names})
