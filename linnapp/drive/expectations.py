# SPDX-License-Identifier: MIT
"""A drive's expected values from training and its measured values, compared by `linnapp keep`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from linnapp.drive.drives_conf import DriveEntry
from linnapp.drive.latencies import percentile_us
from linnapp.drive.sysfs import Drive
from linnapp.errors import LinnappError
from linnapp.learn.record import SIZES_TO_PAGES

#: Minimum number of reads for a value: a share is then known within 5 percent of the reads.
MIN_READS = 100

#: Minimum number of checks at which a value must exceed its bound, for any window.
MIN_LOOKS = 3

#: Minimum number of reads to find a drive slow; it still receives one of a hundred.
MIN_SERVED = 10

#: Factor and margin by which a share may exceed the expected one.
SHARE_FACTOR, SHARE_MARGIN = 2.0, 0.10

#: Margin by which the error of predictions may exceed the expected one, in powers of two.
ERROR_MARGIN = 1.0

#: md passes over a drive if another drive's prediction is less than this part of the drive's own
#: (BLK_LINNOS_MARGIN_PERCENT).
AVOID_RATIO = 0.75

#: Minimum of the permitted age of the reads of a value, for any window.
_LEAST_OLD_S = 60.0


@dataclasses.dataclass(frozen=True)
class Foreseen:
    """Expectations for future reads from a model's training record."""

    model_id: str
    #: Expected share of refused reads.
    refused: float
    #: Error of the predictions; for a network, the share of slow reads among those classified as
    #: fast.
    off: float
    #: By size class (in pages): share of the reads, and percentiles of the predictions. Empty for
    #: a network.
    predicted_us: Mapping[int, tuple[float, Sequence[int]]]

    @classmethod
    def load(cls, entry: DriveEntry, active: str | None) -> Foreseen:
        """Read the record next to a model; it must belong to the active model and be complete."""
        if entry.model is None:
            raise LinnappError("drives.conf names no model")
        path = entry.model.with_suffix(".json")
        try:
            record = json.loads(path.read_text())
            found = cls._of(record)
        except OSError as error:
            raise LinnappError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
            raise LinnappError(
                f"{path}: does not say what to expect; train anew (linnapp enable, or recalibrate)"
            ) from error
        if found.model_id != active:
            raise LinnappError(
                f"{path} is of model {found.model_id}, and {active or 'none'} is active"
            )
        return found

    @classmethod
    def _of(cls, record: Mapping[str, Any]) -> Foreseen:
        test = record["test"]
        refused = (test["true_slow"] + test["false_revoke"]) / (
            test["true_slow"] + test["false_revoke"] + test["true_fast"] + test["false_submit"]
        )
        if record.get("kind") != "latency":
            called_fast = test["true_fast"] + test["false_submit"]
            let_through = test["false_submit"] / called_fast if called_fast else 0.0
            return cls(str(record["model_id"]), refused, let_through, {})
        predicted = {
            int(size["pages_to"]): (float(size["share"]), [int(us) for us in size["percentiles"]])
            for size in record["predicted_us"]
        }
        error = float(record["mean_abs_log2_error"])
        return cls(str(record["model_id"]), refused, error, predicted)

    @property
    def predicts_us(self) -> bool:
        """True for a latency model."""
        return bool(self.predicted_us)

    def passed_over(self, others: Sequence[Foreseen]) -> float:
        """Share of the reads that should go to another drive, for randomly drawn predictions."""
        if not (self.predicts_us and all(other.predicts_us for other in others)):
            return self.refused
        expected = 0.0
        for pages, (share, percentiles) in self.predicted_us.items():
            elsewhere = 0.0
            for us in percentiles:
                stays = 1.0
                for other in others:
                    theirs = other._like(pages)
                    stays *= sum(AVOID_RATIO * us <= them for them in theirs) / len(theirs)
                elsewhere += 1 - stays
            expected += share * elsewhere / len(percentiles)
        return expected

    def _like(self, pages: int) -> Sequence[int]:
        """Predictions for reads of this size class, or else of the next larger or smaller one."""
        nearest = min(
            self.predicted_us,
            key=lambda size: abs(SIZES_TO_PAGES.index(size) - SIZES_TO_PAGES.index(pages)),
        )
        return self.predicted_us[nearest][1]


