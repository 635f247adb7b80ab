# SPDX-License-Identifier: MIT
"""List all seeds of the evaluation.

Parameters and defaults were chosen on development seeds alone (`python -m eval --dev`). Results use
the evaluation seeds. Each seed reserves a block of ten: drive k of an array uses seed + k.
"""

from __future__ import annotations

#: The maximum number of drives of a seed.
BLOCK = 10

#: Seeds of the repeats of an experiment during development.
DEVELOPMENT = (1010, 1020, 1030, 1040, 1050)

#: Seeds of the repeats whose results are reported.
EVALUATION = (2010, 2020, 2030, 2040, 2050)


def repeats(development: bool, n: int | None = None) -> tuple[int, ...]:
    """Return the seeds of the repeats of an experiment: all, or the first `n`."""
    return (DEVELOPMENT if development else EVALUATION)[:n]
