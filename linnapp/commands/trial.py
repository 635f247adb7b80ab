# SPDX-License-Identifier: MIT
"""``linnapp trial``: measure the benefit of choosing mirrors on this machine under its own load."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import click

from linnapp.option_types import FiniteRange
from linnapp.terminal import StatusLine

if TYPE_CHECKING:
    from linnapp.drive.trial import TrialOutcome
    from linnapp.learn.paired_blocks import Effect

_ENDED = {
    "decided": "the result is significant, so that it ended early",
    "hopeless": "ended early: the rest is unlikely to make the result significant",
    "time": "the time is over",
    "interrupted": "interrupted",
    "failed": "failed",
}


@click.command()
@click.argument("device", metavar="/dev/mdN")
@click.option(
    "--hours",
    type=FiniteRange(0, 1e4, min_open=True),
    default=24.0,
    help="Maximum duration. The trial ends earlier once the result is significant or unlikely to "
    "become so.",
)
@click.option(
    "--block-s",
    type=FiniteRange(0.1, 86400),
    default=60.0,
    help="Seconds of each block with linnos off or on.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Seed of the order of off and on.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def trial(
    ctx: click.Context,
    /,
    device: str,
    hours: float,
    block_s: float,
    seed: int | None,
    as_json: bool,
) -> None:
    """Measure the benefit of reading from the mirror that is predicted to answer first.

    \b
    linnapp enable /dev/md0
    linnapp trial /dev/md0 --hours 24

    The command switches md's linnos off and on in blocks of a minute, in random order, and measures
    the array's reads under its usual load, without the first two seconds of each block. It prints
    by how much the 99th percentile and the mean are lower with linnos on, with intervals that both
    contain the true value in 95 of 100 trials, whenever they end.

    The array's setting is restored at the end, also after ctrl-C, which prints the result so far,
    after an error, and if the command is killed. Reads are recorded with blktrace, so root is
    needed, and a mirror with a model, for example from `linnapp enable`.
    """
    from linnapp.drive.trial import Plan, run_trial

    plan = Plan(hours, block_s, int.from_bytes(os.urandom(4)) if seed is None else seed)
    plan.check()
    display = StatusLine()
    found = run_trial(device, plan, display)
    display.show("")
    click.echo(json.dumps(to_json(found), indent=1) if as_json else to_text(found))
    if found.ended == "interrupted":
        ctx.exit(128 + signal.SIGINT)
    if found.ended == "failed":
        ctx.exit(1)


def to_text(found: TrialOutcome) -> str:
    """Return the outcome as text."""
    plan, (off, on) = found.plan, found.reads
    lines = [
        f"{found.array}: {len(found.pairs)} of {plan.n_pairs} pairs of {plan.block_s:g} s with "
        f"linnos off and on; {_ENDED[found.ended]}",
        f"{'':6}{'off':>12}{'on':>12}",
    ]
    for name, (off_us, on_us) in found.latencies_us.items():
        change = found.effects.get(name)
        words = "" if change is None else f"   {in_words(change)}"
        lines.append(f"{name:6}{off_us:>9.0f} us{on_us:>9.0f} us{words}")
    redirected = "" if found.redirected is None else f"   redirected {100 * found.redirected:.0f} %"
    lines.append(f"{'reads':6}{off:>12}{on:>12}{redirected}")
    if found.pairs:
        lines.append(f"additional time for predictions: {100 * found.extra_core:.1f} % of a core")
    lines.append(_verdict(found))
    if found.disturbed:
        lines.append(f"not counted: {found.disturbed} pairs, while the array was busy or degraded")
    if found.dropped:
        lines.append(
            f"{found.dropped} events were dropped, with off and on alike: make the buffers larger"
        )
    left = "on" if found.was_on else "off"
    harms = found.effects and all(e.is_decided and e.factor > 1 for e in found.effects.values())
    remedy = "; `linnapp disable` switches it off" if harms and found.was_on else ""
    lines.append(f"{found.array} has its setting from before: linnos {left}{remedy}")
    return "\n".join(lines)


def in_words(effect: Effect) -> str:
    """``69 [61, 75] % lower``."""
    lower = effect.factor <= 1
    ends = [100 * (1 - end if lower else end - 1) for end in (effect.low, effect.high)]
    words = f"{100 * abs(1 - effect.factor):.0f} [{min(ends):.0f}, {max(ends):.0f}] % "
    return (
        words
        + ("lower" if lower else "higher")
        + ("" if effect.is_decided else ", not significant")
    )


def _verdict(found: TrialOutcome) -> str:
    decided = [effect for effect in found.effects.values() if effect.is_decided]
    if not found.effects:
        return "There are too few pairs or reads for a result."
    if not decided:
        return "No significant difference was measured."
    if all(effect.factor < 1 for effect in decided):
        return "It has a benefit: leave it on."
    if all(effect.factor > 1 for effect in decided):
        return "It makes reads slower: leave it off."
    return "One of the two is lower and the other higher: decide which matters more."


def to_json(found: TrialOutcome) -> dict[str, Any]:
    """Return the outcome as JSON."""
    plan = found.plan
    latencies: dict[str, Any] = {}
    for name, (off_us, on_us) in found.latencies_us.items():
        latencies[name] = {"off_us": off_us, "on_us": on_us}
        if (effect := found.effects.get(name)) is not None:
            latencies[name] |= {
                "lower_percent": 100 * (1 - effect.factor),
                "interval_percent": [100 * (1 - effect.high), 100 * (1 - effect.low)],
                "decided": effect.is_decided,
            }
    return {
        "array": found.array,
        "ended": found.ended,
        "pairs": len(found.pairs),
        "pairs_planned": plan.n_pairs,
        "pairs_disturbed": found.disturbed,
        "reads": dict(zip(("off", "on"), found.reads, strict=True)),
        "latencies": latencies,
        "redirected_share": found.redirected,
        "extra_core_share": found.extra_core,
        "events_dropped": found.dropped,
        "linnos_before": "on" if found.was_on else "off",
        "config": {**dataclasses.asdict(plan), "wash_s": plan.wash_s},
    }
