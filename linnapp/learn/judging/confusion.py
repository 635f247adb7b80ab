# SPDX-License-Identifier: MIT
"""How many reads were predicted as they were, and how many not."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Counts of reads by truth and prediction.

    Attributes
    ----------
    true_fast, true_slow : int
        Predicted as they were.
    false_submit : int
        Slow, predicted fast: submitted to a busy drive.
    false_revoke : int
        Fast, predicted slow: revoked for nothing.
    """

    true_fast: int
    true_slow: int
    false_submit: int
    false_revoke: int

    @classmethod
    def of(cls, slow: npt.NDArray[np.bool_], predicted: npt.NDArray[np.bool_]) -> Confusion:
        """Count; both arrays have shape (n,)."""
        return cls(
            true_fast=int(np.count_nonzero(~slow & ~predicted)),
            true_slow=int(np.count_nonzero(slow & predicted)),
            false_submit=int(np.count_nonzero(slow & ~predicted)),
            false_revoke=int(np.count_nonzero(~slow & predicted)),
        )

    @property
    def total(self) -> int:
        """All reads."""
        return self.true_fast + self.true_slow + self.false_submit + self.false_revoke

    @property
    def accuracy(self) -> float | None:
        """Share of reads predicted as they were; None without reads."""
        return (self.true_fast + self.true_slow) / self.total if self.total else None

    @property
    def false_submit_ratio(self) -> float | None:
        """False submits per read (the paper's rate); None without reads."""
        return self.false_submit / self.total if self.total else None

    @property
    def false_revoke_ratio(self) -> float | None:
        """False revokes per read; None without reads."""
        return self.false_revoke / self.total if self.total else None

    @property
    def slow_recall(self) -> float | None:
        """Share of slow reads that were predicted; None without slow reads."""
        slow = self.true_slow + self.false_submit
        return self.true_slow / slow if slow else None

    def to_json(self) -> dict[str, float | None]:
        """Counts and ratios by name."""
        ratios = ("accuracy", "false_submit_ratio", "false_revoke_ratio", "slow_recall")
        return dataclasses.asdict(self) | {name: getattr(self, name) for name in ratios}
