# SPDX-License-Identifier: MIT
"""Explain a model's decisions: show their inputs, and which of these were most important.

The model is treated as a black box. The importance of an input is the change of the output when
this input alone is replaced by its typical value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import engine
from linnapp.engine import digits, predict_us, without_location
from linnapp.errors import TraceError
from linnapp.model import (
    CAP,
    FEATURES,
    KERNEL_HIDDEN,
    LATENCY_DIGITS,
    LATER,
    NOW,
    PENDING_DIGITS,
    LatencyModel,
    Model,
)
from linnapp.native import HISTORY
from linnapp.trace import decisions
from linnapp.trace.blktrace import ERROR, REVOKED, IoChunk, format_device, parse_device
from linnapp.trace.reads import LoggedDrive, Recorded, name_of, open_recording

NOTE_ON_RECORDINGS = (
    "recordings do not show which reads were latency-critical; all reads are treated as such"
)

#: fields of a decision that are copied to the JSON output
_COPIED_FIELDS = ("time_us", "sector", "n_sectors", "out_fast", "out_slow")

AnyModel = Model | LatencyModel
Table = npt.NDArray[Any]
Numbers = npt.NDArray[np.uint32]


@dataclasses.dataclass(frozen=True)
class Choice:
    """Selection of decisions: the newest ones, or the slowest admitted reads."""

    last: int = 10
    slow: bool = False

    def take(self, table: Table, threshold_us: int) -> Table:
        """Return the newest rows in order of time or, with `slow`, the slowest rows.

        With `slow`, all of them have a latency above `threshold_us`, and the slowest is first.
        """
        if not self.slow:
            return table[-self.last :]
        late = table[table["latency_us"] > threshold_us]
        return late[np.argsort(-late["latency_us"], kind="stable")[: self.last]]


class View:
    """A model of either kind as a function with named inputs and two outputs.

    The outputs are those of the kernel's trace event, and a read is classified as slow if the
    second one is larger. The inputs of a network are the numbers that its digits encode, and its
    outputs those for fast and for slow. The inputs of a latency model are its features, and its
    outputs the latency above which reads are refused, and the predicted latency.

    Attributes
    ----------
    model : Model or LatencyModel
    names : sequence of str
        Names of the inputs.
    empty : list of int
        Inputs for a read of one page on an idle drive without history.
    """

    _HIGHEST = np.repeat(
        (10**PENDING_DIGITS - 1, 10**LATENCY_DIGITS - 1), (HISTORY + 1, HISTORY)
    ).astype(np.uint32)

    def __init__(self, model: AnyModel) -> None:
        self.model = model
        if isinstance(model, LatencyModel):
            self.names: Sequence[str] = FEATURES
            self.empty = [CAP if name[:3] == "age" else int(name == "pages") for name in FEATURES]
            self._drive = LoggedDrive(model.overdue_us)
            return
        reads = [f"{nth}last read" for nth in ("4th ", "3rd ", "2nd ", "")]
        pending = [f"pages pending at the {read}" for read in reads]
        self.names = [*pending, "pages pending now", *(f"us of the {read}" for read in reads)]
        self.empty = [0] * HISTORY + [1] + [0] * HISTORY
        # The kernel's own code is used if it supports the model, because it needs little memory.
        self._engine: engine.Engine = "c" if model.n_hidden == KERNEL_HIDDEN else "numpy"

    def numbers(self, table: Table) -> Numbers:
        """Return the inputs of each decision, shape (n, k).

        Those of a network are limited to the numbers that its digits can encode.
        """
        if isinstance(self.model, LatencyModel):
            return np.ascontiguousarray(table["features"], np.uint32)
        now = table["pending"][:, np.newaxis]
        seen = np.concatenate([table["hist_pending"], now, table["hist_latency_us"]], axis=1)
        return np.asarray(np.minimum(seen, self._HIGHEST), np.uint32)

    def outputs(self, numbers: Numbers) -> npt.NDArray[np.int64]:
        """Return both outputs of each row, shape (n, 2)."""
        if isinstance(self.model, LatencyModel):
            us = predict_us(self.model, numbers).astype(np.int64)
            return np.stack([np.full_like(us, self.model.refuse_us), us], axis=1)
        vectors = digits(numbers[:, HISTORY], numbers[:, :HISTORY], numbers[:, HISTORY + 1 :])
        return engine.infer(self.model, vectors, self._engine)

    def named(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the values by the names of the trace event or of the features."""
        if isinstance(self.model, LatencyModel):
            return dict(zip(FEATURES, values, strict=True))
        past, now, latencies = values[:HISTORY], values[HISTORY], values[HISTORY + 1 :]
        return {"pending": now, "hist_pending": list(past), "hist_latency_us": list(latencies)}

    def decided(self, chunk: IoChunk) -> Table:
        """Return the model's decisions about the next reads of a recording, if they had the hint.

        For a latency model, only served reads are included, because only they have features.
        """
        is_latency = isinstance(self.model, LatencyModel)
        features = without_location(self._drive.features_of(chunk)) if is_latency else 0
        reads = chunk.take(chunk.is_served_read if is_latency else chunk.is_read)
        table = np.zeros(len(reads), decisions.DECISION)
        table["time_us"] = reads.arrival_ns // np.uint64(1000)
        table["sector"] = reads.sector
        table["n_sectors"] = reads.size_bytes // np.uint32(512)
        for name in ("pending", "hist_pending", "hist_latency_us"):
            table[name] = getattr(reads, name)
        table["of_latency"], table["features"] = is_latency, features
        table["revoked"] = (reads.flags & REVOKED) != 0
        table["failed"] = ((reads.flags & ERROR) != 0) & ~table["revoked"]
        served_us = reads.latency_ns // np.uint64(1000)
        table["latency_us"] = np.where(reads.is_served_read, served_us, decisions.UNKNOWN)
        if len(reads):
            table["out_fast"], table["out_slow"] = self.outputs(self.numbers(table)).T
        slow = table["out_slow"] > table["out_fast"]
        table["reason"] = np.where(slow, decisions.SLOW, decisions.FAST)
        return table

    def is_maker_of(self, table: Table) -> npt.NDArray[np.bool_]:
        """Return true for decisions that agree with this model's kind and outputs."""
        made = np.asarray(table["of_latency"] == isinstance(self.model, LatencyModel))
        outputs = np.stack([table["out_fast"], table["out_slow"]], axis=1)[made]
        made[made] = (self.outputs(self.numbers(table[made])) == outputs).all(axis=1)
        return made


