# SPDX-License-Identifier: MIT
"""``linnapp demo``: compare policies on emulated drives that stall in turn."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.option_types import FOLDER


@click.command()
@click.option(
    "--seed",
    type=click.IntRange(1, 1 << 30),
    default=1,
    help="Seed of the workload, the drives, the policies and the training.",
)
@click.option(
    "-o", "--output", type=FOLDER, default=Path("out/linnapp-demo"), help="Folder for all results."
)
def demo(seed: int, output: Path) -> None:
    """Compare policies on three emulated drives, which stall in turn.

    The command runs the lab kernel as an ordinary process: it needs no root rights, no spare drive
    and no compiler, and takes about two minutes, 3 GB of memory for each CPU, and 100 MB of disk.

    It generates a workload, records its first half with blktrace, trains a latency model of each
    drive, and replays the second half under each policy. During the replay, one drive in turn
    stalls: for 100 of every 500 ms its reads take 2 ms longer. The paper's network is an example
    model, trained on another recording.

    It prints a table of the read latencies, and writes picture.svg, summary.json and, in replays/,
    the results of `replayer` from which the table is computed. Equal seeds give equal numbers.
    """
    from linnapp.lab.demo import check_demo, explain_runs, run_small_demo

    check_demo()
    click.echo(
        "Three emulated drives hold the same data and stall in turn: for 100 of every 500 ms, the "
        "reads of one\nof them take 2 ms longer. The same reads are replayed under each policy. "
        "This takes about two minutes.\n"
    )
    runs = run_small_demo(output, seed)
    click.echo(explain_runs(runs, output))
    click.echo("Next: sudo linnapp check /dev/md0 estimates whether this would help your array.")
