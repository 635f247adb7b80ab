# SPDX-License-Identifier: MIT
"""Decisions and why they were made: what was seen, what mattered most, what would have turned it.

A model is looked at from outside. What a number matters is the change of the output when it alone
is as usual; what would turn the verdict is its nearest other value that does, the others unchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.learn.features.digits import digits
from linnapp.model import LatencyModel, Model, engine
from linnapp.model.latency_engine import predict_us
from linnapp.model.latency_model import CAP, FEATURES, LATENCIES, LATER, NOT_ALWAYS, NOW
from linnapp.model.model_file import KERNEL_HIDDEN, LATENCY_DIGITS, PENDING_DIGITS
from linnapp.native import HISTORY
from linnapp.trace.blktrace import ERROR, REVOKED, IoChunk, format_device, parse_device
from linnapp.trace.formats import decisions
from linnapp.trace.logged_drive import LoggedDrive
from linnapp.trace.recorded import Recorded, name_of, open_recording

NOTE_ON_RECORDINGS = (
    "whether the recorded reads were latency-critical is not in a recording; each is taken for one"
)

#: Of a decision, as they are.
_SHOWN = ("time_us", "sector", "n_sectors", "out_fast", "out_slow")

#: Values that are tried at first for a verdict that turns; most turn close by.
_FIRST_TRIED = 128

AnyModel = Model | LatencyModel
Table = npt.NDArray[Any]
Numbers = npt.NDArray[np.uint32]


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which decisions to explain: the newest; or of the slow reads admitted, the slowest."""

    last: int = 10
    slow: bool = False

    def take(self, table: Table, threshold_us: int) -> Table:
        """The chosen rows, in order of time, or the slowest first."""
        if not self.slow:
            return table[-self.last :]
        late = table[table["latency_us"] > threshold_us]
        return late[np.argsort(-late["latency_us"], kind="stable")[: self.last]]