@dataclasses.dataclass(frozen=True)
class Selection:
    """Selected decisions: tables of :data:`linnapp.trace.decisions.DECISION`."""

    #: name of a drive or file
    source: str
    #: the model that made the decisions, or would have made them
    view: View
    #: `chosen`: the decisions to explain. `recent`: the newest decisions, from which typical inputs
    #: are computed.
    chosen: Table
    recent: Table
    n_seen: int
    #: remarks on data that was left out
    notes: list[str]


@dataclasses.dataclass(frozen=True)
class TypicalInputs:
    """Typical inputs of a model, how they were obtained, and the outputs for them."""

    name: str
    numbers: list[int]
    out_fast: int
    out_slow: int


@dataclasses.dataclass(frozen=True)
class Explanation:
    """One decision."""

    row: Any
    #: `names`, `numbers`: the inputs
    names: Sequence[str]
    numbers: list[int]
    #: Importance of each input: the margin (second output minus first) minus the margin for the
    #: typical value of this input.
    matters: list[int]
    outcome: str

    @property
    def slow(self) -> bool:
        """True if the read was classified as slow."""
        return bool(self.row["out_slow"] > self.row["out_fast"])

    def to_json(self, view: View) -> dict[str, Any]:
        """Return all fields by name."""
        row, known = self.row, self.row["latency_us"] != decisions.UNKNOWN
        return {
            **{name: int(row[name]) for name in _COPIED_FIELDS},
            "saw": view.named(self.numbers),
            "predicted": "slow" if self.slow else "fast",
            "mattered": view.named(self.matters),
            "reason": decisions.REASONS[int(row["reason"])],
            "revoked": bool(row["revoked"]),
            "latency_us": int(row["latency_us"]) if known else None,
            "outcome": self.outcome,
        }


