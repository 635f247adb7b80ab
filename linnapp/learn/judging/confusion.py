# SPDX-License-Identifier: MIT
"""Confusion matrix: the number of reads that were predicted correctly and incorrectly."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Number of reads by actual and predicted class.

    Attributes
    ----------
    true_fast, true_slow : int
        Correctly predicted reads.
    false_submit : int
        Slow reads that were predicted fast, and therefore submitted to a busy drive.
    false_revoke : int
        Fast reads that were predicted slow, and therefore revoked needlessly.
    """

    true_fast: int
    true_slow: int
    false_submit: int
    false_revoke: int

    @classmethod
    def of(cls, slow: npt.NDArray[np.bool_], predicted: npt.NDArray[np.bool_]) -> Confusion:
        """Count the reads. Both arrays have shape (n,)."""
        return cls(
            true_fast=int(np.count_nonzero(~slow & ~predicted)),
            true_slow=int(np.count_nonzero(slow & predicted)),
            false_submit=int(np.count_nonzero(slow & ~predicted)),
            false_revoke=int(np.count_nonzero(~slow & predicted)),
        )

    @property
    def total(self) -> int:
        """Number of all reads."""
        return self.true_fast + self.true_slow + self.false_submit + self.false_revoke

    @property
    def accuracy(self) -> float | None:
        """Share of correctly predicted reads, or None without reads."""
        return (self.true_fast + self.true_slow) / self.total if self.total else None

    @property
    def false_submit_ratio(self) -> float | None:
        """False submits per read (the rate that the paper uses), or None without reads."""
        return self.false_submit / self.total if self.total else None

    @property
    def false_revoke_ratio(self) -> float | None:
        """False revokes per read, or None without reads."""
        return self.false_revoke / self.total if self.total else None

    @property
    def slow_recall(self) -> float | None:
        """Share of slow reads that were predicted slow, or None without slow reads."""
        slow = self.true_slow + self.false_submit
        return self.true_slow / slow if slow else None

    def to_json(self) -> dict[str, float | None]:
        """Return the counts and ratios by name."""
        ratios = ("accuracy", "false_submit_ratio", "false_revoke_ratio", "slow_recall")
        return dataclasses.asdict(self) | {name: getattr(self, name) for name in ratios}
