# SPDX-License-Identifier: MIT
"""``linnapp train``: train the models of the drives of an array."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from linnapp.commands._options import check_kind, recipe_from, recipe_options, traces_option
from linnapp.option_types import FOLDER

if TYPE_CHECKING:
    from linnapp.learn.fit import FittedModel
    from linnapp.learn.options import Kind

#: Names of the kinds of models. The latency model is trained first, because it is quick.
_KINDS: dict[Kind, str] = {"latency": "latency model", "network": "network"}


@click.command()
@traces_option("A drive's blktrace recording; once per drive of the array.")
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    help="Directory for the models; models/<trace> for a single trace.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1024),
    help="Number of drives to train at once; by default the number of CPUs.",
)
@click.option(
    "--kind",
    type=click.Choice(["both", "latency", "network"]),
    default="both",
    help="Kind of model: latency (trees that predict how long a read will take), network (the "
    "paper's, which predicts slow or fast), or one model of each kind.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@recipe_options
@click.pass_context
def train(
    context: click.Context,
    /,
    traces: tuple[Path, ...],
    output: Path | None,
    processes: int | None,
    kind: Kind | str,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a latency model and the paper's network for each drive, and compare them.

    The latency model is written to DIR/<trace>.latency.linnos and the network to
    DIR/<trace>.linnos. A record of the training is in a file of the same name that ends in .json.
    With --kind, one of them is trained and is DIR/<trace>.linnos; the drive's other model in DIR,
    which would be older, is removed. Commands that are given DIR use the latency model if a drive
    has both. Without TensorFlow, only the latency model is trained. The library takes more options
    (docs/library.md).

    Several traces are the drives of one array, each other's replicas; their order does not matter.
    A single trace represents its replicas, too. Models of other drives in DIR are kept. Ctrl-C
    keeps the best network so far. A second ctrl-C, or one during the training of a latency model,
    keeps no model.

    A network is compared with admitting every read, on reads that were not used to train it. If
    admitting every read gives the array a lower mean latency, the drive gets no network, and DIR
    keeps its old files. If a network would refuse more of the fast reads than --max-refused, a read
    is refused only if the output for slow exceeds that for fast by a margin. The exit status is 1
    if a drive gets no model.
    """
    if output is None and len(traces) > 1:
        raise click.UsageError("several traces: name the directory of their models with -o")
    if kind in _KINDS:
        check_kind(context, kind)

    from linnapp.commands._training import TrainingDisplay
    from linnapp.errors import NoGainError, install_command
    from linnapp.learn.fit import drive_names, train_array
    from linnapp.model import LATENCY_SUFFIX, SUFFIX
    from linnapp.trace.reads import drive_name, releasing

    directory = output or Path("models") / drive_name(traces[0])
    names = drive_names(traces)
    kinds = {each: title for each, title in _KINDS.items() if kind in ("both", each)}
    if kind == "both" and importlib.util.find_spec("tensorflow") is None:
        del kinds["network"]
        remedy = install_command("'linnapp[train]'")
        click.echo(
            "TensorFlow is not installed, so only the latency model is trained. The paper's "
            f"network needs it: {remedy}",
            err=True,
        )
    found: dict[str, dict[str, Any]] = {name: {"drive": name, "better": None} for name in names}
    with releasing(complete=len(kinds) > 1):  # each recording is parsed once for both kinds
        for each, title in kinds.items():
            suffix = LATENCY_SUFFIX if (kind, each) == ("both", "latency") else SUFFIX
            display = TrainingDisplay(
                title if kind == "both" else "model", shows_labels=each == next(iter(kinds))
            )
            trained: dict[str, FittedModel] = {}
            try:
                trained = train_array(
                    *(traces, directory, recipe_from(options, each)),
                    observer=display,
                    processes=processes,
                    suffix=suffix,
                    replaced=(suffix,) if kind == "both" else (SUFFIX, LATENCY_SUFFIX),
                )
            except NoGainError:
                if kind != "both":
                    raise
            for drive, result in trained.items():
                path = directory / f"{drive}{suffix}"
                found[drive][each] = {"path": str(path), "auc": result.record_["auc"]}
                if not as_json:
                    click.echo(path)
    for drive, models in found.items():
        areas = {each: models[each]["auc"] for each in kinds if each in models}
        if len(areas) == 2:
            models["better"], words = _compare(areas)
            click.echo(f"{drive}: {words}", err=True)
    if as_json:
        click.echo(json.dumps({"drives": list(found.values())}, indent=1))
    if without := [drive for drive, models in found.items() if not models.keys() & _KINDS.keys()]:
        raise NoGainError(f"no model for {', '.join(without)}: see above")


def _compare(areas: dict[Kind, float | None]) -> tuple[Kind | None, str]:
    """Return the kind of model that predicts better on the test slice, and a sentence."""
    shown = ", ".join(
        f"{_KINDS[each]} {'-' if area is None else format(area, '.3f')}"
        for each, area in areas.items()
    )
    text = f"area under ROC of slow reads in the test slice: {shown}; "
    latency, network = areas["latency"], areas["network"]
    if latency is None or network is None:
        return None, text + "the slice has slow reads only, or none, so it cannot compare them"
    if latency == network:
        return None, text + "both predict equally well"
    better: Kind = "latency" if latency > network else "network"
    return better, f"{text}the {_KINDS[better]} predicts better"
