# SPDX-License-Identifier: MIT
"""Labels: the reads that a network is trained to classify as slow.

``paper``: reads beyond the drive's inflection point. ``avoidable``: only those that also took
longer than a replica would typically take for a read of the same size, including the failover. A
failover repeats the same read, so a read that is slow only because it is large gains nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linnapp.learn.labelling.inflection import size_classes

Labels = Literal["avoidable", "paper"]
LABELS: tuple[Labels, ...] = ("avoidable", "paper")

#: Classes of up to 2**16 pages, which is more than any read.
_N_CLASSES = 17


@dataclasses.dataclass(frozen=True)
class SlowLimits:
    """The latency beyond which a read is labelled slow, by size class."""

    #: float array, shape (17,). Indexed by
    #: :func:`~linnapp.learn.labelling.inflection.size_classes`.
    limit_us: npt.NDArray[np.float64]

    @classmethod
    def of_paper(cls, threshold_us: int) -> SlowLimits:
        """Use one limit, the inflection point, for all sizes."""
        return cls(np.full(_N_CLASSES, float(threshold_us)))

    @classmethod
    def of_avoidable(
        cls,
        threshold_us: int,
        latency_us: npt.NDArray[Any],
        pages: npt.NDArray[Any],
        failover_us: float,
    ) -> SlowLimits:
        """Use the inflection point, or the median of the size class plus a failover if higher."""
        kinds = size_classes(pages)
        limits = np.full(_N_CLASSES, float(threshold_us))
        for kind in np.unique(kinds):
            median_us = float(np.median(latency_us[kinds == kind]))
            limits[kind] = max(float(threshold_us), median_us + failover_us)
        return cls(limits)

    def slow(self, latency_us: npt.NDArray[Any], pages: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return true for slow reads. Both arrays have shape (n,)."""
        kinds = np.minimum(size_classes(pages), _N_CLASSES - 1)
        return np.asarray(latency_us > self.limit_us[kinds])
