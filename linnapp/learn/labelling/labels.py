# SPDX-License-Identifier: MIT
"""Which reads a network is taught to call slow.

``paper``: those beyond the drive's inflection point. ``avoidable``: those that moreover took longer
than a replica would typically have taken for a read of the same size, failover included. A failover
repeats the same read, so one that is slow only because it is large gains nothing by it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linnapp.learn.labelling.inflection import size_classes

Labels = Literal["avoidable", "paper"]
LABELS: tuple[Labels, ...] = ("avoidable", "paper")

#: classes of up to 2**16 pages; more than any read
_N_CLASSES = 17


@dataclasses.dataclass(frozen=True)
class SlowLimits:
    """The latency beyond which a read is taught as slow, by its size class."""

    #: float array, shape (17,); by :func:`~linnapp.learn.labelling.inflection.size_classes`.
    limit_us: npt.NDArray[np.float64]

    @classmethod
    def of_paper(cls, threshold_us: int) -> SlowLimits:
        """One limit for all sizes: the inflection point."""
        return cls(np.full(_N_CLASSES, float(threshold_us)))

    @classmethod
    def of_avoidable(
        cls,
        threshold_us: int,
        latency_us: npt.NDArray[Any],
        pages: npt.NDArray[Any],
        failover_us: float,
    ) -> SlowLimits:
        """The inflection point, or the median of the size class plus a failover if that is more."""
        kinds = size_classes(pages)
        limits = np.full(_N_CLASSES, float(threshold_us))
        for kind in np.unique(kinds):
            median_us = float(np.median(latency_us[kinds == kind]))
            limits[kind] = max(float(threshold_us), median_us + failover_us)
        return cls(limits)

    def slow(self, latency_us: npt.NDArray[Any], pages: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Label reads; both arrays have shape (n,)."""
        kinds = np.minimum(size_classes(pages), _N_CLASSES - 1)
        return np.asarray(latency_us > self.limit_us[kinds])