def from_events(
    text: bytes, model: AnyModel, choice: Choice, source: str, *, device: str | None = None
) -> Selection:
    """Select decisions from the kernel's trace events.

    `text` has the format that :mod:`linnapp.trace.decisions` reads. `device`, as
    "major:minor", selects one of several drives.
    """
    view = View(model)
    try:
        table = decisions.parse_decisions(text)
        decisions.add_answers(text, table)
    except (OverflowError, ValueError, KeyError, TraceError) as error:
        raise TraceError(
            f"{source}: an event is damaged or from an unsupported kernel: {error}"
        ) from error
    notes = []
    if lost := decisions.lost_events(text):
        notes.append(f"{lost} older events did not fit the buffer")
    if device is not None:
        table = table[table["device"] == parse_device(device)]
    found = np.unique(table["device"]).tolist()
    if len(found) > 1:
        names = ", ".join(format_device(number) for number in found)
        raise TraceError(
            f"{source}: decisions of several drives ({names}); choose one with `device=`"
        )
    without = table["reason"] == decisions.NO_MODEL
    if without.any():
        notes.append(f"{np.count_nonzero(without)} decisions without a model left out")
    table = table[~without]
    if not len(table):
        raise TraceError(
            f"{source}: contains no decision; decisions are made only for reads with the hint "
            "RWF_LATCRIT, while a model is active and the mode is not off"
        )
    same = view.is_maker_of(table)
    if not same.any():
        raise TraceError(
            f"{source}: no decision was made by model {model.model_id}; name the model that was "
            "active then with `model=`"
        )
    if not same.all():
        notes.append(f"{np.count_nonzero(~same)} decisions of another model left out")
        table = table[same]
    # Exclude reads that were still in flight, because their latency is not known. Otherwise they
    # would be the newest decisions.
    answered = table["revoked"] | (table["latency_us"] != decisions.UNKNOWN)
    if answered.any() and not answered.all():
        notes.append(f"{np.count_nonzero(~answered)} reads without a recorded completion left out")
        table = table[answered]
    elif not answered.any():
        notes.append(
            "no completion was recorded; latencies are known if the events block_rq_issue and "
            "block_rq_complete are recorded too"
        )
    return Selection(source, view, choice.take(table, model.threshold_us), table, len(table), notes)


def from_recording(trace: Recorded, model: AnyModel, choice: Choice, **reader: Any) -> Selection:
    """Select decisions that the model would have made about the reads of a recording.

    `reader` is passed to :func:`~linnapp.trace.reads.open_recording`.
    """
    view = View(model)
    if isinstance(model, LatencyModel):
        reader["overdue_us"] = model.overdue_us
    empty = np.zeros(0, decisions.DECISION)
    chosen = previous = recent = empty
    n_seen = 0
    for chunk in open_recording(trace, **reader):
        table = view.decided(chunk)
        if not len(table):
            continue
        n_seen += len(table)
        chosen = choice.take(np.concatenate([chosen, table]), model.threshold_us)
        previous, recent = recent, table
    if not n_seen:
        raise TraceError(f"{trace}: contains no completed read to explain")
    recent = np.concatenate([previous, recent])
    return Selection(name_of(trace), view, chosen, recent, n_seen, [NOTE_ON_RECORDINGS])


