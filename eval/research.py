# SPDX-License-Identifier: MIT
"""`linnapp train` with the library's options for research, which the command itself lacks.

Experiments record them as options of a command line.
"""

from __future__ import annotations

from typing import get_args

import click

from linnapp.commands.train import train
from linnapp.learn.options import LABELS, Recipe, Search
from linnapp.option_types import FiniteRange

_DEFAULT = Recipe()

#: The options have the names of the arguments of `linnapp.fit_network`.
OPTIONS = (
    click.Option(
        ["--search"], type=click.Choice(get_args(Search)), default=_DEFAULT.labelling.search
    ),
    click.Option(["--label", "labels"], type=click.Choice(LABELS), default=_DEFAULT.labels),
    click.Option(
        ["--bursts", "burst_share"],
        type=FiniteRange(0, 0.9),
        default=_DEFAULT.training.burst_share,
    ),
)

command = click.Command("train", params=[*train.params, *OPTIONS], callback=train.callback)