class View:
    """A model as numbers in and two outputs out, as its trace event has them.

    Slow is what has the second output larger. A network's numbers are those that its digits write;
    a latency model's are its features, its outputs what is worth waiting for and what is expected.

    Attributes
    ----------
    model : Model or LatencyModel
    names : sequence of str
        Of the numbers.
    empty : list of int
        They, of a read of one page on an idle drive that has read nothing yet.
    """

    _HIGHEST = np.repeat(
        (10**PENDING_DIGITS - 1, 10**LATENCY_DIGITS - 1), (HISTORY + 1, HISTORY)
    ).astype(np.uint32)

    def __init__(self, model: AnyModel) -> None:
        self.model = model
        self._thresholds: list[list[int]] = [[] for _ in FEATURES]
        if isinstance(model, LatencyModel):
            self.names: Sequence[str] = FEATURES
            self.empty = [CAP if name[:3] == "age" else int(name == "pages") for name in FEATURES]
            self._drive = LoggedDrive(model.overdue_us)
            for split in np.unique(model.splits).tolist():
                self._thresholds[split >> 24].append(split & CAP)
            return
        reads = [f"{nth}last read" for nth in ("4th ", "3rd ", "2nd ", "")]
        pending = [f"pages pending at the {read}" for read in reads]
        self.names = [*pending, "pages pending now", *(f"us of the {read}" for read in reads)]
        self.empty = [0] * HISTORY + [1] + [0] * HISTORY
        # The kernel's own code where it can run the model: it needs no memory to speak of.
        self._engine: engine.Engine = "c" if model.n_hidden == KERNEL_HIDDEN else "numpy"

    def numbers(self, table: Table) -> Numbers:
        """What the model saw of each decision, shape (n, k), as far as it can tell apart."""
        if isinstance(self.model, LatencyModel):
            return np.ascontiguousarray(table["features"], np.uint32)
        now = table["pending"][:, np.newaxis]
        seen = np.concatenate([table["hist_pending"], now, table["hist_latency_us"]], axis=1)
        return np.asarray(np.minimum(seen, self._HIGHEST), np.uint32)

    def outputs(self, numbers: Numbers) -> npt.NDArray[np.int64]:
        """Both outputs of each row; shape (n, 2)."""
        if isinstance(self.model, LatencyModel):
            us = predict_us(self.model, numbers).astype(np.int64)
            return np.stack([np.full_like(us, self.model.refuse_us), us], axis=1)
        vectors = digits(numbers[:, HISTORY], numbers[:, :HISTORY], numbers[:, HISTORY + 1 :])
        return engine.infer(self.model, vectors, self._engine)

    def values(self, i: int, row: Numbers, n_sectors: int) -> npt.NDArray[np.int64]:
        """Values of number `i`, rising, among which is the nearest that turns a row's verdict."""
        if not isinstance(self.model, LatencyModel):
            # This read itself is among what is pending.
            own_pages = min(max(1, -(-n_sectors // 8)), int(row[HISTORY]))
            return np.arange(own_pages if i == HISTORY else 0, int(self._HIGHEST[i]) + 1)
        # A prediction changes only where a split's threshold is passed, the mean of the last
        # latencies or the oldest read in flight would be too long.
        edges, refuse_us = list(self._thresholds[i]), self.model.refuse_us
        if FEATURES[i] == "oldest_us":
            edges.append(refuse_us + self.model.overdue_us)
        elif i in LATENCIES and not self.model.n_trees:
            others = int(row[list(LATENCIES)].sum(dtype=np.int64)) - int(row[i])
            edges.append(len(LATENCIES) * (refuse_us + 1) - 1 - others)
        values = np.unique(np.array([edges, [edge + 1 for edge in edges]], np.int64))
        return values[(values >= int(FEATURES[i] == "pages")) & (values <= CAP)]

    def named(self, values: Sequence[Any]) -> dict[str, Any]:
        """A value for each number, by the trace event's names, or the features'."""
        if isinstance(self.model, LatencyModel):
            return dict(zip(FEATURES, values, strict=True))
        past, now, latencies = values[:HISTORY], values[HISTORY], values[HISTORY + 1 :]
        return {"pending": now, "hist_pending": list(past), "hist_latency_us": list(latencies)}

    def decided(self, chunk: IoChunk) -> Table:
        """A recording's next reads as decisions; by a latency model, those that were answered."""
        latency = isinstance(self.model, LatencyModel)
        features = self._drive.features_of(chunk) if latency else 0
        reads = chunk.take(chunk.is_served_read if latency else chunk.is_read)
        table = np.zeros(len(reads), decisions.DECISION)
        table["time_us"] = reads.arrival_ns // np.uint64(1000)
        table["sector"] = reads.sector
        table["n_sectors"] = reads.size_bytes // np.uint32(512)
        for name in ("pending", "hist_pending", "hist_latency_us"):
            table[name] = getattr(reads, name)
        table["of_latency"], table["features"] = latency, features
        table["revoked"] = (reads.flags & REVOKED) != 0
        table["failed"] = ((reads.flags & ERROR) != 0) & ~table["revoked"]
        served_us = reads.latency_ns // np.uint64(1000)
        table["latency_us"] = np.where(reads.is_served_read, served_us, decisions.UNKNOWN)
        if len(reads):
            table["out_fast"], table["out_slow"] = self.outputs(self.numbers(table)).T
        slow = table["out_slow"] > table["out_fast"]
        table["reason"] = np.where(slow, decisions.SLOW, decisions.FAST)
        return table

    def made(self, table: Table) -> npt.NDArray[np.bool_]:
        """Which decisions are this model's."""
        made = np.asarray(table["of_latency"] == isinstance(self.model, LatencyModel))
        said = np.stack([table["out_fast"], table["out_slow"]], axis=1)[made]
        made[made] = (self.outputs(self.numbers(table[made])) == said).all(axis=1)
        return made


@dataclasses.dataclass(frozen=True)
class Looked:
    """Decisions that were looked at: tables of :data:`linnapp.trace.formats.decisions.DECISION`."""

    #: A drive's or file's name.
    source: str
    #: Of the model that made them, or would have.
    view: View
    #: `chosen`, `recent`: those to explain; the newest, to take what is usual from.
    chosen: Table
    recent: Table
    n_seen: int
    #: What else there was, in words.
    notes: list[str]


@dataclasses.dataclass(frozen=True)
class Usual:
    """What is usual of a model's numbers, by what, and what the model says to it."""

    name: str
    numbers: list[int]
    out_fast: int
    out_slow: int


@dataclasses.dataclass(frozen=True)
class Explanation:
    """One decision."""

    row: Any
    #: `names`, `numbers`: what the model saw.
    names: Sequence[str]
    numbers: list[int]
    #: By how much slow is more than fast for each number's being not as usual.
    matters: list[int]
    #: For each number the nearest value that alone would turn the verdict.
    turns: list[int | None]
    outcome: str

    @property
    def slow(self) -> bool:
        """The verdict."""
        return bool(self.row["out_slow"] > self.row["out_fast"])

    def nearest(self) -> list[tuple[str, int, int]]:
        """The smallest change of a count, and of a time in us: name, value, and what it was."""
        found = []
        for in_us in (False, True):
            changes = [
                (abs(value - now), name, value, now)
                for name, value, now in zip(self.names, self.turns, self.numbers, strict=True)
                if value is not None and (name.startswith("us ") or "_us" in name) == in_us
            ]
            if changes:
                found.append(min(changes)[1:])
        return found

    def to_json(self, view: View) -> dict[str, Any]:
        """All fields by name."""
        row, known = self.row, self.row["latency_us"] != decisions.UNKNOWN
        return {
            **{name: int(row[name]) for name in _SHOWN},
            "saw": view.named(self.numbers),
            "predicted": "slow" if self.slow else "fast",
            "mattered": view.named(self.matters),
            "would_turn": view.named(self.turns),
            "reason": decisions.REASONS[int(row["reason"])],
            "revoked": bool(row["revoked"]),
            "latency_us": int(row["latency_us"]) if known else None,
            "outcome": self.outcome,
        }


def from_events(
    text: bytes, model: AnyModel, choice: Choice, source: str, *, device: str | None = None
) -> Looked:
    """Choose from what the kernel's trace events say.

    The text is as :mod:`linnapp.trace.formats.decisions` reads it; of several drives `device`
    chooses "major:minor".
    """
    view = View(model)
    try:
        table = decisions.parse_decisions(text)
        decisions.add_answers(text, table)
    except (OverflowError, ValueError, KeyError, TraceError) as error:
        raise TraceError(f"{source}: a damaged event, or one of a newer kernel: {error}") from error
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
            f"{source}: no decision seen; only reads with the hint RWF_LATCRIT are decided, while "
            "a model is active and the mode not off"
        )
    same = view.made(table)
    if not same.any():
        raise TraceError(
            f"{source}: all decisions are of another model than {model.model_id}; name the one "
            "that was active then with `model=`"
        )
    if not same.all():
        notes.append(f"{np.count_nonzero(~same)} decisions of another model left out")
        table = table[same]
    # What is still in the drive has no answer yet; it would be the newest.
    answered = table["revoked"] | (table["latency_us"] != decisions.UNKNOWN)
    if answered.any() and not answered.all():
        notes.append(f"{np.count_nonzero(~answered)} reads whose end was not seen left out")
        table = table[answered]
    elif not answered.any():
        notes.append(
            "no end of a read was seen; with block_rq_issue and block_rq_complete recorded too, "
            "what happened is known"
        )
    return Looked(source, view, choice.take(table, model.threshold_us), table, len(table), notes)


def from_recording(trace: Recorded, model: AnyModel, choice: Choice, **reader: Any) -> Looked:
    """Choose from a recording's reads: what the model would have said to each.

    :func:`~linnapp.trace.recorded.open_recording` takes `reader`.
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
        raise TraceError(f"{trace}: no read that was completed to explain")
    recent = np.concatenate([previous, recent])
    return Looked(name_of(trace), view, chosen, recent, n_seen, [NOTE_ON_RECORDINGS])


def usual_of(looked: Looked) -> Usual:
    """The median of each number over the reads predicted fast; where there are none, no history."""
    view = looked.view
    name, numbers = "an empty history", view.empty
    fast = looked.recent[looked.recent["out_slow"] <= looked.recent["out_fast"]]
    if len(fast):
        name = f"the medians of {len(fast)} reads predicted fast"
        numbers = np.sort(view.numbers(fast), axis=0)[(len(fast) - 1) // 2].tolist()
    ((out_fast, out_slow),) = view.outputs(np.array([numbers], np.uint32)).tolist()
    return Usual(name, numbers, out_fast, out_slow)


def explain(looked: Looked, usual: Usual) -> list[Explanation]:
    """Explain the chosen decisions, in the order in which they were chosen."""
    view = looked.view
    found = []
    for row, numbers in zip(looked.chosen, view.numbers(looked.chosen), strict=True):
        # A row for each number that is as usual instead, below the one that was.
        rows = np.tile(numbers, (len(numbers) + 1, 1))
        rows[np.arange(len(numbers)) + 1, np.arange(len(numbers))] = usual.numbers
        margins = np.diff(view.outputs(rows))[:, 0]
        turns = [_turn(view, numbers, i, int(row["n_sectors"])) for i in range(len(numbers))]
        matters = (margins[0] - margins[1:]).tolist()
        words = outcome(row, looked.view.model)
        found.append(Explanation(row, view.names, numbers.tolist(), matters, turns, words))
    return found


def _turn(view: View, row: Numbers, i: int, n_sectors: int) -> int | None:
    """The nearest other value of number `i` that alone turns a row's verdict."""
    values = view.values(i, row, n_sectors)
    now = int(row[i])
    away = np.abs(values - now)
    nearest = values[np.argsort(away, kind="stable")][np.count_nonzero(away == 0) :]
    slow = _slow(view, row[np.newaxis])[0]
    start, size = 0, _FIRST_TRIED
    while start < len(nearest):
        tried = nearest[start : start + size]
        rows = np.tile(row, (len(tried), 1))
        rows[:, i] = tried
        turned = tried[_slow(view, rows) != slow]
        if len(turned):
            return int(turned[0])
        start, size = start + size, 4 * size
    return None


def _slow(view: View, numbers: Numbers) -> npt.NDArray[np.bool_]:
    outputs = view.outputs(numbers)
    return np.asarray(outputs[:, 1] > outputs[:, 0])


def outcome(row: Any, model: AnyModel) -> str:
    """What became of a read that was decided, in words."""
    why = {
        decisions.PROBE: "admitted all the same, as a probe",
        decisions.STALLED: "stalled: reads are in flight and none has come back",
        decisions.NO_CHOICE: "admitted, by a model that does not choose",
    }.get(int(row["reason"]))
    if row["revoked"]:
        return f"{why + '; ' if why else ''}revoked; how long it would have taken nobody knows"
    predicted_slow = bool(row["out_slow"] > row["out_fast"] or row["reason"] == decisions.STALLED)
    words = why or ("predicted slow and admitted" if predicted_slow else "admitted")
    latency_us = int(row["latency_us"])
    if row["failed"]:
        return f"{words}; failed"
    if latency_us == decisions.UNKNOWN:
        return f"{words}; its end was not seen"
    slow = latency_us > model.threshold_us
    took = f"{words}; took {latency_us} us, {'slow' if slow else 'fast'}"
    # Of fast and slow some models say nothing.
    if row["reason"] == decisions.NO_CHOICE or not getattr(model, "refuses", True):
        return took
    judged = {
        (True, True): "rightly",
        (True, False): "a false revoke, had it been refused",
        (False, True): "let through",
        (False, False): "rightly",
    }[predicted_slow, slow]
    return f"{took}: {judged}"


#: So many of the numbers are named that mattered most.
_MOST_IMPORTANT = 3


def describe_model(model: AnyModel) -> str:
    """Which model it is, and what it calls slow."""
    if not isinstance(model, LatencyModel):
        return f"model {model.model_id}, slow above {model.threshold_us} us"
    refuses = f"not worth waiting for above {model.refuse_us} us"
    said = NOT_ALWAYS.get(model.choosing)
    return (
        f"latency model {model.model_id}, slow above {model.threshold_us} us, "
        + (refuses if model.refuses else "refuses nothing")
        + (f", {said}" if said else "")
    )


def describe_usual(model: AnyModel, as_usual: Usual) -> str:
    """What a model's numbers are held against."""
    said = _said(model, as_usual.out_fast, as_usual.out_slow)
    return f"usual is {as_usual.name}: {_saw(model, as_usual.numbers)}; {said}"


def format_decision(model: AnyModel, each: Explanation, as_usual: Usual) -> str:
    """A decision as a paragraph: what mattered most has a line each, the largest first."""
    row, verdict = each.row, "slow" if each.slow else "fast"
    said = _said(model, int(row["out_fast"]), int(row["out_slow"]))
    if isinstance(model, LatencyModel):
        verdict = f": {verdict}" if model.refuses else ""
        oldest_us = each.numbers[FEATURES.index("oldest_us")]
        if oldest_us - model.overdue_us == row["out_slow"]:
            verdict += ", by the oldest read in flight"
    else:
        verdict = f", {verdict}"
        said = f"fast {row['out_fast']:,}, slow {row['out_slow']:,}: {said}"
    lines = [
        f"{row['time_us'] / 1e6:.6f} s, read of {row['n_sectors'] / 2:g} KiB at sector "
        f"{row['sector']}",
        f"  saw       {_saw(model, each.numbers)}",
        f"  said      {said}{verdict}",
        f"  happened  {each.outcome}",
    ]
    unit = " us" if isinstance(model, LatencyModel) else ""
    by_weight = sorted(range(len(each.names)), key=lambda i: -abs(each.matters[i]))
    most = [i for i in by_weight[:_MOST_IMPORTANT] if each.matters[i]]
    amounts = [f"{each.matters[i]:+,}{unit}" for i in most]
    for i, amount in zip(most, amounts, strict=True):
        head = "mattered" if i == most[0] else ""
        values = f"{each.names[i]} {each.numbers[i]}, not {as_usual.numbers[i]}"
        lines.append(f"  {head:8}  {amount:>{max(map(len, amounts))}}  {values}")
    if not getattr(model, "refuses", True):
        return "\n".join(lines)
    ways = "; or ".join(f"{name} {value}, not {now}" for name, value, now in each.nearest())
    other = "fast" if each.slow else "slow"
    return "\n".join([*lines, f"  {other} with {ways or 'no other value of any one number'}"])


def _said(model: AnyModel, out_fast: int, out_slow: int) -> str:
    if isinstance(model, LatencyModel):
        return f"{out_slow:,} us"
    return f"margin {out_slow - out_fast:+,}"


def _saw(model: AnyModel, numbers: list[int]) -> str:
    """What a model saw, the newest read first; a latency model's names as docs/formats.md's."""
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