def typical_inputs(selection: Selection) -> TypicalInputs:
    """Return the medians of the inputs of reads that were predicted fast.

    If there are none, return the inputs of a read on an idle drive without history.
    """
    view = selection.view
    name, numbers = "an empty history", view.empty
    fast = selection.recent[selection.recent["out_slow"] <= selection.recent["out_fast"]]
    if len(fast):
        name = f"the medians of {len(fast)} reads predicted fast"
        numbers = np.sort(view.numbers(fast), axis=0)[(len(fast) - 1) // 2].tolist()
    ((out_fast, out_slow),) = view.outputs(np.array([numbers], np.uint32)).tolist()
    return TypicalInputs(name, numbers, out_fast, out_slow)


def explain(selection: Selection, typical: TypicalInputs) -> list[Explanation]:
    """Explain the selected decisions in their order."""
    view = selection.view
    found = []
    for row, numbers in zip(selection.chosen, view.numbers(selection.chosen), strict=True):
        # The actual inputs, then one row for each input with its typical value instead.
        rows = np.tile(numbers, (len(numbers) + 1, 1))
        rows[np.arange(len(numbers)) + 1, np.arange(len(numbers))] = typical.numbers
        margins = np.diff(view.outputs(rows))[:, 0]
        matters = (margins[0] - margins[1:]).tolist()
        words = outcome(row, selection.view.model)
        found.append(Explanation(row, view.names, numbers.tolist(), matters, words))
    return found


def outcome(row: Any, model: AnyModel) -> str:
    """Describe the result of a decided read."""
    if row["revoked"]:
        return "revoked; its latency on this drive is unknown"
    why = "admitted as a probe" if row["reason"] == decisions.PROBE else ""
    predicted_slow = bool(row["out_slow"] > row["out_fast"])
    words = why or ("predicted slow and admitted" if predicted_slow else "admitted")
    latency_us = int(row["latency_us"])
    if row["failed"]:
        return f"{words}; failed"
    if latency_us == decisions.UNKNOWN:
        return f"{words}; its completion was not recorded"
    slow = latency_us > model.threshold_us
    result = f"{words}; took {latency_us} us, {'slow' if slow else 'fast'}"
    # A latency model that refuses no reads does not classify them as fast or slow.
    if not getattr(model, "refuses", True):
        return result
    assessment = {
        (True, True): "correct",
        (True, False): "refusing it would have been a false revoke",
        (False, True): "a slow read admitted",
        (False, False): "correct",
    }[predicted_slow, slow]
    return f"{result}: {assessment}"


#: Number of inputs that a description names, in order of importance.
_MOST_IMPORTANT = 3


def describe_model(model: AnyModel) -> str:
    """Describe a model and its thresholds."""
    if not isinstance(model, LatencyModel):
        return f"model {model.model_id}, slow above {model.threshold_us} us"
    threshold = f"refuses above {model.refuse_us} us"
    return f"latency model {model.model_id}, slow above {model.threshold_us} us, " + (
        threshold if model.refuses else "refuses nothing"
    )


def describe_typical(model: AnyModel, typical: TypicalInputs) -> str:
    """Describe the typical inputs and the outputs for them."""
    outputs = _format_outputs(model, typical.out_fast, typical.out_slow)
    return f"typical is {typical.name}: {_format_inputs(model, typical.numbers)}; {outputs}"


def format_decision(model: AnyModel, each: Explanation, typical: TypicalInputs) -> str:
    """Format a decision as a paragraph with a line for each of the most important inputs."""
    row, verdict = each.row, "slow" if each.slow else "fast"
    outputs = _format_outputs(model, int(row["out_fast"]), int(row["out_slow"]))
    if isinstance(model, LatencyModel):
        verdict = f": {verdict}" if model.refuses else ""
        oldest_us = each.numbers[FEATURES.index("oldest_us")]
        if oldest_us - model.overdue_us == row["out_slow"]:
            verdict += ", by the oldest read in flight"
    else:
        verdict = f", {verdict}"
        outputs = f"fast {row['out_fast']:,}, slow {row['out_slow']:,}: {outputs}"
    lines = [
        f"{row['time_us'] / 1e6:.6f} s, read of {row['n_sectors'] / 2:g} KiB at sector "
        f"{row['sector']}",
        f"  saw       {_format_inputs(model, each.numbers)}",
        f"  said      {outputs}{verdict}",
        f"  happened  {each.outcome}",
    ]
    unit = " us" if isinstance(model, LatencyModel) else ""
    by_weight = sorted(range(len(each.names)), key=lambda i: -abs(each.matters[i]))
    most = [i for i in by_weight[:_MOST_IMPORTANT] if each.matters[i]]
    amounts = [f"{each.matters[i]:+,}{unit}" for i in most]
    for i, amount in zip(most, amounts, strict=True):
        head = "mattered" if i == most[0] else ""
        values = f"{each.names[i]} {each.numbers[i]}, not {typical.numbers[i]}"
        lines.append(f"  {head:8}  {amount:>{max(map(len, amounts))}}  {values}")
    return "\n".join(lines)


def _format_outputs(model: AnyModel, out_fast: int, out_slow: int) -> str:
    if isinstance(model, LatencyModel):
        return f"{out_slow:,} us"
    return f"margin {out_slow - out_fast:+,}"


def _format_inputs(model: AnyModel, numbers: list[int]) -> str:
    """Format the inputs, newest read first. docs/formats.md defines a latency model's names."""
    if not isinstance(model, LatencyModel):
        pending, now, latency = numbers[:HISTORY], numbers[HISTORY], numbers[HISTORY + 1 :]
        past = list(zip(latency[::-1], pending[::-1], strict=True))
        first = f"{now} page{'s' * (now != 1)} pending"
    else:
        saw = dict(zip(FEATURES, numbers, strict=True))
        ago = range(1, HISTORY + 1)
        past = [(saw[f"latency_us_{n}"], saw[f"pending_{n}"]) for n in ago]
        first = ", ".join(f"{name} {saw[name]}" for name in NOW + LATER)
    return f"{first}; last reads " + ", ".join(f"{us} us at {pages}" for us, pages in past)
