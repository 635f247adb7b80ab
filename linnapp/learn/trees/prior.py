# SPDX-License-Identifier: MIT
"""The prior: what trees know of a drive before its own reads have taught any.

They were grown from many emulated drives (``eval/prior.py``), each as if its median read took
:data:`UNIT_US`. A drive's own median, of which some tens of reads tell enough, turns the prior into
a model of that drive: limits on times, and what is predicted, are multiplied by it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.model.latency_model import CAP, FEATURES, FRACTION_BITS, LEAF_LIMIT, LatencyModel

_PACKAGE = Path(__file__).resolve().parents[2]
_SHIPPED = _PACKAGE / "prior"
#: in an installed package within it, in a checkout beside it
FOLDER = _SHIPPED if _SHIPPED.is_dir() else _PACKAGE.parent / "models" / "prior"
NAME = "prior"

#: What the prior's median read takes. Times in it have eight bits behind the point, and the longest
#: is 65,536 times the median.
UNIT_US = 256

#: Of these reads the median is: of one order of size, as a history's are (docs/formats.md).
SMALL_PAGES = 16
#: Of fewer, it is that of all reads.
LEAST_SMALL = 20

#: Features that are times.
TIMES = tuple(at for at, name in enumerate(FEATURES) if "_us" in name)


def median_us(latency_us: npt.NDArray[Any], pages: npt.NDArray[Any]) -> float:
    """The unit of a drive that served these reads."""
    small = latency_us[pages <= SMALL_PAGES]
    return max(1.0, float(np.median(small if len(small) >= LEAST_SMALL else latency_us)))


def in_units(features: npt.NDArray[np.uint32], unit_us: float) -> npt.NDArray[np.uint32]:
    """Features of a drive as if its median read took `UNIT_US`; what has never been stays so."""
    scaled = features.copy()
    for at in TIMES:
        times = np.minimum(features[:, at] * (UNIT_US / unit_us), CAP - 1)
        scaled[:, at] = np.where(features[:, at] < CAP, times, CAP)
    return scaled


def of_drive(prior: LatencyModel, unit_us: float) -> LatencyModel:
    """The prior as a model of a drive whose median read takes `unit_us`."""
    place, limit = prior.splits >> 24, prior.splits & np.uint32(CAP)
    # A whole number is above a limit if it is above the whole part of it.
    times = np.minimum(np.floor(limit * (unit_us / UNIT_US)), CAP - 1).astype(np.uint32)
    is_time = np.isin(place, TIMES) & (limit < CAP - 1)
    shift = round(math.log2(unit_us / UNIT_US) * (1 << FRACTION_BITS))
    return dataclasses.replace(
        prior,
        splits=(place << 24 | np.where(is_time, times, limit)).astype(np.uint32),
        base=max(-LEAF_LIMIT, min(prior.base + shift, LEAF_LIMIT - 1)),
    )


@functools.cache
def shipped() -> LatencyModel:
    """The one that comes with the project."""
    return LatencyModel.load(FOLDER / f"{NAME}.linnos")


def is_of_prior(model: LatencyModel) -> bool:
    """Whether a drive's model begins with the prior in that drive's units."""
    theirs = shipped().leaves
    return np.array_equal(model.leaves[: len(theirs)], theirs)
