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
from linnapp.learn.report import SIZES_TO_PAGES

#: Minimum number of reads for a value: a share is then known within 5 percent of the reads.
MIN_READS = 100

#: Minimum number of checks at which a value must exceed its bound, for any window.
MIN_CHECKS = 3

#: Minimum number of reads to find a drive slow; it still receives one of a hundred.
MIN_SERVED = 10

#: Factor and margin by which a share may exceed the expected one.
SHARE_FACTOR, SHARE_MARGIN = 2.0, 0.10

#: Margin by which the error of predictions may exceed the expected one, in powers of two.
ERROR_MARGIN = 1.0

#: md avoids a drive if another drive's prediction is less than this part of the drive's own
#: (BLK_LINNOS_MARGIN_PERCENT).
AVOID_RATIO = 0.75

#: Minimum of the permitted age of the reads of a value, for any window.
_MIN_AGE_S = 60.0


@dataclasses.dataclass(frozen=True)
class TrainingExpectation:
    """Expectations for future reads from a model's training record."""

    model_id: str
    #: Expected share of refused reads.
    refused: float
    #: Error of the predictions; for a network, the share of slow reads among those classified as
    #: fast.
    error: float
    #: By size class (in pages): share of the reads, and percentiles of the predictions. Empty for
    #: a network.
    predicted_us: Mapping[int, tuple[float, Sequence[int]]]

    @classmethod
    def load(cls, entry: DriveEntry, active: str | None) -> TrainingExpectation:
        """Read the record next to a model; it must belong to the active model and be complete."""
        if entry.model is None:
            raise LinnappError("drives.conf names no model")
        path = entry.model.with_suffix(".json")
        try:
            found = cls._from_record(json.loads(path.read_text()))
        except OSError as error:
            raise LinnappError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
            raise LinnappError(
                f"{path}: does not contain expectations; train again (linnapp enable, or "
                "recalibrate)"
            ) from error
        if found.model_id != active:
            raise LinnappError(
                f"{path} describes model {found.model_id}, and {active or 'none'} is active"
            )
        return found

    @classmethod
    def _from_record(cls, record: Mapping[str, Any]) -> TrainingExpectation:
        test, model_id = record["test"], str(record["model_id"])
        fast = test["true_fast"] + test["false_submit"]
        slow = test["true_slow"] + test["false_revoke"]
        refused = slow / (slow + fast)
        if record.get("kind") != "latency":
            return cls(model_id, refused, test["false_submit"] / fast if fast else 0.0, {})
        predicted = {
            int(size["pages_to"]): (float(size["share"]), [int(us) for us in size["percentiles"]])
            for size in record["predicted_us"]
        }
        return cls(model_id, refused, float(record["mean_abs_log2_error"]), predicted)

    @property
    def predicts_us(self) -> bool:
        """True for a latency model."""
        return bool(self.predicted_us)

    def redirected(self, others: Sequence[TrainingExpectation]) -> float:
        """Share of the reads that should go to another drive, for randomly drawn predictions."""
        if not (self.predicts_us and all(other.predicts_us for other in others)):
            return self.refused
        expected = 0.0
        for pages, (share, percentiles) in self.predicted_us.items():
            theirs = [other._similar(pages) for other in others]
            stays = (
                math.prod(sum(AVOID_RATIO * us <= them for them in each) / len(each)
                          for each in theirs)
                for us in percentiles
            )  # fmt: skip
            expected += share * (1 - sum(stays) / len(percentiles))
        return expected

    def _similar(self, pages: int) -> Sequence[int]:
        """Predictions for reads of this size class, or else of the next larger or smaller one."""
        place = SIZES_TO_PAGES.index
        nearest = min(self.predicted_us, key=lambda size: abs(place(size) - place(pages)))
        return self.predicted_us[nearest][1]


