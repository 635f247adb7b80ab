# SPDX-License-Identifier: MIT
"""Base class for arrays with a row per I/O, from which rows can be selected and joined."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class Rows:
    """Fields that are arrays have a row for each I/O. Other fields apply to all rows."""

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
