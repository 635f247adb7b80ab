# SPDX-License-Identifier: MIT
"""Percentiles from the kernel's buckets."""

from __future__ import annotations

import bisect
import math

import numpy as np
import pytest

from linnapp.drive.latencies import LOWEST_US, MIDDLE_US, N_BUCKETS, percentile_us


def kernels_bucket(us: int) -> int:
    """Compute the bucket as linnos_latency_bucket() in blk-linnos-policy.h does."""
    shift = (us | 4).bit_length() - 3
    return min((shift << 2) + (max(us, 3) >> shift) - 3, N_BUCKETS - 1)


def test_buckets_are_the_kernels() -> None:
    # The values of the table in linnos_policy_test.c.
    assert [LOWEST_US[k] for k in (0, 1, 4, 5, 6, 8, 9, 19, 20, 87)] == [
        *(0, 4, 7, 8, 10, 14, 16, 96, 112, 12_582_912)
    ]
    for us in (*range(5000), *(edge + by for edge in LOWEST_US[1:] for by in (-1, 0, 1))):
        assert kernels_bucket(us) == bisect.bisect(LOWEST_US, us) - 1
    ends = (*LOWEST_US[1:], math.inf)
    assert all(a <= us < b for a, us, b in zip(LOWEST_US, MIDDLE_US, ends, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_within_12_percent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    latencies = np.floor(rng.lognormal(5, 1.5, 20_000)).astype(int) + 4
    counts = [0] * N_BUCKETS
    for us in latencies:
        counts[kernels_bucket(int(us))] += 1
    for percent in (1, 50, 90, 99, 99.9, 100):
        truth = np.percentile(latencies, percent, method="inverted_cdf")
        assert percentile_us(counts, percent) == pytest.approx(truth, rel=0.12)


def test_few_reads() -> None:
    assert percentile_us([], 50) is None
    assert percentile_us([0] * N_BUCKETS, 50) is None
    counts = [0] * N_BUCKETS
    counts[0], counts[-1] = 99, 1
    assert (percentile_us(counts, 99), percentile_us(counts, 99.5)) == (2, 12_582_912)
