# SPDX-License-Identifier: MIT
"""Distribution of read latencies that the kernel counts in ``latency_us_histogram``.

There are four buckets for each doubling of the latency; see docs/ABI-sysfs-block-linnos.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

N_BUCKETS = 88


def _lowest_us(bucket: int) -> int:
    # The first bucket contains all latencies of less than 4 us.
    doubling, quarter = divmod(bucket + 3, 4)
    return (4 + quarter) << (doubling - 1) if bucket else 0


#: Lower bound of each bucket, which is the upper bound of the one before. The last has no upper
#: bound.
LOWEST_US = tuple(map(_lowest_us, range(N_BUCKETS)))

#: Latency assumed for the reads of a bucket: the geometric mean of its bounds, with an error of at
#: most 12 %. In the first bucket, the error is unknown; for the last, it is the lower bound.
MIDDLE_US = (
    2.0,
    *(math.sqrt(a * b) for a, b in itertools.pairwise(LOWEST_US[1:])),
    float(LOWEST_US[-1]),
)


def percentile_us(counts: Sequence[int], percent: float) -> float | None:
    """Return a percentile of the latencies in us, within 12 %, or None without reads.

    `counts` are the numbers of reads in the `N_BUCKETS` buckets, or empty without reads.
    """
    rank = math.ceil(sum(counts) * percent / 100)
    if not rank:
        return None
    up_to = zip(itertools.accumulate(counts), MIDDLE_US, strict=True)
    return next(us for n_reads, us in up_to if n_reads >= rank)