class Figure:
    """A mean over reads, computed at each check, and the time for which it has exceeded its bound.

    `words` formats the measured value, the expected value and the bound.
    """

    def __init__(
        self, foreseen: float, bound: float, words: Callable[[float, float, float], str]
    ) -> None:
        self._foreseen = foreseen
        self._bound = bound
        self._words = words
        self._sum, self._n, self._begin_s = 0.0, 0, 0.0
        self._since_s: float | None = None
        self._judged_s = 0.0
        self._n_looks = 0
        self._seen = math.nan

    @classmethod
    def of_share(cls, what: str, foreseen: float) -> Figure:
        """Create a share, which may be twice as high as expected, plus a margin."""
        return cls(
            foreseen,
            SHARE_FACTOR * foreseen + SHARE_MARGIN,
            lambda seen, foreseen, bound: (
                f"{seen:.0%} of the {what} (training foresaw {foreseen:.0%}, the bound is "
                f"{bound:.0%})"
            ),
        )

    @classmethod
    def of_error(cls, foreseen: float) -> Figure:
        """Create an error in powers of two."""
        return cls(
            foreseen,
            foreseen + ERROR_MARGIN,
            lambda seen, foreseen, bound: (
                f"predictions are off by a factor of {2**seen:.1f} in the mean (training foresaw "
                f"{2**foreseen:.1f}, the bound is {2**bound:.1f})"
            ),
        )

    def add(self, total: float, n: int, begin_s: float) -> None:
        """Add values of reads since a time."""
        if n and not self._n:
            self._begin_s = begin_s
        self._sum += total
        self._n += n

    def judge(self, now_s: float, window_s: float, *, rightly: bool = False) -> bool:
        """Compare the value with the bound if there are enough reads; return true if there were.

        If `rightly`, exceeding the bound is not a fault.
        """
        if self._n < MIN_READS:
            return False
        self._seen, self._sum, self._n = self._sum / self._n, 0.0, 0
        # A value collected over hours with few reads says nothing about the last ten minutes.
        is_old = now_s - self._begin_s > max(window_s, _LEAST_OLD_S)
        if self._seen <= self._bound or rightly or is_old:
            self._since_s, self._n_looks = None, 0
        else:
            if self._since_s is None or self._begin_s - self._judged_s > window_s:
                self._since_s, self._n_looks = self._begin_s, 0
            self._n_looks += 1
        self._judged_s = now_s
        return True

    def beyond(self, now_s: float, window_s: float) -> str:
        """Describe the fault if it has lasted long enough, otherwise return an empty text."""
        if self._since_s is None or self._n_looks < MIN_LOOKS or now_s - self._since_s < window_s:
            return ""
        return self._words(self._seen, self._foreseen, self._bound)

    def __str__(self) -> str:
        if math.isnan(self._seen):
            return "too few reads yet"
        return self._words(self._seen, self._foreseen, self._bound)


@dataclasses.dataclass(frozen=True)
class Served:
    """A read that a drive served, with its prediction."""

    #: 0 for a network.
    predicted_us: int
    #: True if it was predicted to be slow.
    is_slow: bool
    latency_us: int

    @property
    def log2_ratio(self) -> float:
        """Log2 of the ratio of the predicted to the actual latency."""
        return math.log2(max(self.predicted_us, 1) / max(self.latency_us, 1))


class KeptMirror:
    """A drive, its expected and measured values, and the share of reads not sent to it."""

    def __init__(self, drive: Drive, foreseen: Foreseen, away: Figure) -> None:
        self.drive = drive
        self.foreseen = foreseen
        self.away = away
        if foreseen.predicts_us:
            self.off = Figure.of_error(foreseen.off)
        else:
            self.off = Figure.of_share("reads called fast were slow", foreseen.off)
        self.threshold_us = drive.threshold_us
        self._counts, self._counts_judged = drive.latency_counts, drive.latency_counts

    def add(self, served: Sequence[Served], begin_s: float) -> None:
        """Add reads that it has served."""
        if self.foreseen.predicts_us:
            self.off.add(sum(abs(read.log2_ratio) for read in served), len(served), begin_s)
        else:
            fast = [read.latency_us > self.threshold_us for read in served if not read.is_slow]
            self.off.add(sum(fast), len(fast), begin_s)

    @property
    def median_us(self) -> float | None:
        """Median of all reads served since :attr:`away` was judged; None if there were too few."""
        if self._counts is None or self._counts_judged is None:
            return None
        served = [
            now - before for now, before in zip(self._counts, self._counts_judged, strict=True)
        ]
        return percentile_us(served, 50) if sum(served) >= MIN_SERVED else None

    def see(self) -> None:
        """Read the kernel's counters."""
        self._counts = self.drive.latency_counts

    def judge(self, now_s: float, window_s: float, *, is_slow: bool) -> None:
        """Compare the measured values with the expected ones."""
        if self.away.judge(now_s, window_s, rightly=is_slow):
            self._counts_judged = self._counts
        self.off.judge(now_s, window_s)

    def beyond(self, now_s: float, window_s: float) -> str:
        """Describe the fault if it has lasted long enough, otherwise return an empty text."""
        why = self.off.beyond(now_s, window_s) or self.away.beyond(now_s, window_s)
        return f"{self.drive.name}: {why}" if why else ""