class Measured:
    """A mean over reads, computed at each check, and the time for which it has exceeded its bound.

    `form` formats the measured value, the expected value and the bound.
    """

    def __init__(
        self, expected: float, bound: float, form: Callable[[float, float, float], str]
    ) -> None:
        self._expected = expected
        self._bound = bound
        self._form = form
        self._sum, self._n, self._begin_s = 0.0, 0, 0.0
        self._since_s: float | None = None
        self._last_check_s = 0.0
        self._n_checks = 0
        self._value = math.nan

    @classmethod
    def share(cls, what: str, expected: float) -> Measured:
        """Create a share, which may be twice as high as expected, plus a margin."""
        form = "{:.0%} of the " + what + " (expected from training: {:.0%}, the bound is {:.0%})"
        return cls(expected, SHARE_FACTOR * expected + SHARE_MARGIN, form.format)

    @classmethod
    def error(cls, expected: float) -> Measured:
        """Create an error in powers of two."""
        form = (
            "predictions are off by a factor of {:.1f} in the mean (expected from training: "
            "{:.1f}, the bound is {:.1f})"
        )
        return cls(
            expected,
            expected + ERROR_MARGIN,
            lambda *values: form.format(*(2**value for value in values)),
        )

    def add(self, total: float, n: int, begin_s: float) -> None:
        """Add values of reads since a time."""
        if n and not self._n:
            self._begin_s = begin_s
        self._sum += total
        self._n += n

    def check(self, now_s: float, window_s: float, *, accepted: bool = False) -> bool:
        """Compare the value with the bound if there are enough reads; return true if there were.

        If `accepted`, exceeding the bound is not a fault.
        """
        if self._n < MIN_READS:
            return False
        self._value, self._sum, self._n = self._sum / self._n, 0.0, 0
        # A value collected over hours with few reads says nothing about the last ten minutes.
        is_old = now_s - self._begin_s > max(window_s, _MIN_AGE_S)
        if self._value <= self._bound or accepted or is_old:
            self._since_s, self._n_checks = None, 0
        else:
            if self._since_s is None or self._begin_s - self._last_check_s > window_s:
                self._since_s, self._n_checks = self._begin_s, 0
            self._n_checks += 1
        self._last_check_s = now_s
        return True

    def fault(self, now_s: float, window_s: float) -> str:
        """Describe the fault if it has lasted long enough, otherwise return an empty text."""
        if self._since_s is None or self._n_checks < MIN_CHECKS:
            return ""
        return str(self) if now_s - self._since_s >= window_s else ""

    def __str__(self) -> str:
        if math.isnan(self._value):
            return "too few reads yet"
        return self._form(self._value, self._expected, self._bound)


@dataclasses.dataclass(frozen=True)
class Served:
    """A read that a drive served, with its prediction."""

    #: 0 for a network.
    predicted_us: int
    #: True if it was predicted to be slow.
    is_slow: bool
    latency_us: int


class MeasuredDrive:
    """A drive, its expected and measured values: the share of reads not sent to it, the error."""

    def __init__(
        self, drive: Drive, expected: TrainingExpectation, what: str, avoided: float
    ) -> None:
        self.drive = drive
        self.expected = expected
        self.avoided = Measured.share(what, avoided)
        if expected.predicts_us:
            self.error = Measured.error(expected.error)
        else:
            self.error = Measured.share("reads called fast were slow", expected.error)
        self.threshold_us = drive.threshold_us
        self._counts = self._counts_before = drive.latency_counts

    def add(self, served: Sequence[Served], begin_s: float) -> None:
        """Add reads that it has served."""
        if self.expected.predicts_us:
            errors = [
                abs(math.log2(max(read.predicted_us, 1) / max(read.latency_us, 1)))
                for read in served
            ]
        else:
            fast = [read for read in served if not read.is_slow]
            errors = [float(read.latency_us > self.threshold_us) for read in fast]
        self.error.add(sum(errors), len(errors), begin_s)

    @property
    def median_us(self) -> float | None:
        """Median of the reads served since :attr:`avoided` was checked; None if too few."""
        if self._counts is None or self._counts_before is None:
            return None
        pairs = zip(self._counts, self._counts_before, strict=True)
        served = [now - before for now, before in pairs]
        return percentile_us(served, 50) if sum(served) >= MIN_SERVED else None

    def read_counters(self) -> None:
        """Read the kernel's counters."""
        self._counts = self.drive.latency_counts

    def check(self, now_s: float, window_s: float, *, is_slow: bool) -> None:
        """Compare the measured values with the expected ones."""
        if self.avoided.check(now_s, window_s, accepted=is_slow):
            self._counts_before = self._counts
        self.error.check(now_s, window_s)

    def fault(self, now_s: float, window_s: float) -> str:
        """Describe the fault if it has lasted long enough, otherwise return an empty text."""
        why = self.error.fault(now_s, window_s) or self.avoided.fault(now_s, window_s)
        return f"{self.drive.name}: {why}" if why else ""
