# SPDX-License-Identifier: MIT
"""Display of a training run: a live line on a terminal, a line for each step in a log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from linnapp.errors import as_options
from linnapp.learn.options import Observer
from linnapp.terminal import StatusLine

if TYPE_CHECKING:
    from linnapp.learn.labels import InflectionPoint
    from linnapp.learn.network import Epoch
    from linnapp.model import LatencyModel, Model


#: Share of refused reads in a recording above which a warning is shown.
WARNED_REFUSED_SHARE = 0.01


def latency_quality(record: dict[str, Any]) -> str:
    """Describe ranking and error of a latency model's predictions for reads not used in training.

    `record` is that of a training or an evaluation. Classification at the slow threshold is not
    shown: the threshold can be less than the median latency, and refusal does not depend on it.
    """
    error, error_of_last = (
        2 ** record[key] for key in ("mean_abs_log2_error", "mean_abs_log2_error_last_latencies")
    )
    return (
        f"{describe_areas(record)}; mean error: a factor of {error:.2f}, for the mean of the last "
        f"latencies {error_of_last:.2f}"
    )


def describe_areas(record: dict[str, Any]) -> str:
    """Describe how well a model, and two simple predictors that it must beat, rank reads."""
    areas = {
        "this model": record["auc"],
        "last latencies": record["auc_last_latencies"],
        "pending pages": record["auc_pending"],
    }
    return "area under ROC: " + ", ".join(
        f"{name} {'-' if area is None else f'{area:.3f}'}" for name, area in areas.items()
    )


class TrainingDisplay(Observer):
    """Prints an array's training to stderr."""

    def __init__(self, what: str = "model", *, shows_labels: bool = True) -> None:
        """Show the training of `what`; without `shows_labels`, omit the inflection points."""
        self._line = StatusLine()
        self._start = time.monotonic()
        self._what, self._shows_labels = what, shows_labels

    def reading(self, drive: str, done_bytes: int, total_bytes: int) -> None:
        """Report the progress of reading a trace."""
        share = done_bytes / total_bytes if total_bytes else 1
        self._line.show(f"{drive}: reading {share:4.0%}")

    def labelled(self, drive: str, point: InflectionPoint, n_reads: int) -> None:
        """Report a drive's inflection point."""
        if not self._shows_labels:
            return
        self._line.log(
            f"{drive}: {n_reads} reads to train on; inflection point {point.threshold_us} us "
            f"(p{point.percentile:.1f}, from p{point.start_percentile:.1f}), "
            f"{point.slow_ratio:.2%} slow"
        )
        if warning := point.warning(drive):
            self._line.log(as_options(warning))

    def candidate(self, drive: str, bias: float, mean_us: float) -> None:
        """Report a bias that was tried."""
        self._line.log(f"{drive}: bias {bias:g}: the array's mean read would take {mean_us:.1f} us")

    def epoch(self, drive: str, epoch: Epoch) -> None:
        """Report the end of an epoch."""
        confusion = epoch.confusion
        self._line.log(
            f"{drive}: epoch {epoch.number:2d}  loss {epoch.loss:.4f}  "
            f"validation {epoch.validation_loss:.4f}  "
            f"false submits {confusion.false_submit_ratio:.2%}  "
            f"false revokes {confusion.false_revoke_ratio:.2%}"
            + (f"  bursts {epoch.bursts.accuracy:.1%}" if epoch.bursts.total else "")
            + ("  *" if epoch.best else "")
        )

    def trained(self, drive: str, model: Model | LatencyModel, record: dict[str, Any]) -> None:
        """Report a drive's complete model."""
        stopped = " (interrupted: the best epoch so far)" if record["interrupted"] else ""
        verdicts = ""
        recorded = record["trace"]
        if recorded["revoked"] > WARNED_REFUSED_SHARE * recorded["reads"]:
            self._line.log(
                f"{drive}: {recorded['revoked'] / recorded['reads']:.0%} OF THE READS WERE REFUSED "
                "while it was recorded: their latencies are unknown and the model is trained on "
                "the others; record in mode observe"
            )
        if record.get("kind") == "latency":
            self._latency(drive, record)
        else:
            self._quality(drive, record)
            verdicts = (
                f", accuracy {record['accuracy']:.2%}, "
                f"false submits {record['false_submit_ratio']:.2%}, "
                f"false revokes {record['false_revoke_ratio']:.2%}"
            )
        self._line.log(
            f"{drive}: {self._what} {model.model_id}{stopped}{verdicts}, "
            f"{time.monotonic() - self._start:.1f} s"
        )

    def no_gain(self, drive: str, why: str) -> None:
        """Report that a drive gets no model."""
        self._line.log(f"{drive}: NO {self._what.upper()}: {as_options(why)}")

    def _quality(self, drive: str, record: dict[str, Any]) -> None:
        """Log the quality of a network's classification on the validation slice."""
        now, before = record["quality"]["validation"], record["quality"]["as_trained"]
        if record["margin"]:
            self._line.log(
                f"{drive}: as trained, it would refuse {before['false_revoke_share']:.1%} of the "
                f"fast reads of the validation slice, with a mean latency of the array of "
                f"{before['mean_us']:.1f} us; its margin was raised, so that it refuses at most "
                f"{record['max_refused']:.0%} and is better than refusing no read"
            )
        self._line.log(
            f"{drive}: validation slice: it refuses {now['false_revoke_share']:.1%} of the fast "
            f"reads; the array's mean latency is {now['mean_us']:.1f} us, and "
            f"{now['always_fast_mean_us']:.1f} us if no read is refused; accuracy "
            f"{now['accuracy']:.2%}, {now['always_fast_accuracy']:.2%} if all reads are predicted "
            "fast"
        )
        if record["remedy"]:
            training, validation = (
                (record[rows]["true_slow"] + record[rows]["false_revoke"]) / record[f"{rows}_reads"]
                for rows in ("training", "validation")
            )
            self._line.log(
                f"{drive}: THE MODEL REFUSES {'ALMOST ' if validation else ''}NO READS: "
                f"{validation:.2%} of the validation slice, {training:.2%} of the training slice; "
                f"{record['remedy']}"
            )

    def _latency(self, drive: str, record: dict[str, Any]) -> None:
        """Log the kind of a latency model and the quality of its predictions."""
        if record["why_no_trees"]:
            self._line.log(
                f"{drive}: {record['why_no_trees']}; the model is the prior, which was trained on "
                f"other drives and is scaled to this one; {record['remedy']}"
            )
        else:
            self._line.log(f"{drive}: {record['n_trees']} trees")
        refused = record["refuse_us"]
        self._line.log(
            f"{drive}: {latency_quality(record)}; "
            + ("it refuses no reads" if refused is None else f"it refuses above {refused} us")
        )
