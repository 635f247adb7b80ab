# SPDX-License-Identifier: MIT
"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from linnapp.option_types import Bias, FiniteRange

if TYPE_CHECKING:
    from linnapp.learn.options import Recipe


#: where :class:`BeforeACommand` leaves the command in the context's ``meta``
COMMAND = "linnapp.command"


class BeforeACommand(click.Command):
    """Takes what follows ``--`` as the command to run, before click reads the options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split the arguments at the first ``--``."""
        ctx.meta[COMMAND] = []
        if "--" in args:
            at = args.index("--")
            ctx.meta[COMMAND] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def reader_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of reading a blktrace recording: keywords of ``BlktraceReader``."""
    for option in (
        click.option(
            "--allow-truncated", is_flag=True, help="Use what there is of a trace cut off."
        ),
        click.option("--dev", "device", help="major:minor of the drive, if a trace holds several."),
    ):
        command = option(command)
    return command


def labelling_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of finding inflection points; their defaults are the library's."""
    from linnapp.learn.options import LabellingOptions

    default = LabellingOptions()
    for option in (
        click.option(
            "--threshold-us",
            type=click.IntRange(1, 2**32 - 1),
            help="Take this point; do not search.",
        ),
        click.option(
            "--search",
            type=click.Choice(["wide", "paper"]),
            default=default.search,
            show_default=True,
            help="How far from the CDF's knee: on while the best candidate is the last one tried, "
            "or ten percentiles to either side, as the paper does.",
        ),
        click.option(
            "--by-size",
            is_flag=True,
            help="Compare replicas within read sizes, as a failover does.",
        ),
        click.option(
            "--failover-us",
            type=FiniteRange(0, 1e9),
            default=default.failover_us,
            show_default=True,
            help="Cost of a failover in us.",
        ),
        click.option(
            "--replicas",
            type=click.IntRange(2, 100),
            default=default.replicas,
            show_default=True,
            help="Drives that hold each block; with several traces at most as many.",
        ),
        click.option(
            "--method",
            type=click.Choice(["exact", "simulate"]),
            default=default.method,
            show_default=True,
            help="Closed form, or a million random reads.",
        ),
    ):
        command = option(command)
    return command


def model_option(*, required: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add ``--model``, passed on as `model_path`; :func:`linnapp.model.find_model` resolves it."""
    return click.option(
        "--model",
        "model_path",
        type=click.Path(path_type=Path),
        required=required,
        help="A .linnos file, or the directory that training wrote.",
    )


def conf_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--conf``, which drives.conf is meant."""
    return click.option(
        "--conf",
        type=click.Path(path_type=Path, dir_okay=False),
        default=Path("/etc/linnapp/drives.conf"),
        show_default=True,
        envvar="LINNAPP_CONF",
        help="Which drives are to have which model and mode.",
    )(command)


def recipe_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of training, labelling and reading; :func:`recipe_from` takes them."""
    from linnapp.learn.labels import LABELS
    from linnapp.learn.options import Recipe
    from linnapp.learn.refusing import MAX_REFUSED_FAST

    default = Recipe()
    for option in (
        click.option(
            "--hidden",
            type=click.IntRange(1, 4096),
            default=default.training.n_hidden,
            show_default=True,
            help="Hidden units. The kernel runs 256.",
        ),
        click.option(
            "--learning-rate",
            type=FiniteRange(0, 10, min_open=True),
            default=default.training.learning_rate,
            show_default=True,
            help="Of Adam.",
        ),
        click.option(
            "--standardise",
            is_flag=True,
            help="Train on digits of mean 0 and deviation 1. That is folded into the weights: the "
            "model still takes plain digits.",
        ),
        click.option(
            "--weight-decay",
            type=FiniteRange(0, 10),
            default=default.training.weight_decay,
            show_default=True,
            help="By how much each step makes weights smaller, as a share, times the learning "
            "rate.",
        ),
        click.option(
            "--starts",
            type=click.IntRange(1, 100),
            default=default.training.starts,
            show_default=True,
            help="First weights to begin from; what has the lowest validation loss is kept.",
        ),
        click.option(
            "--validation",
            type=FiniteRange(0.01, 0.9),
            default=default.training.validation_share,
            show_default=True,
            help="Share of the trace that chooses bias and epoch: what comes before the test's.",
        ),
        click.option(
            "--test",
            type=FiniteRange(0.01, 0.9),
            default=default.training.test_share,
            show_default=True,
            help="Share of the trace, its end, that decides nothing and only judges.",
        ),
        click.option(
            "--patience",
            type=click.IntRange(1, 1_000_000),
            default=default.training.patience_epochs,
            show_default=True,
            help="Stop after so many epochs without a better validation loss.",
        ),
        click.option(
            "--epochs",
            type=click.IntRange(1, 1_000_000),
            help="At most; from the trace's length if not given.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**32 - 1),
            default=default.training.seed,
            show_default=True,
            help="Equal seeds give equal models, bit for bit.",
        ),
        click.option(
            "--label",
            "labels",
            type=click.Choice(LABELS),
            default=default.labels,
            show_default=True,
            help="Teach as slow what is beyond the inflection point and longer than a failover "
            "for the same size; or all beyond the point, as in the paper.",
        ),
        click.option(
            "--bursts",
            type=FiniteRange(0, 0.9),
            default=default.training.burst_share,
            show_default=True,
            help="Share of training examples that are added bursts of continuous slowness; 0: "
            "the recording alone, as in the paper.",
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
            show_default=True,
            help="How much worse a false submit is than a false revoke; auto: what gives the "
            "array the lowest mean latency.",
        ),
    ):
        command = option(command)
    return labelling_options(reader_options(command))


def recipe_from(options: dict[str, Any]) -> Recipe:
    """What :func:`recipe_options` parsed, as a recipe."""
    from linnapp.learn.options import LabellingOptions, Recipe
    from linnapp.learn.training import TrainingOptions

    bias, max_refused = options["bias"], options["max_refused"]
    if max_refused is None and bias != "auto":
        max_refused = 1.0  # a bias that is asked for is meant
    if options["validation"] + options["test"] > 0.95:
        raise click.UsageError(
            f"--validation {options['validation']:g} and --test {options['test']:g} leave too "
            "little to train on; together they may be 0.95"
        )
    return Recipe(
        labelling=LabellingOptions(
            options["method"],
            options["replicas"],
            options["failover_us"],
            options["by_size"],
            options["threshold_us"],
            options["search"],
        ),
        training=TrainingOptions(
            bias=TrainingOptions.bias if bias == "auto" else bias,
            seed=options["seed"],
            n_hidden=options["hidden"],
            max_epochs=options["epochs"],
            patience_epochs=options["patience"],
            validation_share=options["validation"],
            test_share=options["test"],
            learning_rate=options["learning_rate"],
            burst_share=options["bursts"],
            standardise=options["standardise"],
            weight_decay=options["weight_decay"],
            starts=options["starts"],
        ),
        labels=options["labels"],
        auto_bias=bias == "auto",
        reader={"device": options["device"], "allow_truncated": options["allow_truncated"]},
        max_refused=max_refused,
        even_if_worse=options["even_if_worse"],
    )
