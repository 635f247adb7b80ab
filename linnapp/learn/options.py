# SPDX-License-Identifier: MIT
"""Training configuration, and the observer that receives progress reports.

The options are declared here once: checks, flags of the command line and keywords of the library
follow from the declarations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from linnapp.arguments import (
    check_kind,
    check_names,
    check_number,
    check_options_of,
    option,
    options_in,
)
from linnapp.trace.reads import IoTable, Recorded, check_options, held

if TYPE_CHECKING:
    from linnapp.learn.labels import InflectionPoint
    from linnapp.learn.network import Epoch
    from linnapp.model import LatencyModel, Model

#: Cost of a failover in us, in addition to the next replica's latency, as in the paper.
FAILOVER_US = 15.0

#: Kinds of models: the paper's network, which predicts slow or fast, and trees, which predict the
#: latency of a read.
Kind = Literal["network", "latency"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Search = Literal["wide", "paper"]

Labels = Literal["avoidable", "paper"]
LABELS: tuple[Labels, ...] = get_args(Labels)

#: Names of the reads whose loss is multiplied by the bias; see :func:`linnapp.learn.network.hinge`.
LOSSES = ("false-submits", "slow-reads")

#: Maximum share of the fast reads of the training slice and of the validation slice that is
#: refused, by kind of model. The share of later reads can be larger.
MAX_REFUSED_FAST = {"network": 0.15, "latency": 0.10}


@dataclasses.dataclass(frozen=True)
class LabellingOptions:
    """Options for finding inflection points.

    Attributes
    ----------
    replicas : int
        Number of drives that hold each block, at most the number of drives in the array. A single
        drive represents all replicas. If the array has more drives than replicas, the other copies
        of a block are on random drives.
    failover_us : float
        Cost of a failover in us.
    threshold_us : int, optional
        Use this inflection point for all drives instead of searching.
    search : {"wide", "paper"}
        Extend the search while the best candidate is at an end of its range, or limit it to ten
        percentiles like the paper.
    """

    replicas: int = option(
        3,
        2,
        whole=True,
        flag_high=100,
        help="Number of drives that hold each block; with several traces at most their number.",
    )
    failover_us: float = option(FAILOVER_US, 0, 1e9, help="Cost of a failover in us.")
    threshold_us: int | None = option(
        None,
        1,
        2**32 - 1,
        whole=True,
        help="Use this inflection point instead of searching for one.",
    )
    search: Search = option(
        "wide",
        choices=get_args(Search),
        help="Range of the search around the knee of the CDF: extend it while the best candidate "
        "is at its end (wide), or ten percentiles on either side, as in the paper (paper).",
    )

    def __post_init__(self) -> None:
        check_options_of(self)


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """Options of training. A latency model uses only the seed and the shares of the slices.

    Attributes
    ----------
    bias : float
        Multiplies the loss of the reads that `loss` names.
    loss : {"false-submits", "slow-reads"}
        "false-submits", as in the paper: slow reads that the network currently predicts to be fast.
        "slow-reads": every slow read, however it is predicted.
    seed : int
        Seed of all random choices.
    n_hidden : int
        Number of hidden units.
    max_epochs : int, optional
        Maximum number of epochs. The default depends on the length of the trace.
    patience_epochs : int
        Stop after this number of epochs without a lower validation loss.
    validation_share, test_share : float
        Shares of the reads that are reserved for validation and for testing; see
        :func:`linnapp.learn.examples.split`.
    learning_rate : float
        Learning rate of Adam.
    burst_share : float
        Share of synthetic bursts among the training examples, and their weight in the validation
        loss. 0 trains on the recording alone, as in the paper.
    """

    bias: float = option(2.0, 0, open_ends="low", kinds=("network",))
    loss: str = option(LOSSES[0], choices=LOSSES, kinds=("network",))
    seed: int = option(
        1, 0, 2**32 - 1, whole=True, help="Equal seeds give equal models, bit for bit."
    )
    n_hidden: int = option(256, 1, whole=True, kinds=("network",))
    max_epochs: int | None = option(
        None,
        1,
        whole=True,
        kinds=("network",),
        flag="--epochs",
        flag_high=1_000_000,
        help="At most; from the trace's length if not given.",
    )
    patience_epochs: int = option(5, 1, whole=True, kinds=("network",))
    validation_share: float = option(0.15, 0, 1, open_ends="low high")
    test_share: float = option(0.15, 0, 1, open_ends="low high")
    learning_rate: float = option(1e-3, 0, open_ends="low", kinds=("network",))
    burst_share: float = option(0.3, 0, 1, open_ends="high", kinds=("network",))

    def __post_init__(self) -> None:
        check_options_of(self)
        both = self.validation_share + self.test_share
        check_number("validation_share + test_share", both, 0, 1, open_ends="high")


class Observer:
    """Receives progress reports while an array is trained. The methods of this class do nothing."""

    def reading(self, drive: str, done_bytes: int, total_bytes: int) -> None:
        """Called while a trace is being read."""

    def labelled(self, drive: str, point: InflectionPoint, n_reads: int) -> None:
        """Called when the inflection point of a drive has been found from `n_reads` reads."""

    def candidate(self, drive: str, bias: float, mean_us: float) -> None:
        """Called after a bias was tried. The array's expected mean read latency is `mean_us`."""

    def epoch(self, drive: str, epoch: Epoch) -> None:
        """Called after an epoch."""

    def trained(self, drive: str, model: Model | LatencyModel, record: dict[str, Any]) -> None:
        """Called when the model of a drive is complete."""

    def no_gain(self, drive: str, why: str) -> None:
        """Called if a drive gets no model because none is better than admitting every read."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Training configuration: everything except the trace that determines the result.

    Attributes
    ----------
    labelling : LabellingOptions
    training : TrainingOptions
    labels : {"avoidable", "paper"}
        Definition of a slow read in training; see :mod:`linnapp.learn.labels`.
    auto_bias : bool
        Choose the bias by :func:`~linnapp.learn.network.choose_bias`.
    reader : dict
        Options of :func:`~linnapp.trace.reads.open_recording`.
    kind : {"network", "latency"}
        Kind of model. A latency model uses only the seed and the slices of `training`, and
        `labelling`, `reader`, `max_refused` and `prior`.
    max_refused : float, optional
        Maximum share of the fast reads of the training slice and of the validation slice that a
        model may refuse. 1 means no limit. The default depends on the kind.
    even_if_worse : bool
        Return a network even if it is not significantly better than admitting every read of the
        validation slice. (A latency model without a significant gain refuses no reads.)
    prior : bool
        For a latency model: if the drive's own reads are too few for trees, use the prior
        (:mod:`linnapp.learn.trees`) unless the reads show that it is worse than a constant.
        Without it, such a recording gives no model.
    check_losses : bool
        Raise TraceError if too many events were lost in a recording.
    """

    labelling: LabellingOptions = dataclasses.field(default_factory=LabellingOptions)
    training: TrainingOptions = dataclasses.field(default_factory=TrainingOptions)
    labels: Labels = option("avoidable", choices=LABELS, kinds=("network",))
    auto_bias: bool = option(default=True, kinds=())
    reader: dict[str, Any] = dataclasses.field(default_factory=dict)
    kind: Kind = option("network", choices=KINDS, kinds=())
    max_refused: float | None = option(
        None,
        0,
        1,
        flag_open=True,
        help="Maximum share of the fast reads of the training and of the validation slice that a "
        f"model may refuse. Default: {MAX_REFUSED_FAST['network']:g} for a network, but 1 (no "
        f"limit) if --bias is a number; {MAX_REFUSED_FAST['latency']:g} for a latency model.",
    )
    even_if_worse: bool = option(
        default=False,
        kinds=("network",),
        help="Write a network even if it is not significantly better on the validation slice than "
        "admitting every read.",
    )
    prior: bool = option(default=True, kinds=("latency",))
    check_losses: bool = option(default=False, kinds=())

    def opened(
        self,
        trace: Recorded,
        on_progress: Callable[[int, int], None] | None = None,
        *,
        complete: bool = False,
    ) -> tuple[Recorded, Recipe]:
        """Return the recording, in memory if it fits, and the configuration to read it with.

        If the configuration is that of a latency model, the table has only the columns for it,
        except with `complete`. `on_progress` is that of :func:`~linnapp.trace.reads.held`.
        """
        for_latency = self.kind == "latency" and not complete
        recording = held(trace, on_progress=on_progress, for_latency=for_latency, **self.reader)
        # The options have already been applied to a recording in memory.
        reader = {} if isinstance(recording, IoTable) else self.reader
        return recording, dataclasses.replace(self, reader=reader)

    def __post_init__(self) -> None:
        check_kind("labelling", self.labelling, LabellingOptions)
        check_kind("training", self.training, TrainingOptions)
        check_kind("reader", self.reader, dict)
        check_options(self.reader)
        check_options_of(self)

    @property
    def refused_limit(self) -> float:
        """Maximum share of the fast reads that a model may refuse."""
        return MAX_REFUSED_FAST[self.kind] if self.max_refused is None else self.max_refused


#: Names of the options of :func:`recipe_of`, by kind of model.
OPTIONS: dict[Kind, tuple[str, ...]] = {
    kind: tuple(
        sorted(
            {"observer"}
            | {
                name
                for owner in (LabellingOptions, TrainingOptions, Recipe)
                for name, (declared, _) in options_in(owner).items()
                if kind in declared.kinds
            }
        )
    )
    for kind in KINDS
}


def recipe_of(
    kind: Kind, given: Mapping[str, Any], *, reader: dict[str, Any] | None = None
) -> Recipe:
    """Make a training configuration from options by name.

    Parameters
    ----------
    kind : {"network", "latency"}
    given : mapping
        Options of `OPTIONS`. `bias` may be "auto", which selects the best of several. If it is a
        number, the default of `max_refused` is 1 (no limit), so that the bias has its full effect.
        An `observer` is checked, but is not part of the result.
    reader : dict, optional
        Options of :func:`~linnapp.trace.reads.open_recording`.

    Raises
    ------
    TypeError, ValueError
        If an option is unknown or its value is invalid.
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
