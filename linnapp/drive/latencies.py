# SPDX-License-Identifier: MIT
"""Distribution of read latencies as counted by the kernel: four buckets per doubling.

The buckets of ``latency_us_histogram`` (docs/ABI-sysfs-block-linnos).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

N_BUCKETS = 88


def _lowest_us(bucket: int) -> int:
    # The first one contains all latencies less than 4 us.
    doubling, quarter = divmod(bucket + 3, 4)
    return (4 + quarter) << (doubling - 1) if bucket else 0


#: lower bound of each bucket; its upper bound is the next one's, the last one has none
LOWEST_US = tuple(map(_lowest_us, range(N_BUCKETS)))

#: Latency assumed for the reads of a bucket: the geometric mean of its bounds, with an error of at
#: most 12 %. In the first bucket, the error is unknown; for the last, it is the lower bound.
MIDDLE_US = (
    2.0,
    *(math.sqrt(a * b) for a, b in itertools.pairwise(LOWEST_US[1:])),
    float(LOWEST_US[-1]),
)


def percentile_us(counts: Sequence[int], percent: float) -> float | None:
    """Return a percentile of the latencies, within 12 %; None if there are no reads.

    `counts` are the numbers of reads in the `N_BUCKETS` buckets; it is empty if there are none.
    """
    rank = math.ceil(sum(counts) * percent / 100)
    if not rank:
        return None
    below = zip(itertools.accumulate(counts), MIDDLE_US, strict=True)
    return next(us for reads, us in below if reads >= rank)
