# SPDX-License-Identifier: MIT
"""What decides what a trace is trained to, and who is told of it meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from linnapp.arguments import check_choice, check_flag, check_kind, check_names, check_number
from linnapp.learn.judging.refusing import MAX_REFUSED_FAST
from linnapp.learn.labelling.inflection import (
    InflectionPoint,
    LabellingOptions,
    Method,
    Search,
)
from linnapp.learn.labelling.labels import LABELS, Labels
from linnapp.learn.network.training import Epoch, TrainingOptions
from linnapp.model import LatencyModel, Model
from linnapp.trace.recorded import check_options

#: What is predicted: slow or fast, by the paper's network; or how long a read will take, by trees.
Kind = Literal["network", "latency"]
KINDS: tuple[Kind, ...] = ("network", "latency")


class Observer:
    """What a caller may want to show while an array is trained; this one shows nothing."""

    def reading(self, drive: str, done_bytes: int, total_bytes: int) -> None:
        """A trace is being read."""

    def labelled(self, drive: str, point: InflectionPoint, n_reads: int) -> None:
        """A drive's inflection point is known, from so many reads."""

    def candidate(self, drive: str, bias: float, mean_us: float) -> None:
        """A bias was tried; the array's mean read latency would be `mean_us`."""

    def epoch(self, drive: str, epoch: Epoch) -> None:
        """An epoch is over."""

    def trained(self, drive: str, model: Model | LatencyModel, record: dict[str, Any]) -> None:
        """A drive's model is ready."""

    def no_gain(self, drive: str, why: str) -> None:
        """A drive gets no model, for none would be better than admitting every read."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Everything that decides what a trace is trained to, besides the trace.

    Attributes
    ----------
    labels : {"avoidable", "paper"}
        What is taught as slow; see :mod:`linnapp.learn.labelling.labels`.
    auto_bias : bool
        Choose the bias by :func:`~linnapp.learn.network.bias.choose_bias`.
    reader : dict
        Options of :func:`~linnapp.trace.recorded.open_recording`.
    kind : {"network", "latency"}
        Of the latter's training, labelling, seed, slices and `max_refused` are all that there is
        to choose.
    max_refused : float, optional
        Share of the fast reads of the training slice and of the validation slice that a model may
        refuse; 1 is no limit. By the kind unless given.
    even_if_worse : bool
        Make a network even if, by the validation slice, it is not better than admitting every
        read, by more than chance. A latency model of which that holds refuses nothing.
    prior : bool
        With a latency model: where the drive's own reads teach no trees, take the prior
        (:mod:`linnapp.learn.trees.prior`) unless they show it worse than one number. Not by itself:
        md, which follows it at once, was slower by it on calm traces of few hundred reads.
    hedge_percentile : float
        With a latency model: a read is late when it takes longer than so many percent do of those
        that are predicted to take as long.
    """

    labelling: LabellingOptions = dataclasses.field(default_factory=LabellingOptions)
    training: TrainingOptions = dataclasses.field(default_factory=TrainingOptions)
    labels: Labels = "avoidable"
    auto_bias: bool = True
    reader: dict[str, Any] = dataclasses.field(default_factory=dict)
    kind: Kind = "network"
    max_refused: float | None = None
    even_if_worse: bool = False
    hedge_percentile: float = 99.0
    prior: bool = False

    def __post_init__(self) -> None:
        check_kind("labelling", self.labelling, LabellingOptions)
        check_kind("training", self.training, TrainingOptions)
        check_kind("reader", self.reader, dict)
        check_options(self.reader)
        check_choice("kind", self.kind, KINDS)
        check_choice("labels", self.labels, LABELS)
        check_flag("auto_bias", self.auto_bias)
        check_flag("even_if_worse", self.even_if_worse)
        check_flag("prior", self.prior)
        if self.max_refused is not None:
            check_number("max_refused", self.max_refused, 0, 1)
        check_number("hedge_percentile", self.hedge_percentile, 0, 100, open_ends="low high")

    @property
    def refused_limit(self) -> float:
        """Which share of the fast reads a model may refuse."""
        return MAX_REFUSED_FAST[self.kind] if self.max_refused is None else self.max_refused


class _Labelling(TypedDict, total=False):
    method: Method
    replicas: int
    failover_us: float
    by_size: bool
    threshold_us: int | None
    search: Search


class _Both(_Labelling, total=False):
    seed: int
    validation_share: float
    test_share: float
    max_refused: float | None
    observer: Observer


class LatencyOptions(_Both, total=False):
    """Options of a latency model: those of :class:`Recipe` and its parts that say something."""

    hedge_percentile: float
    prior: bool


class NetworkOptions(_Both, total=False):
    """Options of a network; `bias` is a number, or "auto", which takes the best of several."""

    labels: Labels
    even_if_worse: bool
    bias: float | Literal["auto"]
    n_hidden: int
    max_epochs: int | None
    patience_epochs: int
    learning_rate: float
    burst_share: float
    standardise: bool
    weight_decay: float


OPTIONS: dict[Kind, tuple[str, ...]] = {
    "network": tuple(sorted(NetworkOptions.__annotations__)),
    "latency": tuple(sorted(LatencyOptions.__annotations__)),
}


def recipe_of(
    kind: Kind, given: Mapping[str, Any], *, reader: dict[str, Any] | None = None
) -> Recipe:
    """A recipe from options by name.

    Parameters
    ----------
    given : mapping
        As :class:`NetworkOptions` or :class:`LatencyOptions` says; an `observer` is none of its.
        A `bias` that is a number is meant: unless `max_refused` says else, it is not limited.
    """
    check_names(f"fit_{kind}", given, OPTIONS[kind])
    if given.get("observer") is not None:
        check_kind("observer", given["observer"], Observer)
    options = {name: value for name, value in given.items() if name != "observer"}
    bias = options.pop("bias", "auto")
    if bias != "auto":
        check_number("bias", bias, 0, 1e6, open_ends="low")
        options["bias"] = bias
        if options.get("max_refused") is None:
            options["max_refused"] = 1.0
    parts: list[dict[str, Any]] = [
        {
            field.name: options.pop(field.name)
            for field in dataclasses.fields(part)
            if field.name in options
        }
        for part in (LabellingOptions, TrainingOptions)
    ]
    return Recipe(
        LabellingOptions(**parts[0]),
        TrainingOptions(**parts[1]),
        kind=kind,
        auto_bias=bias == "auto",
        reader=reader or {},
        **options,
    )
