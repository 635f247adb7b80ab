# SPDX-License-Identifier: MIT
"""Whether two means differ by more than chance: what blocks of time hold is drawn anew.

Neighbours in time are alike, so blocks of time are resampled, not I/Os or calls.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

#: With fewer blocks nothing is said of chance; of a long recording as many, and longer ones.
MIN_BLOCKS, MAX_BLOCKS = 10, 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """Of two means, in us."""

    #: By how much the second is longer.
    us: float
    #: `low_us`, `high_us`: its interval; None where there were too few blocks of time.
    low_us: float | None
    high_us: float | None

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the interval leaves out zero."""
        low_us, high_us = self.low_us, self.high_us
        return low_us is not None and high_us is not None and (low_us > 0 or high_us < 0)


def resampled_means(
    blocks: npt.NDArray[np.float64], seed: int, resamples: int
) -> npt.NDArray[np.float64]:
    """Means of what blocks of time hold, the blocks drawn anew again and again.

    Columns are how many there are in each block, at least one, then sums over them.
    """
    n = len(blocks)
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), resamples)
    sums = drawn @ blocks
    return np.asarray(sums[:, 1:] / sums[:, :1])
