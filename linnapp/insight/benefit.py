# SPDX-License-Identifier: MIT
"""Estimate from recordings what an array would gain by choosing a replica for each read.

Each recording is divided in the middle. A latency model is trained on the first half. In the second
half, two reads of the same size class that began at the same moment on two replicas form a pair:
one read that either replica could have served. The policies are compared on these pairs.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import EmptyTraceError, NoGainError, TraceError
from linnapp.files import AnyPath
from linnapp.learn.fit import FittedModel, fit_latency
from linnapp.learn.judge import area_under_roc
from linnapp.learn.pairs import WITHIN_US, DriveReads, judge, match_pairs
from linnapp.stats import Interval, finite_or_none
from linnapp.trace.reads import IoTable, Recorded, check_common_clock, load

#: A read is called slow if its latency is more than this many times the lowest median of the
#: replicas. A replica that md reads only while another is slow may be slow itself most of the time.
SLOW_FACTOR = 3

#: Minimum gain that justifies an installation, as a share of the mean latency.
WORTHWHILE_SHARE = 0.02

#: The verdict is "unknown" instead of "no" if the gain can be a larger share of the mean latency.
UNCERTAIN_SHARE = 0.1

#: Minimum number of pairs for a verdict.
MIN_PAIRS = 50

#: The beginning of the sentence for each verdict.
_VERDICTS = {"yes": "It would help", "no": "It would not help", "unknown": "Not known"}

#: The policies with which a choice by predictions is compared, and their names in sentences.
RIVALS = {
    "round_robin": "reading from the replicas in turn",
    "fewest_pending": "reading where the fewest pages are pending",
    "fixed": "always reading from the replica that was faster on average",
}


@dataclasses.dataclass(frozen=True)
class Replica:
    """The reads of one replica in the whole recording.

    Attributes
    ----------
    median_us, p99_us : float
        NaN without reads.
    slow_share : float
        Share of the reads that took more than `SLOW_FACTOR` times the lowest median of the
        replicas.
    auc : float or None
        Probability that the model predicts a higher latency for a slow read of the second half than
        for another one; None without a model or without slow reads.
    """

    name: str
    reads: int
    median_us: float
    p99_us: float
    slow_share: float
    auc: float | None


@dataclasses.dataclass(frozen=True)
class Benefit:
    """Result of :func:`estimate_benefit`. Latencies are in us.

    Attributes
    ----------
    pairs : int
        Number of pairs in the second half of the recordings.
    mean_us : float
        Mean latency of the paired reads.
    both_slow, both_slow_if_independent : float
        Share of the pairs in which both reads are slow, and the share that would result if the
        replicas were slow independently of each other.
    gains_us : dict
        Gain of the lower prediction over each policy of `RIVALS`.
    best_us : float
        Gain of the faster replica of each pair over `round_robin`, which no policy can exceed.
    verdict : {"yes", "no", "unknown"}
        "unknown" means that the recording contains too few reads.
    reason : str
        Explains the verdict.
    """

    replicas: tuple[Replica, ...]
    pairs: int = 0
    mean_us: float = math.nan
    both_slow: float = math.nan
    both_slow_if_independent: float = math.nan
    gains_us: dict[str, Interval] = dataclasses.field(default_factory=dict)
    best_us: float = math.nan
    verdict: str = "unknown"
    reason: str = ""

    @property
    def sentence(self) -> str:
        """The verdict and its reason in one sentence."""
        return f"{_VERDICTS[self.verdict]}: {self.reason}."

    def to_json(self) -> dict[str, Any]:
        """Return all values by name, with None instead of NaN."""
        values: dict[str, Any] = finite_or_none(dataclasses.asdict(self))
        return {**values, "sentence": self.sentence}


def estimate_benefit(recordings: Sequence[Recorded], names: Sequence[str]) -> Benefit:
    """Estimate the gain of choosing replicas by predicted latency.

    Parameters
    ----------
    recordings : sequence of path or IoTable
        Simultaneous recordings of two or more replicas.
    names : sequence of str
        The replicas' names.

    Returns
    -------
    Benefit
        If a replica served too few reads, the verdict is unknown.

    Raises
    ------
    TraceError
        If a recording cannot be read, or several have no common clock.
    """
    loaded = [_load(recording) for recording in recordings]
    tables = [table for table in loaded if table is not None]
    latencies_us = [
        np.empty(0) if table is None else table.latency_ns[table.is_served_read] / 1000
        for table in loaded
    ]
    medians_us = [float(np.median(us)) for us in latencies_us if len(us)]
    slow_us = SLOW_FACTOR * min(medians_us, default=math.nan)
    replicas = [_describe(name, us, slow_us) for name, us in zip(names, latencies_us, strict=True)]
    idle = [replica.name for replica in replicas if not replica.reads]
    if idle:
        return Benefit(
            tuple(replicas),
            reason=f"{' and '.join(idle)} served no reads; record while the array is in use",
        )
    check_common_clock(tables)
    middle = _middle_ns(tables)
    if middle is None:
        return Benefit(
            tuple(replicas),
            reason="the replicas served reads at different times only; record all of them at once, "
            "for longer or while the array is in use",
        )
    halves = [_divide(table, middle) for table in tables]
    trained_mean_us = [_mean_us(first) for first, _ in halves]
    models: list[FittedModel | None] = []
    for first, _ in halves:
        try:
            models.append(fit_latency(first))
        except (NoGainError, TraceError):  # The latter means that there are too few reads.
            models.append(None)
    reads = [
        _predict(model, second, mean)
        for model, (_, second), mean in zip(models, halves, trained_mean_us, strict=True)
    ]
    if any(not len(part) for part in reads):
        return Benefit(
            tuple(replicas), reason="a replica served no reads in the second half; record longer"
        )
    for number, (replica, part) in enumerate(zip(replicas, reads, strict=True)):
        auc = area_under_roc(part.predicted, part.latency_us > slow_us)
        replicas[number] = dataclasses.replace(replica, auc=auc)
    found = _compare(tuple(replicas), reads, trained_mean_us, slow_us)
    if found.verdict == "no" and not any(models) and len(_missed(found)) > 1:
        reason = "no replica's latencies can be predicted from its earlier I/Os"
        return dataclasses.replace(found, reason=reason)
    return found


def _load(recording: Recorded) -> IoTable | None:
    """Return a recording as a table, or None if it contains no I/O."""
    if isinstance(recording, IoTable):
        return recording
    try:
        return load(recording)
    except EmptyTraceError:
        return None


def _describe(name: str, latency_us: npt.NDArray[np.float64], slow_us: float) -> Replica:
    if not len(latency_us):
        return Replica(name, 0, math.nan, math.nan, math.nan, None)
    median, p99 = np.percentile(latency_us, (50, 99))
    slow_share = float(np.mean(latency_us > slow_us))
    return Replica(name, len(latency_us), float(median), float(p99), slow_share, None)


def _middle_ns(tables: Sequence[IoTable]) -> int | None:
    """Return the middle of the period in which all replicas were in use; None if there is none."""
    start = max(int(table.arrival_ns[0]) for table in tables)
    end = min(int(table.arrival_ns[-1]) for table in tables)
    return (start + end) // 2 if end > start else None


def _divide(table: IoTable, middle_ns: int) -> tuple[IoTable, IoTable]:
    row = int(np.searchsorted(table.arrival_ns, middle_ns))
    return table[:row], table[row:]


def _mean_us(table: IoTable) -> float:
    served = table.is_served_read
    return float(table.latency_ns[served].mean()) / 1000 if served.any() else math.nan


def _predict(model: FittedModel | None, table: IoTable, mean_us: float) -> DriveReads:
    """Return the reads with their predictions, which are `mean_us` without a model."""
    served = table.take(table.is_served_read)
    predicted = np.full(len(served), mean_us) if model is None else model.predict(table)
    return DriveReads.from_served(served, predicted)


def _compare(
    replicas: tuple[Replica, ...],
    reads: Sequence[DriveReads],
    trained_mean_us: Sequence[float],
    slow_us: float,
) -> Benefit:
    within_us = _max_distance_us(reads)
    pairs = judge([[part] for part in reads], within_us)
    fixed = judge(
        [
            [dataclasses.replace(part, alternative=np.full(len(part), mean))]
            for part, mean in zip(reads, trained_mean_us, strict=True)
        ],
        within_us,
    )
    if pairs.pairs < MIN_PAIRS:
        return Benefit(
            replicas,
            pairs.pairs,
            reason=f"only {pairs.pairs} reads began at the same moment on two replicas, and "
            f"{MIN_PAIRS} are needed; record longer, or while the array is busier",
        )
    both, independent, mean_us = _coincidence(reads, within_us, slow_us)
    gains = {
        "round_robin": pairs.gain_over_round_robin_us,
        "fewest_pending": pairs.gain_over_alternative_us,
        "fixed": fixed.gain_over_alternative_us,
    }
    found = Benefit(
        replicas, pairs.pairs, mean_us, both, independent, gains, pairs.oracle_gain_us.value
    )
    verdict, reason = _decide(found)
    return dataclasses.replace(found, verdict=verdict, reason=reason)


def _max_distance_us(reads: Sequence[DriveReads]) -> float:
    """Return the maximum time between the arrivals of the two reads of a pair, in us.

    This is less than the latency of almost every read. md reads from a second replica only if the
    first one is busy. With a longer limit, slow reads of the first replica would be in more pairs
    than its fast reads, and the second replica would seem to be the faster one.
    """
    return min(WITHIN_US, *(float(np.percentile(part.latency_us, 10)) for part in reads))


def _coincidence(
    reads: Sequence[DriveReads], within_us: float, slow_us: float
) -> tuple[float, float, float]:
    """Compare how often both reads of a pair are slow with independent replicas.

    Returns
    -------
    both, independent : float
        Share of the pairs in which both reads are slow, and the share that would result if the
        replicas were slow independently of each other.
    mean_us : float
        Mean latency of the paired reads.
    """
    both, independent, latency, n = 0.0, 0.0, 0.0, 0
    for a, b in itertools.combinations(reads, 2):
        rows = match_pairs(a, b, within_us)
        times = [part.latency_us[row] for part, row in zip((a, b), rows, strict=True)]
        slow = [time > slow_us for time in times]
        n += len(rows[0])
        both += float(np.count_nonzero(slow[0] & slow[1]))
        independent += len(rows[0]) * float(slow[0].mean() * slow[1].mean()) if len(rows[0]) else 0
        latency += float(sum(time.sum() for time in times)) / 2
    return both / n, independent / n, latency / n


def _missed(found: Benefit) -> dict[str, Interval]:
    """Return the gains that are not significant or not worthwhile."""
    return {
        name: gain
        for name, gain in found.gains_us.items()
        if not gain.is_above or gain.value < WORTHWHILE_SHARE * found.mean_us
    }


def _decide(found: Benefit) -> tuple[str, str]:
    """Return the verdict and its reason."""
    if not all(gain.is_known for gain in found.gains_us.values()):
        return "unknown", "the recording is too short to say how certain the gain is; record longer"
    missed = _missed(found)
    if not missed:
        least = min(found.gains_us.values(), key=lambda gain: gain.value)
        share = 100 * least.value / found.mean_us
        return "yes", (
            f"choosing the replica by prediction gains {share:.0f} % of the mean latency, compared "
            "with the best simple rule"
        )
    name, gain = min(missed.items(), key=lambda item: item[1].high)
    if gain.high > UNCERTAIN_SHARE * found.mean_us:
        low, high = (100 * end / found.mean_us for end in (gain.low, gain.high))
        return "unknown", (
            f"the gain compared with {RIVALS[name]} is uncertain, {low:.0f} to {high:.0f} % of the "
            "mean latency; record longer"
        )
    if found.best_us < WORTHWHILE_SHARE * found.mean_us:
        return "no", (
            "even a perfect choice would gain less than "
            f"{100 * WORTHWHILE_SHARE:.0f} % of the mean latency: the replicas are equally fast, "
            "or slow at the same time"
        )
    if list(missed) == ["fixed"]:
        slowest = max(found.replicas, key=lambda replica: replica.slow_share)
        return "no", (
            f"{slowest.name} is slower than the others all the time; no prediction is needed to "
            "avoid it (mdadm: write-mostly)"
        )
    return "no", f"the predictions gain too little compared with {RIVALS[name]}"


def draw_benefit(found: Benefit, path: AnyPath) -> None:
    """Draw the latencies of the replicas, and the gains with their intervals."""
    from matplotlib import pyplot

    from linnapp.figures import save

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    places = np.arange(len(found.replicas))
    for offset, (name, label) in enumerate((("median_us", "median"), ("p99_us", "p99"))):
        values = [getattr(replica, name) for replica in found.replicas]
        left.bar(places + 0.4 * offset - 0.2, values, 0.4, label=label)
    left.set_xticks(places, [replica.name for replica in found.replicas])
    left.set_ylabel("read latency, us")
    left.legend(loc="upper left", bbox_to_anchor=(0, 1.2), ncols=2)
    names = list(found.gains_us)
    for place, name in enumerate(names):
        gain = found.gains_us[name]
        right.plot([gain.low, gain.high], [place, place], "-", color="tab:gray")
        right.plot([gain.value], [place], "o", color="tab:blue")
    right.axvline(0, color="black", linewidth=0.8)
    right.set_yticks(range(len(names)), ["\n".join(wrap(RIVALS[name], 24)) for name in names])
    right.set_ylim(-0.5, len(RIVALS) - 0.5)
    right.set_xlabel("gain of choosing by prediction, us, 95 % interval")
    figure.suptitle("\n".join(wrap(f"{found.verdict}: {found.reason}", 90)))
    save(figure, path)
    pyplot.close(figure)
