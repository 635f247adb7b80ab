# SPDX-License-Identifier: MIT
"""``linnapp evaluate``: judge a model on a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from linnapp.commands._options import model_option, reader_options


@click.command()
@model_option(required=True)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    required=True,
    help="A blktrace recording of the drive.",
)
@click.option(
    "--engine",
    type=click.Choice(["numpy", "c"]),
    default="numpy",
    show_default=True,
    help="What computes; both give the same.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reader_options
def evaluate(model_path: Path, trace: Path, engine: str, as_json: bool, **reader: Any) -> None:
    """Judge a model on the reads of a trace: accuracy, false submits, false revokes."""
    from linnapp.blktrace import trace_files
    from linnapp.evaluation import evaluate as judge
    from linnapp.model import Model, find_model

    drive = trace_files(trace)[0].name.split(".blk")[0]
    path = find_model(model_path, drive)
    result = judge(Model.load(path), trace, engine, **reader)  # type: ignore[arg-type]
    if as_json:
        click.echo(
            json.dumps({"model": str(path), "trace": str(trace), **result.to_json()}, indent=1)
        )
        return
    c = result.confusion
    click.echo(f"model {result.model_id} ({path}), slow above {result.threshold_us} us")
    click.echo(f"{c.total} reads, accuracy {c.accuracy:.2%}")
    click.echo(f"{'':12} {'predicted fast':>16} {'predicted slow':>16}")
    for truth, fast, slow, wrong, ratio in (
        ("fast", c.true_fast, c.false_revoke, "false revokes", c.false_revoke_ratio),
        ("slow", c.false_submit, c.true_slow, "false submits", c.false_submit_ratio),
    ):
        click.echo(f"{truth:12} {fast:16d} {slow:16d}  {wrong} {ratio:.2%}")
    click.echo(
        f"mean latency {result.mean_us:.1f} us, "
        f"of the reads it admits {result.mean_admitted_us:.1f} us"
    )
