# SPDX-License-Identifier: MIT
"""``linnapp trial``: measure the benefit of choosing mirrors, off and on in random order."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import click

from linnapp.option_types import FiniteRange
from linnapp.terminal import StatusLine

if TYPE_CHECKING:
    from linnapp.drive.trial import Effect, TrialOutcome

_ENDED = {"time": "the time is over", "interrupted": "interrupted", "failed": "failed"}


@click.command()
@click.argument("device", metavar="/dev/mdN")
@click.option(
    "--hours", type=FiniteRange(0, 1e4, min_open=True), default=24.0, help="Duration of the trial."
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
    by how much the 99th percentile and the mean of a block are lower with linnos on, with 97.5 %
    intervals over the pairs of blocks. Both contain the true value in at least 95 % of all trials.

    The array's setting is restored at the end, also after ctrl-C, which prints the result so far,
    after an error, and if the command is killed. Reads are recorded with blktrace, so root is
    needed, and a mirror with a model, for example from `linnapp enable`.
    """
    from linnapp.drive.trial import Plan, run_trial, to_json

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
    from linnapp.drive.trial import TESTED

    plan, (off, on), effects = found.plan, found.reads, found.effects
    lines = [
        f"{found.array}: {len(found.pairs)} of {plan.n_pairs} pairs of {plan.block_s:g} s with "
        f"linnos off and on; {_ENDED[found.ended]}",
        f"{'':6}{'off':>12}{'on':>12}",
    ]
    for name, effect in effects.items():
        words = f"   {in_words(effect)}" if name in TESTED else ""
        lines.append(f"{name:6}{effect.off_us:>9.0f} us{effect.on_us:>9.0f} us{words}")
    lines.append(f"{'reads':6}{off:>12}{on:>12}")
    significant = [effects[name] for name in TESTED if name in effects]
    significant = [effect for effect in significant if effect.change.excludes_zero]
    harms = bool(significant) and all(effect.factor > 1 for effect in significant)
    if not effects:
        lines.append("There are too few pairs or reads for a result.")
    elif not significant:
        lines.append("No significant difference was measured.")
    elif harms:
        lines.append("It makes reads slower: leave it off.")
    elif all(effect.factor < 1 for effect in significant):
        lines.append("It has a benefit: leave it on.")
    else:
        lines.append("One of the two is lower and the other higher: decide which matters more.")
    if found.disturbed:
        lines.append(f"not counted: {found.disturbed} pairs, while the array was busy or degraded")
    if found.dropped:
        lines.append(
            f"{found.dropped} events were dropped, with off and on alike: make the buffers larger"
        )
    left = "on" if found.was_on else "off"
    remedy = "; `linnapp disable` switches it off" if harms and found.was_on else ""
    lines.append(f"{found.array} has its setting from before: linnos {left}{remedy}")
    return "\n".join(lines)


def in_words(effect: Effect) -> str:
    """``69 [61, 75] % lower``."""
    lower = effect.factor <= 1
    ends = [100 * (1 - end if lower else end - 1) for end in effect.ends]
    words = f"{100 * abs(1 - effect.factor):.0f} [{min(ends):.0f}, {max(ends):.0f}] % "
    return (
        words
        + ("lower" if lower else "higher")
        + ("" if effect.change.excludes_zero else ", not significant")
    )
