# SPDX-License-Identifier: MIT
"""Expected latencies of reads, recorded or decided by the kernel, and what they are made of.

The trees of a latency model add up to a logarithm, so that each feature multiplies what is
expected. Its part is its Shapley value, as for the network (:mod:`linnapp.learn.attribution`), but
found leaf by leaf: a leaf is reached by those mixtures of the input and the reference that take
some features from the one and some from the other, and such a game has its values in closed form.
The parts add up to the difference of the two sums exactly.

S. M. Lundberg et al., "From local explanations to global understanding with explainable AI for
trees", Nature Machine Intelligence 2020.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.learn.attribution import attribute, whole
from linnapp.learn.explanation import Choice, Looked, answered_of_model, decided, outcome
from linnapp.model import LatencyModel
from linnapp.model.latency_engine import predict_us
from linnapp.model.latency_model import CAP, FEATURES, FRACTION_BITS, LATENCIES, N_FEATURES
from linnapp.trace import decisions
from linnapp.trace.blktrace import IoChunk, format_device
from linnapp.trace.logged_drive import LoggedDrive
from linnapp.trace.recorded import Recorded, open_recording

#: what the parts count: 1024ths of a doubling, or without trees us
LOG_UNIT = f"log2 us / {1 << FRACTION_BITS}"

_OLDEST = FEATURES.index("oldest_us")

_DECISION = np.dtype(
    [
        ("time_us", "<i8"),
        ("sector", "<u8"),
        ("n_sectors", "<u4"),
        ("features", "<u4", N_FEATURES),
        ("predicted_us", "<u4"),
        ("latency_us", "<i8"),
        # Of a decision of the kernel's, as its trace event has them.
        ("decided", "?"),
        ("out_fast", "<i8"),
        ("out_slow", "<i8"),
        ("revoked", "?"),
        ("reason", "u1"),
        ("failed", "?"),
        ("n_peers", "u1"),
        ("soonest_peer", "<u4"),
        ("soonest_us", "<i8"),
    ]
)


class LatencyPredictor:
    """A latency model as :func:`~linnapp.learn.attribution.attribute` takes it: by its us."""

    def __init__(self, model: LatencyModel) -> None:
        self._model = model

    def margins(self, numbers: npt.NDArray[np.uint32]) -> list[int]:
        """The expected latency of each row in us."""
        return [int(us) for us in predict_us(self._model, numbers)]

    def slow(self, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Whether each row is expected to take longer than is worth waiting for."""
        return np.asarray(predict_us(self._model, numbers) > self._model.refuse_us)


@dataclasses.dataclass(frozen=True)
class LatencyReference:
    """What inputs are held against.

    Attributes
    ----------
    name : str
    numbers : list of int
        In the order of ``FEATURES``.
    total : int
        What the trees add up to; without trees the expected latency.
    predicted_us : int
    """

    name: str
    numbers: list[int]
    total: int
    predicted_us: int

    def to_json(self) -> dict[str, Any]:
        """All fields by name."""
        return {
            "name": self.name,
            "saw": dict(zip(FEATURES, self.numbers, strict=True)),
            "total": self.total,
            "predicted_us": self.predicted_us,
        }


