# SPDX-License-Identifier: MIT
"""Choose the score above which reads are refused, so that most fast reads are admitted.

A model of either kind assigns a score to each read: the network its margin (output for slow minus
output for fast), a latency model the predicted latency in us. Reads with a score above a threshold
(`cut`) are refused. A threshold is evaluated on reads that are later than the training data, by the
array's expected mean latency (:mod:`linnapp.learn.network.bias`), in which a refused fast read
costs a failover and a refused slow read can save milliseconds. The benefit must also be
statistically significant, because the best of many thresholds has some benefit on almost any reads
(:mod:`linnapp.learn.judging.chance`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import NoGainError
from linnapp.learn.judging.chance import FLAT, Refusals, expected_mean_us
from linnapp.trace.rows import Rows

#: Maximum share of the fast reads of the training slice and of the validation slice that is
#: refused, by kind of model. The share of later reads can be larger.
MAX_REFUSED_FAST = {"network": 0.15, "latency": 0.10}

#: Number of scores that are tried as the threshold.
_CANDIDATES = 64

#: A network that refuses at most this share of the reads is harmless, whatever its quality.
SELDOM = 0.001

#: Advice for a model that refuses no reads.
REMEDY = "record longer, under the load that the drive is slow under"


@dataclasses.dataclass(frozen=True)
class ScoredReads(Rows):
    """Reads and their predicted slowness."""

    #: integer array, shape (n,).
    score: npt.NDArray[np.integer[Any]]
    #: uint32 array, shape (n,).
    latency_us: npt.NDArray[np.uint32]
    #: array, shape (n,). Sizes in pages of 4 KiB.
    pages: npt.NDArray[Any]
    #: The inflection point: reads that take longer are slow.
    threshold_us: int
    #: Cost of a failover in us.
    failover_us: float
    #: Number of drives that hold each block.
    replicas: int

    @property
    def fast(self) -> npt.NDArray[np.bool_]:
        """True for reads that took no longer than the inflection point."""
        return np.asarray(self.latency_us <= self.threshold_us)

    def refused(self, cut: int | None) -> npt.NDArray[np.bool_]:
        """Return which reads have a score above `cut`. None means that no read is refused."""
        if cut is None:
            return np.zeros(len(self.score), np.bool_)
        return np.asarray(self.score > cut)

    def mean_us(self, cut: int | None) -> float:
        """Return the array's expected mean latency in us with this threshold."""
        return expected_mean_us(
            self.latency_us,
            self.refused(cut),
            failover_us=self.failover_us,
            replicas=self.replicas,
            pages=np.minimum(self.pages, 65535).astype(np.uint16),
        )

    def refuses_almost_nothing(self, cut: int) -> bool:
        """Return true if a threshold refuses almost no reads."""
        return bool(self.refused(cut).mean() <= SELDOM)

    def refused_fast_share(self, cut: int | None) -> float:
        """Return the share of the fast reads that is refused, or 0 if there are no fast reads."""
        fast = self.fast
        return float(self.refused(cut)[fast].mean()) if fast.any() else 0.0

    def min_threshold(self, max_refused: float) -> int:
        """Return the lowest threshold that refuses at most this share of the fast reads."""
        fast = self.score[self.fast]
        if not len(fast):
            return int(self.score.min())
        return int(np.percentile(fast, 100 * (1 - max_refused), method="higher"))

    def best_threshold(self, at_least: int, *, prefer_min_threshold: bool = False) -> int | None:
        """Return the threshold with the lowest expected mean, or None if it is not significant.

        Parameters
        ----------
        at_least : int
            Minimum of the threshold.
        prefer_min_threshold : bool
            Return `at_least` itself if its gain is significant.
        """
        shares = np.linspace(0, 100, _CANDIDATES)
        tried = np.maximum(np.percentile(self.score, shares, method="lower"), at_least)
        cuts = np.unique(np.append(tried, at_least).astype(np.int64))
        refusals = Refusals(
            self.latency_us,
            self.pages,
            np.searchsorted(cuts, self.score),
            len(cuts),
            self.failover_us,
            self.replicas,
        )
        best = int(np.argmin(refusals.means_us()[1:]))
        for way in (0, best) if prefer_min_threshold else (best,):
            if refusals.is_significant(way):
                return int(cuts[way])
        return None

    def quality(self, cut: int | None) -> dict[str, float]:
        """Return the metrics of a threshold and of admitting every read.

        A read is slow if it takes longer than the inflection point.
        """
        fast, refused = self.fast, self.refused(cut)
        return {
            "mean_us": self.mean_us(cut),
            "always_fast_mean_us": self.mean_us(None),
            "accuracy": float(np.mean(fast != refused)),
            "always_fast_accuracy": float(np.mean(fast)),
            "false_revoke_share": self.refused_fast_share(cut),
        }


def choose_margin(
    taught: ScoredReads, judged: ScoredReads, max_refused: float, *, even_if_worse: bool = False
) -> int:
    """Choose the margin of slow over fast above which a network refuses a read.

    Parameters
    ----------
    taught, judged : ScoredReads
        The training and the validation slice, scored by the network as trained, which refuses reads
        with a score above 0.
    max_refused : float
        Maximum share of the fast reads of either slice that may be refused. 1 means no limit.
    even_if_worse : bool
        Consider only this limit, not the gain.

    Returns
    -------
    int
        0 if the network as trained obeys the limit and either lowers the array's expected mean on
        the validation slice significantly or refuses almost no reads there. Otherwise the smallest
        margin that obeys the limit if it lowers the mean significantly, or a larger one with the
        lowest mean.

    Raises
    ------
    NoGainError
        If no margin has a significantly lower mean than admitting every read.
    """
    both = (taught, judged)
    least = 0
    if max(reads.refused_fast_share(0) for reads in both) > max_refused:
        least = max(0, *(reads.min_threshold(max_refused) for reads in both))
    if even_if_worse:
        return least
    cut = judged.best_threshold(least, prefer_min_threshold=True)
    if cut is not None:
        return cut
    figures = judged.quality(least)
    harmless = not least and figures["mean_us"] <= FLAT * figures["always_fast_mean_us"]
    # A network that was trained with synthetic bursts may refuse almost nothing in a recording
    # without bursts. It is accepted if it has a benefit on the training slice.
    if (
        harmless
        and judged.refuses_almost_nothing(0)
        and (
            taught.refuses_almost_nothing(0)
            or taught.best_threshold(0, prefer_min_threshold=True) == 0
        )
    ):
        return 0
    raise NoGainError(
        "no model is better than admitting every read, beyond chance: on the validation slice the "
        f"array's mean read would take {figures['mean_us']:.1f} us with what was learnt, "
        f"{figures['always_fast_mean_us']:.1f} us if no read were refused; accuracy "
        f"{figures['accuracy']:.2%}, of predicting all fast {figures['always_fast_accuracy']:.2%}, "
        f"and {figures['false_revoke_share']:.1%} of the fast reads refused. Record longer, under "
        "the load that the drive is slow under; `kind='latency'` may learn more from it; or "
        "insist with `even_if_worse=True`"
    )
