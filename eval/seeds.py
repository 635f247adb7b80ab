# SPDX-License-Identifier: MIT
"""Every seed of the evaluation.

Parameters and defaults were chosen while looking at runs with the development
seeds only (`python -m eval --dev`); the evaluation seeds are for the results.
A seed stands for a block of ten: drive k of an array takes seed + k.
"""

from __future__ import annotations

#: Drives that one seed may number.
BLOCK = 10

#: Repeats of an experiment while it is being developed.
DEVELOPMENT = (1010, 1020, 1030, 1040, 1050)

#: Repeats of an experiment whose results are reported.
EVALUATION = (2010, 2020, 2030, 2040, 2050)


def repeats(development: bool, n: int | None = None) -> tuple[int, ...]:
    """Return the seeds of the repeats of an experiment: all, or the first `n`."""
    return (DEVELOPMENT if development else EVALUATION)[:n]
