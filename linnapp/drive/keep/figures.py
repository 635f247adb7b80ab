# SPDX-License-Identifier: MIT
"""What training foresaw of a drive, and what is seen of it: the figures of `linnapp keep`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from linnapp.drive.counters.latencies import percentile_us
from linnapp.drive.drives_conf import DriveEntry
from linnapp.drive.sysfs import Drive
from linnapp.errors import LinnappError
from linnapp.learn.record import SIZES_TO_PAGES

#: Reads that a figure is of, at the least: a share is then known within 5 percent of the reads.
MIN_READS = 100

#: Looks that a figure has to be beyond its bound at, however long the window.
MIN_LOOKS = 3

#: Reads by which a drive is found to be slow; it is sent one of a hundred all the same.
MIN_SERVED = 10

#: How far a share may be above what was foreseen.
SHARE_FACTOR, SHARE_MARGIN = 2.0, 0.10

#: How much farther off predictions may be, in powers of two.
ERROR_MARGIN = 1.0

#: A drive of whose prediction so much is above another's is passed over, as md does it
#: (BLK_LINNOS_MARGIN_PERCENT).
AVOID_RATIO = 0.75

#: Reads of one figure may be as old, however short the window.
_LEAST_OLD_S = 60.0


@dataclasses.dataclass(frozen=True)
class Foreseen:
    """What the training record of a model says of reads to come."""

    model_id: str
    #: Share of the reads.
    refused: float
    #: By how much predictions are off; of a network the share of slow reads among those that it
    #: called fast.
    off: float
    #: Of each order of size (by its pages): share of the reads, percentiles of the predictions.
    #: None of a network.
    predicted_us: Mapping[int, tuple[float, Sequence[int]]]

    @classmethod
    def load(cls, entry: DriveEntry, active: str | None) -> Foreseen:
        """Read the record beside a model; it is to be of the active one, and to say enough."""
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
        """Whether the model is one of latencies."""
        return bool(self.predicted_us)

    def passed_over(self, others: Sequence[Foreseen]) -> float:
        """Share of the reads that are to go to one of the others, predictions drawn by lot."""
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
        """Predictions of reads of this order of size, or else of the next larger or smaller."""
        nearest = min(
            self.predicted_us,
            key=lambda size: abs(SIZES_TO_PAGES.index(size) - SIZES_TO_PAGES.index(pages)),
        )
        return self.predicted_us[nearest][1]


class Figure:
    """A mean of reads, found anew at each look, and for how long it has been beyond its bound.

    `words` says the three of them: seen, foreseen, bound.
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
        """What may be twice as much, and a little more."""
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
        """A distance in powers of two."""
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
        """Hold it against the bound, if there are reads enough, and tell whether there were.

        What is `rightly` beyond is no fault.
        """
        if self._n < MIN_READS:
            return False
        self._seen, self._sum, self._n = self._sum / self._n, 0.0, 0
        # What was gathered in hours that hardly anybody read in says nothing of ten minutes.
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
        """What is wrong, in words, if it has been for long enough."""
        if self._since_s is None or self._n_looks < MIN_LOOKS or now_s - self._since_s < window_s:
            return ""
        return self._words(self._seen, self._foreseen, self._bound)

    def __str__(self) -> str:
        if math.isnan(self._seen):
            return "too few reads yet"
        return self._words(self._seen, self._foreseen, self._bound)


@dataclasses.dataclass(frozen=True)
class Served:
    """A read that a drive served, and what was predicted of it."""

    #: 0 by a network.
    predicted_us: int
    #: Predicted to be.
    is_slow: bool
    latency_us: int

    @property
    def log2_ratio(self) -> float:
        """By how much longer it was predicted to take than it took, in powers of two."""
        return math.log2(max(self.predicted_us, 1) / max(self.latency_us, 1))


class KeptMirror:
    """A drive, what was foreseen of it and is seen, and the share of its reads it is not sent."""

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
        """Of all that it served since :attr:`away` was judged, whoever read; None of too few."""
        if self._counts is None or self._counts_judged is None:
            return None
        served = [
            now - before for now, before in zip(self._counts, self._counts_judged, strict=True)
        ]
        return percentile_us(served, 50) if sum(served) >= MIN_SERVED else None

    def see(self) -> None:
        """Look at what the kernel counts of it."""
        self._counts = self.drive.latency_counts

    def judge(self, now_s: float, window_s: float, *, is_slow: bool) -> None:
        """Hold what has been seen against what was foreseen."""
        if self.away.judge(now_s, window_s, rightly=is_slow):
            self._counts_judged = self._counts
        self.off.judge(now_s, window_s)

    def beyond(self, now_s: float, window_s: float) -> str:
        """What is wrong, if it has been for long enough."""
        why = self.off.beyond(now_s, window_s) or self.away.beyond(now_s, window_s)
        return f"{self.drive.name}: {why}" if why else ""
