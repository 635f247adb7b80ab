# SPDX-License-Identifier: MIT
"""Split a trace's reads, in order of time, into parts for training, validation and testing."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from linnapp.errors import TraceError

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
    """Three consecutive parts of a trace's reads, in order of time."""

    training: slice
    validation: slice
    test: slice


def split(n: int, options: Shares) -> Split:
    """Split `n` reads into parts for training, for validation and for testing only."""
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
            f"{n_reads} reads are too few to learn from: at least {LEAST_READS} are needed, some "
            "ten thousand make a useful model; record longer"
        )
