# SPDX-License-Identifier: MIT
"""The prior: trees that describe a drive before its own reads are sufficient for training.

The trees were trained on many emulated drives (``eval/prior.py``), whose times were scaled so that
the median read of each took :data:`UNIT_US`. A few tens of reads suffice to estimate the median of
another drive. The time thresholds and predictions of the prior are multiplied by this median, which
gives a model of that drive.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.files import shipped_folder
from linnapp.model import CAP, FEATURES, FRACTION_BITS, LEAF_LIMIT, LatencyModel

#: Folder of the prior that is part of the project.
FOLDER = shipped_folder("prior", "models/prior")
NAME = "prior"

#: Latency of the prior's median read in us. Times in the prior therefore have eight fractional
#: bits, and the longest time is 65,536 times the median.
UNIT_US = 256

#: Maximum size in pages of the reads whose median is used. They form one size class, like those of
#: a history (docs/formats.md).
SMALL_PAGES = 16
#: If there are fewer small reads, the median of all reads is used.
LEAST_SMALL = 20

#: Columns of features that are times.
TIMES = tuple(at for at, name in enumerate(FEATURES) if "_us" in name)


def median_us(latency_us: npt.NDArray[Any], pages: npt.NDArray[Any]) -> float:
    """Return a drive's unit of time: the median latency of its small, or of all, reads in us."""
    small = latency_us[pages <= SMALL_PAGES]
    return max(1.0, float(np.median(small if len(small) >= LEAST_SMALL else latency_us)))


def in_units(features: npt.NDArray[np.uint32], unit_us: float) -> npt.NDArray[np.uint32]:
    """Scale the features as if the drive's median read took `UNIT_US`. "Never" stays unchanged."""
    scaled = features.copy()
    for at in TIMES:
        times = np.minimum(features[:, at] * (UNIT_US / unit_us), CAP - 1)
        scaled[:, at] = np.where(features[:, at] < CAP, times, CAP)
    return scaled


def scale_to_drive(prior: LatencyModel, unit_us: float) -> LatencyModel:
    """Return the prior as a model of a drive whose median read takes `unit_us`."""
    place, limit = prior.splits >> 24, prior.splits & np.uint32(CAP)
    # An integer exceeds a limit if and only if it exceeds the integer part of the limit.
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
    """Load the prior that is part of the project."""
    return LatencyModel.load(FOLDER / f"{NAME}.linnos")


def begins_with_prior(model: LatencyModel) -> bool:
    """Return true if a drive's model begins with the prior in units of that drive."""
    theirs = shipped().leaves
    return np.array_equal(model.leaves[: len(theirs)], theirs)