@dataclasses.dataclass(frozen=True)
class LatencyExplanation:
    """One read, and what was expected of it.

    Attributes
    ----------
    time_us, sector, n_sectors : int
    numbers : list of int
        In the order of ``FEATURES``.
    total : int
        What the trees add up to; without trees the expected latency.
    parts : list of int
        Of each feature in `total` beyond the reference's; with it they add up to `total`.
    predicted_us, refuse_us : int
        Expected, and from when on that is not worth waiting for.
    least_us : int
        What the oldest read in flight says; the prediction is never less.
    turns : list of int or None
        For each feature the nearest value that alone would turn the verdict.
    latency_us : int or None
        What the drive took, if that is known.
    slow : bool or None
        Whether that was longer than the model's point.
    peers : dict or None
        How many were `asked`, the `soonest` of them as "major:minor", and its `soonest_us`; None
        where none was, these two where none could tell.
    outcome : str
        What happened, in words.
    """

    time_us: int
    sector: int
    n_sectors: int
    numbers: list[int]
    total: int
    parts: list[int]
    predicted_us: int
    refuse_us: int
    least_us: int
    turns: list[int | None]
    latency_us: int | None
    slow: bool | None
    peers: dict[str, Any] | None
    outcome: str

    @property
    def refused(self) -> bool:
        """The verdict: not worth waiting for."""
        return self.predicted_us > self.refuse_us

    def nearest(self) -> list[tuple[str, int, int]]:
        """The smallest change of a count, and of a time in us: name, value, and what it was."""
        found = []
        for in_us in (False, True):
            changes = [
                (abs(value - now), name, value, now)
                for name, value, now in zip(FEATURES, self.turns, self.numbers, strict=True)
                if value is not None and ("_us" in name) == in_us
            ]
            if changes:
                found.append(min(changes)[1:])
        return found

    def to_json(self) -> dict[str, Any]:
        """All fields by name."""
        fields = dataclasses.asdict(self)
        for name, shown in (("numbers", "saw"), ("parts", "parts"), ("turns", "would_turn")):
            fields[shown] = dict(zip(FEATURES, fields.pop(name), strict=True))
        return {**fields, "predicted": "slow" if self.refused else "fast"}


class LatencyLooked(Looked[LatencyModel]):
    """Reads that were looked at."""

    @property
    def unit(self) -> str:
        """What parts and totals count."""
        return LOG_UNIT if self.model.n_trees else "us"


def from_recording(
    trace: Recorded, model: LatencyModel, choice: Choice, **reader_options: Any
) -> LatencyLooked:
    """Choose from a recording's reads that the drive answered.

    Parameters
    ----------
    trace : path or IoTable
        See :func:`~linnapp.trace.recorded.open_recording`, which takes `reader_options`.
    model : LatencyModel
    choice : Choice

    Raises
    ------
    TraceError
        If the trace cannot be read or holds no such read.
    """
    drive = LoggedDrive(model.overdue_us)
    chunks = open_recording(trace, overdue_us=model.overdue_us, **reader_options)
    tables = (_expected(chunk, model, drive) for chunk in chunks)
    return LatencyLooked.through(trace, model, tables, choice, "completed read")


def from_events(
    text: bytes, model: LatencyModel, choice: Choice, source: str, *, device: str | None = None
) -> LatencyLooked:
    """Choose from what the kernel's trace events say; as that of :mod:`.explanation`."""
    seen, notes = decided(text, source, device)
    same = seen["of_latency"] & (seen["out_fast"] == model.refuse_us)
    same[same] = predict_us(model, seen["features"][same]) == seen["out_slow"][same]
    seen = answered_of_model(seen, same, model, source, notes)
    table = np.zeros(len(seen), _DECISION)
    for name in set(_DECISION.names or ()) - {"predicted_us", "decided"}:
        table[name] = seen[name]
    table["predicted_us"] = seen["out_slow"]
    table["decided"] = True
    chosen = choice.take(table, model.threshold_us)
    return LatencyLooked(source, model, chosen, table, len(table), notes)


def _expected(chunk: IoChunk, model: LatencyModel, drive: LoggedDrive) -> npt.NDArray[Any]:
    features = drive.features_of(chunk)
    reads = chunk.take(chunk.is_served_read)
    table = np.zeros(len(reads), _DECISION)
    table["time_us"] = reads.arrival_ns // np.uint64(1000)
    table["sector"] = reads.sector
    table["n_sectors"] = reads.size_bytes // np.uint32(512)
    table["features"] = features
    table["predicted_us"] = predict_us(model, features)
    table["latency_us"] = reads.latency_ns // np.uint64(1000)
    return table


