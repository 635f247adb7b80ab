# SPDX-License-Identifier: MIT
"""Beyond which score reads are refused: so that it pays, and that most fast reads are spared.

A model of either kind gives a read a score: the network by how much its output for slow is above
that for fast, a latency model the microseconds. Reads with a score above a cut are refused. What a
cut is worth is judged on later reads than were learnt from, by the array's expected mean latency
(:mod:`linnapp.learn.network.bias`), in which a fast read refused costs a failover and a slow one
saved may gain milliseconds. And it is to be no accident: the best of many cuts gains something on
nearly all reads (:mod:`linnapp.learn.judging.chance`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import NoGainError
from linnapp.learn.judging.chance import FLAT, Refusals, expected_mean_us
from linnapp.trace.rows import Rows

#: At most so many of the fast reads of the training slice and of the validation slice are refused,
#: by the kind of the model. Of later ones it may be more.
MAX_REFUSED_FAST = {"network": 0.15, "latency": 0.10}

#: scores that are tried as the one beyond which reads are refused
_CANDIDATES = 64

#: A network that refuses no more of the reads than this does no harm, whatever it knows.
SELDOM = 0.001

#: What to do about a model that refuses nothing.
REMEDY = "record longer, under the load that the drive is slow under"


@dataclasses.dataclass(frozen=True)
class ScoredReads(Rows):
    """Reads, and how slow a model takes them to be."""

    #: integer array, shape (n,)
    score: npt.NDArray[np.integer[Any]]
    #: uint32 array, shape (n,)
    latency_us: npt.NDArray[np.uint32]
    #: array, shape (n,); sizes.
    pages: npt.NDArray[Any]
    #: The inflection point: reads that take longer are slow.
    threshold_us: int
    #: Cost of a failover.
    failover_us: float
    #: Drives that hold each block.
    replicas: int

    @property
    def fast(self) -> npt.NDArray[np.bool_]:
        """Which took no longer than the inflection point."""
        return np.asarray(self.latency_us <= self.threshold_us)

    def refused(self, cut: int | None) -> npt.NDArray[np.bool_]:
        """Which have a score above the cut; none without one."""
        if cut is None:
            return np.zeros(len(self.score), np.bool_)
        return np.asarray(self.score > cut)

    def mean_us(self, cut: int | None) -> float:
        """The array's expected mean latency with this cut."""
        return expected_mean_us(
            self.latency_us,
            self.refused(cut),
            failover_us=self.failover_us,
            replicas=self.replicas,
            pages=np.minimum(self.pages, 65535).astype(np.uint16),
        )

    def refuses_almost_nothing(self, cut: int) -> bool:
        """Whether a cut refuses next to nothing."""
        return bool(self.refused(cut).mean() <= SELDOM)

    def refused_fast_share(self, cut: int | None) -> float:
        """Which share of the fast reads a cut refuses; 0 of none."""
        fast = self.fast
        return float(self.refused(cut)[fast].mean()) if fast.any() else 0.0

    def min_threshold(self, max_refused: float) -> int:
        """The lowest score as a cut that refuses at most this share of the fast reads."""
        fast = self.score[self.fast]
        if not len(fast):
            return int(self.score.min())
        return int(np.percentile(fast, 100 * (1 - max_refused), method="higher"))

    def best_threshold(self, at_least: int, *, prefer_min_threshold: bool = False) -> int | None:
        """The cut from `at_least` on with the lowest expected mean; None if that may be chance.

        With `prefer_min_threshold`, `at_least` itself if what that gains is no chance.
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
        """What a cut does, beside admitting every read; slow is what is beyond the point."""
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
    """By how much a network's output for slow must be above that for fast to refuse a read.

    Parameters
    ----------
    taught, judged : ScoredReads
        Of the training and of the validation slice, scored by the network as it was trained, which
        refuses what has a score above 0.
    max_refused : float
        Share of the fast reads of either that may be refused; 1 is no limit.
    even_if_worse : bool
        The limit is all that is asked for.

    Returns
    -------
    int
        0 if the network obeys the limit as it was trained, and lowers the array's expected mean on
        the validation slice by more than chance, or refuses next to nothing there. Else the least
        that obeys the limit, if the mean is then lower by more than chance, or a larger one with
        which it is the lowest.

    Raises
    ------
    NoGainError
        If none has a mean that is below that of admitting every read by more than chance.
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
    # One that was taught by added bursts may do next to nothing in a calm recording. What it does
    # elsewhere, in reads that taught it, is to be worth it.
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
