# SPDX-License-Identifier: MIT
"""``linnapp check``: estimate whether choosing replicas would help an array."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from linnapp.option_types import FILE, PATH, FiniteRange
from linnapp.terminal import StatusLine

if TYPE_CHECKING:
    from linnapp.insight.benefit import Benefit

_NEXT = {
    "yes": "Next: sudo linnapp enable {target} --dry-run",
    "no": "There is no reason to install anything for this array.",
    "unknown": "Next: record for longer with --for, under the usual load.",
}

#: Exit status if the verdict is unknown; 1 is an error, and 2 is wrong usage.
UNKNOWN_STATUS = 3


@click.command()
@click.argument("devices", nargs=-1, metavar="[/dev/mdN | DRIVE...]")
@click.option(
    "--for",
    "for_s",
    type=FiniteRange(0, 1e6, min_open=True),
    default=60.0,
    help="Seconds to record, under the usual load.",
)
@click.option(
    "--trace",
    "traces",
    type=PATH,
    multiple=True,
    help="Use this recording or log with latencies instead of recording; once per replica.",
)
@click.option("-o", "--output", type=FILE, help="Also draw a picture, .png or .svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def check(
    ctx: click.Context,
    devices: tuple[str, ...],
    for_s: float,
    traces: tuple[Path, ...],
    output: Path | None,
    as_json: bool,
) -> None:
    """Estimate whether choosing a replica for each read would help an array.

    \b
    sudo linnapp check /dev/md0
    linnapp check --trace a.blk --trace b.blk

    The command records the reads of an md array's mirrors, or of drives with the same data, with
    blktrace for a minute. It needs no kernel module and changes nothing. Then it trains a latency
    model on the first half and compares policies on reads of the second half that began on two
    replicas at the same moment: choosing by prediction, reading in turn, reading where the fewest
    pages are pending, and always reading from the replica that is faster on average.

    The verdict is yes if choosing by prediction is significantly faster than each of the others,
    by at least 2 % of the mean latency. Otherwise it is no, or unknown if the gain may be more than
    10 %, or if the recording has too few reads, for example of an idle array. The exit status is 3
    if the verdict is unknown.
    """
    from linnapp.insight.benefit import draw_benefit, estimate_benefit

    if bool(devices) == bool(traces):
        raise click.UsageError("name an md array or its drives, or recordings with --trace")
    if len(traces) == 1:
        raise click.UsageError("--trace: give one recording of each replica, at least two")
    if output is not None:
        from linnapp.figures import check_can_draw

        check_can_draw(output)
    target = "/dev/mdN"
    display = StatusLine()
    if traces:
        names = [trace.name.split(".")[0] for trace in traces]
        if len(set(names)) < len(names):
            names = [trace.name for trace in traces]
        display.show("comparing policies")
        found = estimate_benefit(traces, names)
    else:
        with tempfile.TemporaryDirectory(prefix="linnapp-check-") as folder:
            target, names, recordings = _record(devices, for_s, Path(folder), display)
            display.show("comparing policies")
            found = estimate_benefit(recordings, names)
    display.show("")
    click.echo(json.dumps(found.to_json(), indent=1) if as_json else _describe(found, target))
    if output is not None:
        draw_benefit(found, output)
    if found.verdict == "unknown":
        ctx.exit(UNKNOWN_STATUS)


def _record(
    devices: tuple[str, ...], for_s: float, folder: Path, display: StatusLine
) -> tuple[str, list[str], list[Path]]:
    """Record the replicas; return the target's name, the replicas' names and the recordings."""
    from linnapp.drive.checks import check_replicas, find_target
    from linnapp.drive.recording import RecordingProgress, record

    target = find_target(devices)
    check_replicas(target)

    def show(progress: RecordingProgress) -> None:
        display.show(f"{progress.seconds:.0f} of {for_s:g} s: {progress.events} events")

    recordings, _ = record(
        target.nodes,
        folder,
        duration_s=for_s,
        at_ctrl_c="discard",
        on_progress=show if display.is_live else None,
    )
    for recording in recordings:
        if recording.dropped:
            display.log(
                f"linnapp: warning: {recording.drive}: {recording.dropped} events were dropped"
            )
    return target.arguments, list(target.drives), [recording.path for recording in recordings]


def _describe(found: Benefit, target: str) -> str:
    """Return the result as text."""
    from linnapp.insight.benefit import RIVALS, SLOW_FACTOR

    width = max(10, *(len(replica.name) for replica in found.replicas))
    heading = f"{'reads':>9}{'median us':>11}{'p99 us':>9}{'slow':>8}{'predictable':>13}"
    lines = [f"{'replica':{width}}{heading}"]
    for replica in found.replicas:
        if not replica.reads:
            lines.append(f"{replica.name:{width}}{0:>9}{'-':>11}{'-':>9}{'-':>8}{'-':>13}")
            continue
        auc = "-" if replica.auc is None else f"{replica.auc:.2f}"
        lines.append(
            f"{replica.name:{width}}{replica.reads:>9}{replica.median_us:>11.1f}"
            f"{replica.p99_us:>9.1f}{replica.slow_share:>8.1%}{auc:>13}"
        )
    lines.append(
        f"slow: more than {SLOW_FACTOR} times the lowest median; predictable: area under the ROC "
        "curve, 0.5 is chance"
    )
    if found.gains_us:
        lines += [
            "",
            f"{found.pairs} pairs of reads began on two replicas at the same moment; their mean "
            f"latency is {found.mean_us:.1f} us.",
            f"Both reads were slow in {found.both_slow:.2%} of them; "
            f"{found.both_slow_if_independent:.2%} if replicas were slow independently.",
            "Choosing by prediction lowers the mean latency, in us, compared with",
            *(f"  {f'{gain:.1f}':>24}  {RIVALS[name]}" for name, gain in found.gains_us.items()),
            f"A perfect choice would lower it by {found.best_us:.1f} us.",
            _describe_cost(len(found.replicas), found.mean_us),
        ]
    lines += ["", found.sentence, _NEXT[found.verdict].format(target=target)]
    return "\n".join(lines)


def _describe_cost(n_replicas: int, mean_us: float) -> str:
    """Return what a prediction costs on this machine, in a sentence."""
    from linnapp.engine import measure_prediction_ns
    from linnapp.learn.trees import shipped_prior

    ns = measure_prediction_ns(shipped_prior())
    share = n_replicas * ns / 1000 / mean_us
    return (
        f"On this machine, a prediction takes {ns:.0f} ns, and predictions for all {n_replicas} "
        f"replicas take {share:.2%} of that mean latency."
    )
