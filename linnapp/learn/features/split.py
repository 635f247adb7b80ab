# SPDX-License-Identifier: MIT
"""A trace's reads in three parts, in order of time: to train on, to choose by, to judge on."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from linnapp.errors import TraceError

#: Of fewer reads nothing is learnt, by either kind of model.
LEAST_READS = 128


class Shares(Protocol):
    """How much of the reads is kept from training."""

    @property
    def validation_share(self) -> float:
        """Of all, what comes before the test's."""

    @property
    def test_share(self) -> float:
        """Of all, the end."""


@dataclasses.dataclass(frozen=True)
class Split:
    """Three parts of a trace's reads, in order of time."""

    training: slice
    validation: slice
    test: slice


def split(n: int, options: Shares) -> Split:
    """Split `n` reads: what is trained on, then what chooses, then what only judges."""
    first_test = n - max(1, round(n * options.test_share))
    first_validation = first_test - max(1, round(n * options.validation_share))
    return Split(
        slice(0, max(0, first_validation)),
        slice(max(0, first_validation), first_test),
        slice(first_test, n),
    )


def check_enough(n_reads: int) -> None:
    """Refuse to learn from next to nothing."""
    if n_reads < LEAST_READS:
        raise TraceError(
            f"{n_reads} reads are too few to learn from: at least {LEAST_READS} are needed, some "
            "ten thousand make a useful model; record longer"
        )
