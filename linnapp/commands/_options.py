# SPDX-License-Identifier: MIT
"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from linnapp.option_types import FILE, PATH, Bias, FiniteRange

if TYPE_CHECKING:
    from linnapp.learn.options import Kind, Recipe


#: Options that do not apply to the training of a latency model.
OF_NETWORKS = {"bias": "--bias", "max_epochs": "--epochs"}

#: where :class:`BeforeACommand` leaves the command in the context's ``meta``
COMMAND = "linnapp.command"


class BeforeACommand(click.Command):
    """Takes the arguments after ``--`` as the command to run, before click reads the options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split the arguments at the first ``--``."""
        ctx.meta[COMMAND] = []
        if "--" in args:
            at = args.index("--")
            ctx.meta[COMMAND] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def reader_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for reading a blktrace recording: keywords of ``BlktraceReader``."""
    for option in (
        click.option(
            "--allow-truncated",
            is_flag=True,
            help="Read a truncated trace up to its last complete event.",
        ),
        click.option("--dev", "device", help="major:minor of the drive, if the trace has several."),
    ):
        command = option(command)
    return command


def array_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of an array for its inflection points; defaults are the library's."""
    from linnapp.learn.labels import LabellingOptions

    default = LabellingOptions()
    for option in (
        click.option(
            "--threshold-us",
            type=click.IntRange(1, 2**32 - 1),
            help="Use this inflection point instead of searching for one.",
        ),
        click.option(
            "--failover-us",
            type=FiniteRange(0, 1e9),
            default=default.failover_us,
            help="Cost of a failover in us.",
        ),
        click.option(
            "--replicas",
            type=click.IntRange(2, 100),
            default=default.replicas,
            help="Number of drives that hold each block; with several traces at most their number.",
        ),
    ):
        command = option(command)
    return command


def labelling_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add all options for finding inflection points."""
    from linnapp.learn.labels import LabellingOptions

    default = LabellingOptions()
    for option in (
        click.option(
            "--search",
            type=click.Choice(["wide", "paper"]),
            default=default.search,
            help="How far from the CDF's knee: on while the best candidate is the last one tried, "
            "or ten percentiles to either side, as the paper does.",
        ),
        click.option(
            "--by-size",
            is_flag=True,
            help="Compare replicas among reads of similar sizes, as a failover does.",
        ),
        click.option(
            "--method",
            type=click.Choice(["exact", "simulate"]),
            default=default.method,
            help="In closed form, or by simulating a million random reads.",
        ),
    ):
        command = option(command)
    return array_options(command)


def model_option(*, required: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add ``--model``, passed on as `model_path`; :func:`linnapp.model.find_model` resolves it."""
    return click.option(
        "--model",
        "model_path",
        type=PATH,
        required=required,
        help="A .linnos file, or the directory that training wrote.",
    )


def conf_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--conf``, the path of drives.conf."""
    return click.option(
        "--conf",
        type=FILE,
        default=Path("/etc/linnapp/drives.conf"),
        envvar="LINNAPP_CONF",
        help="Models and modes of drives.",
    )(command)


def recipe_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for training, labelling and reading; :func:`recipe_from` converts them.

    All others are only arguments of the library (:func:`linnapp.fit_network`).
    """
    from linnapp.learn.judge import MAX_REFUSED_FAST
    from linnapp.learn.options import Recipe

    default = Recipe()
    for option in (
        click.option(
            "--epochs",
            "max_epochs",
            type=click.IntRange(1, 1_000_000),
            help="At most; from the trace's length if not given.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**32 - 1),
            default=default.training.seed,
            help="Equal seeds give equal models, bit for bit.",
        ),
        click.option(
            "--even-if-worse",
            is_flag=True,
            help="Write a network even if, by the validation slice, it is not better than "
            "admitting every read, by more than chance.",
        ),
        click.option(
            "--max-refused",
            type=FiniteRange(0, 1, min_open=True),
            help="Share of the fast reads of the training and of the validation slice that a model "
            f"may refuse; 1: no limit. If not given {MAX_REFUSED_FAST['network']:g}, but no limit "
            f"with a --bias that is a number; of latency models {MAX_REFUSED_FAST['latency']:g}.",
        ),
        click.option(
            "--bias",
            type=Bias(),
            default="auto" if default.auto_bias else default.training.bias,
            help="How much worse a false submit is than a false revoke; auto: what gives the "
            "array the lowest mean latency.",
        ),
    ):
        command = option(command)
    return array_options(reader_options(command))


def kind_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--kind``, the kind of the models; :func:`check_kind` checks the others against it."""
    return click.option(
        "--kind",
        type=click.Choice(["network", "latency"]),
        default="network",
        help="What predicts: the paper's network, slow or fast; or trees, how long a read will "
        "take.",
    )(command)


def check_kind(context: click.Context, kind: Kind) -> None:
    """Raise an error for options that do not apply to a kind of model."""
    if kind == "latency":
        for name, option in OF_NETWORKS.items():
            if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
                raise click.UsageError(f"{option} is of networks; leave it out or --kind latency")


def recipe_from(options: dict[str, Any], kind: Kind = "network") -> Recipe:
    """Build a recipe from the values of :func:`recipe_options` and from options of the library.

    Options that do not apply to a kind of model are left out.
    """
    from linnapp.learn.options import OPTIONS, recipe_of

    known = {name: value for name, value in options.items() if name in OPTIONS[kind]}
    reader = {name: options[name] for name in ("device", "allow_truncated")}
    return recipe_of(kind, known, reader=reader)
