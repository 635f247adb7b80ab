# SPDX-License-Identifier: MIT
"""``linnapp evaluate``: evaluate a model on a trace."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from linnapp.commands._options import model_option, reader_options, traces_option

if TYPE_CHECKING:
    from linnapp.learn.judge import Evaluation
    from linnapp.learn.pairs import PairsJudged
    from linnapp.model import LatencyModel, Model


@click.command()
@model_option(required=True)
@traces_option("A drive's blktrace recording or log with latencies; once per drive of the array.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reader_options
def evaluate(model_path: Path, traces: tuple[Path, ...], as_json: bool, **reader: Any) -> None:
    """Evaluate a model on a trace: accuracy, slow reads admitted, fast reads refused, ranking.

    A read is slow if it takes longer than the model's inflection point. `train` counts fewer false
    submits: only slow reads that a failover would have avoided.

    The area under the ROC curve is the probability that the model gives a slow read a higher score
    than a fast one; 0.5 is chance. It is also shown for two simple predictors that a model must
    beat: the mean latency of the last reads and the number of pending pages.

    For a latency model, the command also prints the mean error of the predictions as a factor. If
    the model refuses reads, those with a prediction above refuse_us count as refused.

    Several traces are the drives of one array, recorded at the same time. Pairs of reads that began
    on two of them at the same moment then show the gain of choosing the lower prediction.
    """
    from linnapp.learn.judge import evaluate as judge
    from linnapp.model import LatencyModel, find_model, load_model
    from linnapp.stats import finite_or_none
    from linnapp.trace.blktrace import losses_of, trace_files
    from linnapp.trace.reads import drive_of

    records: list[dict[str, Any]] = []
    models = []
    for trace in traces:
        path = find_model(model_path, drive_of(trace_files(trace)[0].name))
        model = load_model(path)
        models.append(model)
        result = judge(model, trace, **reader)
        is_training_data = _is_of_training(path, trace)
        records.append({
            "model": str(path),
            "trace": str(trace),
            "trained_on_this_trace": is_training_data,
            **losses_of(trace),
            **result.to_json(),
        })  # fmt: skip
        if not as_json:
            _echo(path, model, result, is_training_data)
    pairs: PairsJudged | None = None
    choosing = [model for model in models if isinstance(model, LatencyModel)]
    if 1 < len(traces) == len(choosing):
        from linnapp.learn.pairs import judge_models
        from linnapp.trace.reads import check_common_clock

        check_common_clock(traces, **reader)
        pairs = judge_models(choosing, traces, **reader)
    if not as_json:
        if pairs is not None:
            _echo_pairs(pairs)
    elif len(traces) == 1:
        click.echo(json.dumps(records[0], indent=1))
    else:
        choice = finite_or_none(pairs and dataclasses.asdict(pairs))
        click.echo(json.dumps({"drives": records, "pairs": choice}, indent=1))


def _echo(
    path: Path, model: Model | LatencyModel, result: Evaluation, is_training_data: bool | None
) -> None:
    """Print all values of a drive."""
    from linnapp.commands._training import describe_areas
    from linnapp.model import LatencyModel

    c = result.confusion
    if is_training_data:
        click.echo(
            f"THE MODEL WAS TRAINED ON THIS TRACE, so these results are too good: {path.stem}.json "
            "has the results for reads that it was not trained on"
        )
    click.echo(f"model {result.model_id} ({path}), slow above {result.threshold_us} us")
    if isinstance(model, LatencyModel) and not model.refuses:
        # The model does not classify as fast or slow; its threshold may be less than the median.
        click.echo(f"{c.total} reads, mean latency {result.mean_us:.1f} us; it refuses no reads")
    else:
        _echo_verdicts(result)
    if isinstance(model, LatencyModel):
        quality = result.to_json()
        click.echo(
            f"mean prediction {quality['mean_predicted_us']:.1f} us; mean error: a factor of "
            f"{2 ** quality['mean_abs_log2_error']:.2f}, for the mean of the last latencies "
            f"{2 ** quality['mean_abs_log2_error_last_latencies']:.2f}"
        )
    click.echo(describe_areas(vars(result)))


def _echo_pairs(pairs: PairsJudged) -> None:
    """Print the benefit of the predictions for choosing among the drives."""
    if not pairs.pairs:
        click.echo("no two reads of the same size class began on two drives at the same moment")
        return
    click.echo(
        f"{pairs.pairs} pairs of reads began on two drives at the same moment; the predictions "
        f"rank {pairs.ranked_correctly:.1%} of them correctly"
    )
    click.echo(
        f"choosing the lower prediction gains {pairs.gain_over_round_robin_us:.1f} us compared "
        f"with round robin, and {pairs.gain_over_alternative_us:.1f} us compared with choosing the "
        "fewest pending pages; always choosing the faster drive would gain "
        f"{pairs.oracle_gain_us.value:.1f} us"
    )


def _echo_verdicts(result: Evaluation) -> None:
    """Print the confusion matrix, and the effect of refusing reads on the mean latency."""
    c = result.confusion
    click.echo(
        f"{c.total} reads, accuracy {c.accuracy:.2%}, "
        f"{result.always_fast_accuracy:.2%} if all reads are predicted fast"
    )
    click.echo(f"{'':12} {'predicted fast':>16} {'predicted slow':>16}")
    for truth, fast, slow, wrong, ratio in (
        ("fast", c.true_fast, c.false_revoke, "fast refused", c.false_revoke_ratio),
        ("slow", c.false_submit, c.true_slow, "slow admitted", c.false_submit_ratio),
    ):
        click.echo(f"{truth:12} {fast:16d} {slow:16d}  {wrong} {ratio:.2%}")
    if c.false_revoke_share is not None:
        click.echo(f"it refuses {c.false_revoke_share:.2%} of the fast reads")
    click.echo(
        f"mean latency {result.mean_us:.1f} us, "
        f"{result.mean_admitted_us:.1f} us of the admitted reads"
    )


def _is_of_training(model: Path, trace: Path) -> bool | None:
    """Return true if a model was trained on this recording; None if it has no record."""
    from linnapp.trace.reads import contents_of

    try:
        record = json.loads(model.with_suffix(".json").read_text())
        trained_on = record["trace"]["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return bool(contents_of(trace)[1] == trained_on)
