# SPDX-License-Identifier: MIT
"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from linnapp.arguments import options_in
from linnapp.option_types import FILE, FOLDER, PATH, Bias, FiniteRange

if TYPE_CHECKING:
    from linnapp.learn.options import Kind, Recipe


#: Options that do not apply to the training of a latency model.
OF_NETWORKS = {"bias": "--bias", "max_epochs": "--epochs"}

#: Key of the command in the ``meta`` of a context; see :class:`CommandAfterDashes`.
COMMAND = "linnapp.command"


class CommandAfterDashes(click.Command):
    """A command whose arguments after ``--`` are another command, which it runs.

    They are stored as a list in ``ctx.meta[COMMAND]``, and click does not parse them.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split the arguments at the first ``--``."""
        ctx.meta[COMMAND] = []
        if "--" in args:
            at = args.index("--")
            ctx.meta[COMMAND] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def traces_option(words: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add ``--trace``, a recording of each drive of an array, passed on as `traces`."""
    return click.option("--trace", "traces", type=PATH, multiple=True, required=True, help=words)


def format_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for reading a trace of any format."""
    for option in (
        click.option("--volume", help="Volume (device, disk, LUN, file) of a text trace to read."),
        click.option(
            "--from",
            "source_format",
            help="FORMAT, or FORMAT:UNIT with another unit of time; detected by default.",
        ),
    ):
        command = option(command)
    return command


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


def flags_of(owner: type, *names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add flags for options of a dataclass, as these are declared (:class:`Option`)."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        declared = options_in(owner)
        for name in names:
            option, default = declared[name]
            kind: Any = {"type": FiniteRange(option.low, option.flag_high or option.high,
                                             min_open=option.flag_open)}  # fmt: skip
            if option.choices:
                kind = {"type": click.Choice(option.choices)}
            elif option.low is None:
                kind = {"is_flag": True}
            elif option.whole:
                most = int(option.flag_high or option.high)
                kind = {"type": click.IntRange(int(option.low), most)}
            flag = option.flag or "--" + name.replace("_", "-")
            if (default is not None and option.low is not None) or option.choices:
                kind["default"] = default
            command = click.option(flag, name, help=option.help, **kind)(command)
        return command

    return add


def array_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of an array for its inflection points; the library has the defaults."""
    from linnapp.learn.options import LabellingOptions

    return flags_of(LabellingOptions, "threshold_us", "failover_us", "replicas")(command)


def labelling_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add all options for finding inflection points."""
    from linnapp.learn.options import LabellingOptions

    return array_options(flags_of(LabellingOptions, "search")(command))


def model_option(*, required: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add ``--model``, passed on as `model_path`; :func:`linnapp.model.find_model` resolves it."""
    return click.option(
        "--model",
        "model_path",
        type=PATH,
        required=required,
        help="A .linnos file, or the directory that training wrote.",
    )


def mode_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--mode``, the mode that a drive gets with its model."""
    modes = click.Choice(["off", "observe", "enforce"])
    return click.option("--mode", type=modes, help="Mode to set.")(command)


def recordings_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--recordings``, the folder of recordings that were made earlier."""
    words = "Use <drive>.blk in this directory instead of recording."
    return click.option("--recordings", type=FOLDER, help=words)(command)


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
    from linnapp.learn.options import Recipe, TrainingOptions

    command = flags_of(TrainingOptions, "max_epochs", "seed")(command)
    command = flags_of(Recipe, "even_if_worse", "max_refused")(command)
    command = click.option(
        "--bias",
        type=Bias(),
        default="auto",
        help="Weight of a false submit relative to a false revoke. auto chooses the weight with "
        "which the array has the lowest mean latency.",
    )(command)
    return array_options(reader_options(command))


def check_kind(context: click.Context, kind: Kind) -> None:
    """Raise an error for options that do not apply to a kind of model."""
    if kind == "latency":
        for name, option in OF_NETWORKS.items():
            if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
                raise click.UsageError(
                    f"{option} applies to networks only; leave out {option} or --kind latency"
                )


def recipe_from(options: dict[str, Any], kind: Kind = "network") -> Recipe:
    """Build a recipe from the values of :func:`recipe_options` and from options of the library.

    Options that do not apply to a kind of model are left out.
    """
    from linnapp.learn.options import OPTIONS, recipe_of

    known = {name: value for name, value in options.items() if name in OPTIONS[kind]}
    reader = {name: options[name] for name in ("device", "allow_truncated")}
    return recipe_of(kind, known, reader=reader)
