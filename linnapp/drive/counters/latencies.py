# SPDX-License-Identifier: MIT
"""How long reads took, as the kernel counts them: four buckets to a doubling.

The buckets of ``latency_us_histogram`` (docs/ABI-sysfs-block-linnos).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

N_BUCKETS = 88


def _lowest_us(bucket: int) -> int:
    # The first has all below 4 us.
    doubling, quarter = divmod(bucket + 3, 4)
    return (4 + quarter) << (doubling - 1) if bucket else 0


#: where each bucket begins; it ends where the next one does, the last one nowhere
LOWEST_US = tuple(map(_lowest_us, range(N_BUCKETS)))

#: What a read of each bucket is taken to have been: as many times more than the least as the most
#: is more than it, and so wrong by 12 % at most. Below 4 us nobody knows; of the last the least.
MIDDLE_US = (
    2.0,
    *(math.sqrt(a * b) for a, b in itertools.pairwise(LOWEST_US[1:])),
    float(LOWEST_US[-1]),
)


def percentile_us(counts: Sequence[int], percent: float) -> float | None:
    """The latency that so many percent of the reads do not exceed, within 12 %; None without reads.

    `counts` are of the reads in each of `N_BUCKETS` buckets; empty: of none.
    """
    rank = math.ceil(sum(counts) * percent / 100)
    if not rank:
        return None
    below = zip(itertools.accumulate(counts), MIDDLE_US, strict=True)
    return next(us for reads, us in below if reads >= rank)