def reference_of(looked: LatencyLooked, kind: str) -> LatencyReference:
    """What to hold the reads against.

    Parameters
    ----------
    looked : LatencyLooked
    kind : {"typical", "zeros"}
        The median of each feature over the reads expected to be worth waiting for, or a read of one
        page on an idle drive that has read nothing yet. Where there are none, the latter.
    """
    model = looked.model
    name = "an empty history"
    numbers = [CAP if feature.startswith("age_us") else 0 for feature in FEATURES]
    numbers[FEATURES.index("pages")] = 1
    fast = looked.recent[looked.recent["predicted_us"] <= model.refuse_us]
    if kind == "typical" and len(fast):
        name = f"the medians of {len(fast)} reads predicted fast"
        numbers = np.sort(fast["features"], axis=0)[(len(fast) - 1) // 2].tolist()
    (predicted_us,) = LatencyPredictor(model).margins(np.array([numbers], np.uint32))
    total = tree_total(model, numbers) if model.n_trees else predicted_us
    return LatencyReference(name, numbers, total, predicted_us)


def explain(looked: LatencyLooked, reference: LatencyReference) -> list[LatencyExplanation]:
    """Take the chosen reads' expected latencies apart, in the order in which they were chosen."""
    model = looked.model
    found = []
    for row in looked.chosen:
        numbers = row["features"].tolist()
        known = row["latency_us"] != decisions.UNKNOWN
        found.append(
            LatencyExplanation(
                time_us=int(row["time_us"]),
                sector=int(row["sector"]),
                n_sectors=int(row["n_sectors"]),
                numbers=numbers,
                total=tree_total(model, numbers) if model.n_trees else int(row["predicted_us"]),
                parts=whole(attribute_latency(model, numbers, reference.numbers)),
                predicted_us=int(row["predicted_us"]),
                refuse_us=model.refuse_us,
                least_us=max(0, numbers[_OLDEST] - model.overdue_us),
                turns=turning_values(model, numbers),
                latency_us=int(row["latency_us"]) if known else None,
                slow=bool(row["latency_us"] > model.threshold_us) if known else None,
                peers=_peers(row),
                outcome=_outcome(row, model),
            )
        )
    return found


def _peers(row: Any) -> dict[str, Any] | None:
    if not row["n_peers"]:
        return None
    told = row["soonest_us"] != decisions.UNKNOWN
    return {
        "asked": int(row["n_peers"]),
        "soonest": format_device(int(row["soonest_peer"])) if told else None,
        "soonest_us": int(row["soonest_us"]) if told else None,
    }


def _outcome(row: Any, model: LatencyModel) -> str:
    if row["decided"]:
        return outcome(row, model.threshold_us)
    if not model.refuses:
        return f"took {row['latency_us']} us"
    slow = row["latency_us"] > model.threshold_us
    right = "rightly" if slow == (row["predicted_us"] > model.refuse_us) else "wrongly"
    return f"took {row['latency_us']} us, {'slow' if slow else 'fast'}: {right}"


def tree_total(model: LatencyModel, numbers: Sequence[int]) -> int:
    """What a model's trees add up to: the logarithm of the expected latency."""
    return model.base + sum(leaves[_leaf(splits, numbers)] for splits, leaves in _trees(model))


def attribute_latency(
    model: LatencyModel, numbers: Sequence[int], reference: Sequence[int]
) -> list[Fraction]:
    """Divide the difference between two inputs' totals among the features.

    Parameters
    ----------
    model : LatencyModel
    numbers, reference : sequence of int, length N_FEATURES

    Returns
    -------
    list of Fraction, length N_FEATURES
        Logarithms with ``FRACTION_BITS``; without trees us.
    """
    if not model.n_trees:
        # Only these few matter; the others, made equal, have no part.
        matter = {*LATENCIES, _OLDEST}
        held = [reference[i] if i in matter else numbers[i] for i in range(N_FEATURES)]
        return attribute(LatencyPredictor(model), numbers, held)
    # How often, and with which leaves, a feature decides among so many of the input's features
    # and so many of the reference's.
    counted: Counter[tuple[int, int, int]] = Counter()
    for splits, leaves in _trees(model):
        _count_leaves(splits, leaves, numbers, reference, counted)
    parts = [Fraction(0)] * N_FEATURES
    for (i, of_input, of_reference), value in counted.items():
        # Of all orders of these features, the share in which this one completes the mixture.
        total = of_input + of_reference
        parts[i] += Fraction(
            value * math.factorial(of_input) * math.factorial(of_reference),
            math.factorial(total + 1),
        )
    return parts


def _count_leaves(
    splits: list[int],
    leaves: list[int],
    numbers: Sequence[int],
    reference: Sequence[int],
    counted: Counter[tuple[int, int, int]],
) -> None:
    """Visit the leaves that some mixture reaches."""
    stack: list[tuple[int, dict[int, bool]]] = [(0, {})]
    while stack:
        node, taken = stack.pop()
        if node >= len(splits):
            value = leaves[node - len(splits)]
            of_input = sum(taken.values())
            of_reference = len(taken) - of_input
            for i, from_input in taken.items():
                if from_input:
                    counted[i, of_input - 1, of_reference] += value
                else:
                    counted[i, of_input, of_reference - 1] -= value
            continue
        i, threshold = splits[node] >> 24, splits[node] & CAP
        ways = {True: numbers[i] > threshold, False: reference[i] > threshold}
        if ways[True] == ways[False]:
            stack.append((2 * node + 1 + ways[True], taken))
        elif i in taken:
            stack.append((2 * node + 1 + ways[taken[i]], taken))
        else:
            for from_input, right in ways.items():
                stack.append((2 * node + 1 + right, {**taken, i: from_input}))


def turning_values(model: LatencyModel, numbers: Sequence[int]) -> list[int | None]:
    """For each feature, the nearest other value that alone would turn the verdict.

    The prediction changes only where a split's threshold is passed, the mean of the last latencies
    or the oldest read in flight would pass `refuse_us`: these values are tried, and no other can be
    nearer.

    Returns
    -------
    list of int or None, length N_FEATURES
        None where no value turns it. A read has a page at least.
    """
    predictor = LatencyPredictor(model)
    x = np.asarray(numbers, np.uint32)
    verdict = bool(predictor.slow(x[np.newaxis])[0])
    edges: list[set[int]] = [set() for _ in FEATURES]
    for split in np.unique(model.splits).tolist():
        edges[split >> 24].add(split & CAP)
    edges[_OLDEST].add(model.refuse_us + model.overdue_us)
    if not model.n_trees:
        latencies = sum(numbers[i] for i in LATENCIES)
        for i in LATENCIES:
            edges[i].add(len(LATENCIES) * (model.refuse_us + 1) - 1 - (latencies - numbers[i]))
    found: list[int | None] = []
    for i, feature in enumerate(FEATURES):
        low = 1 if feature == "pages" else 0
        near = {edge + over for edge in edges[i] for over in (0, 1)}
        values = np.array(sorted(v for v in near if low <= v <= CAP), np.int64)
        rows = np.tile(x, (len(values), 1))
        rows[:, i] = values
        turned = values[predictor.slow(rows) != verdict] if len(values) else values
        away = np.abs(turned - numbers[i])
        found.append(int(turned[away.argmin()]) if len(turned) else None)
    return found


def _trees(model: LatencyModel) -> list[tuple[list[int], list[int]]]:
    return list(zip(model.splits.tolist(), model.leaves.tolist(), strict=True))


def _leaf(splits: list[int], numbers: Sequence[int]) -> int:
    node = 0
    while node < len(splits):
        node = 2 * node + 1 + (numbers[splits[node] >> 24] > splits[node] & CAP)
    return node - len(splits)
