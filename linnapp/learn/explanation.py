# SPDX-License-Identifier: MIT
"""Decisions and why they were made: chosen from a recording, then taken apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.learn.attribution import NetworkPredictor, attribute, smallest_changes, whole
from linnapp.model import LatencyModel, Model
from linnapp.native import HISTORY
from linnapp.trace import decisions
from linnapp.trace.blktrace import ERROR, REVOKED, IoChunk, format_device, parse_device
from linnapp.trace.recorded import Recorded, name_of, open_recording

NOTE_ON_RECORDINGS = (
    "whether the recorded reads were latency-critical is not in a recording; each is taken for one"
)

AnyModel = TypeVar("AnyModel", Model, LatencyModel)

_ORDINALS = ("last", "2nd last", "3rd last", "4th last")


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which decisions to explain.

    Attributes
    ----------
    last : int
        At most so many, the newest.
    slow : bool
        Of the admitted reads that took longer than the model's point, the slowest, instead.
    """

    last: int = 10
    slow: bool = False

    def take(self, table: npt.NDArray[Any], threshold_us: int) -> npt.NDArray[Any]:
        """The chosen rows, in order of time, or the slowest first."""
        if not self.slow:
            return table[-self.last :]
        late = table[table["latency_us"] > threshold_us]
        return late[np.argsort(-late["latency_us"], kind="stable")[: self.last]]


@dataclasses.dataclass(frozen=True)
class Looked(Generic[AnyModel]):
    """Decisions that were looked at.

    Attributes
    ----------
    source : str
        A drive's or file's name.
    model : Model or LatencyModel
    chosen : structured array
        Those to explain.
    recent : structured array
        All decisions, or of a long recording the last: what a reference is made of.
    n_seen : int
        How many decisions there were.
    notes : list of str
        What one should know about them.
    """

    source: str
    model: AnyModel
    chosen: npt.NDArray[Any]
    recent: npt.NDArray[Any]
    n_seen: int
    notes: list[str]

    @classmethod
    def through(
        cls,
        trace: Recorded,
        model: AnyModel,
        tables: Iterable[npt.NDArray[Any]],
        choice: Choice,
        what: str,
    ) -> Self:
        """Look at a recording's decisions, chunk by chunk.

        Parameters
        ----------
        trace : path or IoTable
            Where they come from.
        model : Model or LatencyModel
        tables : iterable of structured array
            Of equal type, a chunk each.
        choice : Choice
        what : str
            What to say was not there if there is none.

        Raises
        ------
        TraceError
            If there is none.
        """
        chosen = previous = recent = None
        n_seen = 0
        for table in tables:
            n_seen += len(table)
            met = table if chosen is None else np.concatenate([chosen, table])
            chosen = choice.take(met, model.threshold_us)
            if len(table):
                previous, recent = recent, table
        if chosen is None or recent is None:
            raise TraceError(f"{trace}: no {what} to explain")
        if previous is not None:
            recent = np.concatenate([previous, recent])
        return cls(name_of(trace), model, chosen, recent, n_seen, [NOTE_ON_RECORDINGS])


@dataclasses.dataclass(frozen=True)
class Reference:
    """What inputs are held against; `numbers` as :class:`NetworkPredictor` orders them."""

    name: str
    numbers: list[int]
    margin: int

    def to_json(self) -> dict[str, Any]:
        """All fields by name."""
        return {"name": self.name, **_named(self.numbers), "margin": self.margin}


@dataclasses.dataclass(frozen=True)
class Explanation:
    """One decision, taken apart.

    Attributes
    ----------
    time_us : int
        On the recording's clock.
    sector, n_sectors : int
    numbers : list of int
        What the network saw, capped at what its digits can write.
    out_fast, out_slow : int
        What it said.
    parts : list of int
        Of each number in the margin beyond the reference's; with it they add up to the margin.
    turns : list of int or None
        For each number the nearest value that alone would turn the verdict.
    reason : str
        As the kernel names it.
    revoked : bool
    latency_us : int or None
    outcome : str
        What happened, in words.
    """

    time_us: int
    sector: int
    n_sectors: int
    numbers: list[int]
    out_fast: int
    out_slow: int
    parts: list[int]
    turns: list[int | None]
    reason: str
    revoked: bool
    latency_us: int | None
    outcome: str

    @property
    def margin(self) -> int:
        """Slow output less fast output; slow when positive."""
        return self.out_slow - self.out_fast

    @property
    def slow(self) -> bool:
        """The network's verdict."""
        return self.out_slow > self.out_fast

    @property
    def names(self) -> list[str]:
        """Of the numbers, in words."""
        reads = [_read_name(age) for age in range(HISTORY, 0, -1)]
        return [
            *(f"pages pending at the {read} read" for read in reads),
            "pages pending now",
            *(f"us of the {read} read" for read in reads),
        ]

    def nearest(self) -> list[tuple[str, int, int]]:
        """The smallest change in pages and the smallest in us: name, value, and what it was."""
        found = []
        for group in (slice(0, HISTORY + 1), slice(HISTORY + 1, None)):
            changes = [
                (abs(value - now), name, value, now)
                for name, value, now in zip(
                    self.names[group], self.turns[group], self.numbers[group], strict=True
                )
                if value is not None
            ]
            if changes:
                _, name, value, now = min(changes)
                found.append((name, value, now))
        return found

    def to_json(self) -> dict[str, Any]:
        """All fields by name; numbers, parts and turns under the trace event's names."""
        return {
            "time_us": self.time_us,
            "sector": self.sector,
            "n_sectors": self.n_sectors,
            "saw": _named(self.numbers),
            "out_fast": self.out_fast,
            "out_slow": self.out_slow,
            "margin": self.margin,
            "predicted": "slow" if self.slow else "fast",
            "parts": _named(self.parts),
            "would_turn": _named(self.turns),
            "reason": self.reason,
            "revoked": self.revoked,
            "latency_us": self.latency_us,
            "outcome": self.outcome,
        }


def from_events(
    text: bytes, model: Model, choice: Choice, source: str, *, device: str | None = None
) -> Looked[Model]:
    """Choose from what the kernel's trace events say.

    Parameters
    ----------
    text : bytes
        As :mod:`linnapp.trace.decisions` reads it.
    model : Model
        That was active.
    choice : Choice
    source : str
        What to call it.
    device : str, optional
        "major:minor" of the drive, when there are several.

    Raises
    ------
    TraceError
        If there is no decision of the drive with this model.
    """
    table, notes = decided(text, source, device)
    same = ~table["of_latency"]
    outputs = NetworkPredictor(model).outputs(_numbers(table))
    same &= (outputs[:, 0] == table["out_fast"]) & (outputs[:, 1] == table["out_slow"])
    table = answered_of_model(table, same, model, source, notes)
    return Looked(source, model, choice.take(table, model.threshold_us), table, len(table), notes)


def decided(text: bytes, source: str, device: str | None) -> tuple[npt.NDArray[Any], list[str]]:
    """All decisions of one drive in a text that a model made, with their answers, and notes.

    Raises
    ------
    TraceError
        If there is none, or they are of several drives and none is chosen.
    """
    table = decisions.parse_decisions(text)
    decisions.add_answers(text, table)
    notes = []
    lost = decisions.lost_events(text)
    if lost:
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
    return table, notes


def answered_of_model(
    table: npt.NDArray[Any],
    same: npt.NDArray[np.bool_],
    model: Model | LatencyModel,
    source: str,
    notes: list[str],
) -> npt.NDArray[Any]:
    """Decisions that a model made, less those whose end is still to come; adds to the notes.

    Raises
    ------
    TraceError
        If there is none.
    """
    if not same.all():
        notes.append(f"{np.count_nonzero(~same)} decisions of another model left out")
        table = table[same]
    if not len(table):
        raise TraceError(
            f"{source}: all decisions are of another model than {model.model_id}; name the one "
            "that was active then with `model=`"
        )
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
    return table


def from_recording(
    trace: Recorded, model: Model, choice: Choice, **reader_options: Any
) -> Looked[Model]:
    """Choose from a recording's reads: what the model would have said to each.

    Parameters
    ----------
    trace : path or IoTable
        See :func:`~linnapp.trace.recorded.open_recording`, which takes `reader_options`.
    model : Model
    choice : Choice

    Raises
    ------
    TraceError
        If the trace cannot be read or holds no read.
    """
    predictor = NetworkPredictor(model)
    chunks = open_recording(trace, **reader_options)
    tables = (_decided(chunk.take(chunk.is_read), predictor) for chunk in chunks)
    return Looked.through(trace, model, tables, choice, "read")


def _decided(reads: IoChunk, predictor: NetworkPredictor) -> npt.NDArray[Any]:
    table = np.zeros(len(reads), decisions.DECISION)
    table["time_us"] = reads.arrival_ns // np.uint64(1000)
    table["sector"] = reads.sector
    table["n_sectors"] = reads.size_bytes // np.uint32(512)
    for name in ("pending", "hist_pending", "hist_latency_us"):
        table[name] = getattr(reads, name)
    table["revoked"] = (reads.flags & REVOKED) != 0
    table["failed"] = ((reads.flags & ERROR) != 0) & ~table["revoked"]
    table["latency_us"] = np.where(
        reads.is_served_read, reads.latency_ns // np.uint64(1000), decisions.UNKNOWN
    )
    if len(reads):
        outputs = predictor.outputs(_numbers(table))
        table["out_fast"], table["out_slow"] = outputs[:, 0], outputs[:, 1]
    table["reason"] = np.where(
        table["out_slow"] > table["out_fast"], decisions.SLOW, decisions.FAST
    )
    return table


def reference_of(looked: Looked[Model], kind: str) -> Reference:
    """What to hold the decisions against.

    Parameters
    ----------
    looked : Looked
    kind : {"typical", "zeros"}
        The median of each number over the reads predicted fast, or the history that a drive starts
        with and nothing pending but one page. Where no read was predicted fast, the latter.
    """
    predictor = NetworkPredictor(looked.model)
    name = "an empty history"
    numbers = [0] * HISTORY + [1] + [0] * HISTORY
    fast = looked.recent[looked.recent["out_slow"] <= looked.recent["out_fast"]]
    if kind == "typical" and len(fast):
        name = f"the medians of {len(fast)} reads predicted fast"
        capped = np.minimum(_numbers(fast), np.asarray(predictor.highest, np.uint32))
        middle = (len(fast) - 1) // 2
        numbers = np.sort(capped, axis=0)[middle].tolist()
    (margin,) = predictor.margins(np.array([numbers], np.uint32))
    return Reference(name, numbers, margin)


def explain(looked: Looked[Model], reference: Reference) -> list[Explanation]:
    """Take the chosen decisions apart.

    Parameters
    ----------
    looked : Looked
    reference : Reference

    Returns
    -------
    list of Explanation
        In the order in which they were chosen.
    """
    predictor = NetworkPredictor(looked.model)
    highest = predictor.highest
    found = []
    for row in looked.chosen:
        (seen,) = np.minimum(_numbers(row[np.newaxis]), np.asarray(highest, np.uint32)).tolist()
        # This read itself is among what is pending.
        own_pages = min(max(1, -(-int(row["n_sectors"]) // 8)), seen[HISTORY])
        lowest = [0] * HISTORY + [own_pages] + [0] * HISTORY
        latency_us = int(row["latency_us"])
        found.append(
            Explanation(
                time_us=int(row["time_us"]),
                sector=int(row["sector"]),
                n_sectors=int(row["n_sectors"]),
                numbers=seen,
                out_fast=int(row["out_fast"]),
                out_slow=int(row["out_slow"]),
                parts=whole(attribute(predictor, seen, reference.numbers)),
                turns=smallest_changes(predictor, seen, lowest, highest),
                reason=decisions.REASONS[int(row["reason"])],
                revoked=bool(row["revoked"]),
                latency_us=None if latency_us == decisions.UNKNOWN else latency_us,
                outcome=outcome(row, looked.model.threshold_us),
            )
        )
    return found


def outcome(row: Any, threshold_us: int) -> str:
    """What became of a read that the kernel decided, in words."""
    why = {
        decisions.PROBE: "admitted all the same, as a probe",
        decisions.STALLED: "stalled: reads are in flight and none has come back",
        decisions.KEPT: "predicted slow and kept, since no peer was sooner",
        decisions.NO_CHOICE: "admitted, by a model that does not choose",
    }.get(int(row["reason"]))
    peers = _peers(row)
    if row["revoked"]:
        return (
            f"{why + '; ' if why else ''}revoked{peers}; how long it would have taken nobody knows"
        )
    predicted_slow = bool(
        row["out_slow"] > row["out_fast"] or row["reason"] in (decisions.STALLED, decisions.KEPT)
    )
    words = (why or ("predicted slow and admitted" if predicted_slow else "admitted")) + peers
    latency_us = int(row["latency_us"])
    if row["failed"]:
        return f"{words}; failed"
    if latency_us == decisions.UNKNOWN:
        return f"{words}; its end was not seen"
    slow = latency_us > threshold_us
    took = f"{words}; took {latency_us} us, {'slow' if slow else 'fast'}"
    if row["reason"] == decisions.NO_CHOICE:
        return took
    judged = {
        (True, True): "rightly",
        (True, False): "a false revoke, had it been refused",
        (False, True): "let through",
        (False, False): "rightly",
    }[predicted_slow, slow]
    return f"{took}: {judged}"


def _peers(row: Any) -> str:
    """What the drives told that were asked first."""
    n, us = int(row["n_peers"]), int(row["soonest_us"])
    if not n:
        return ""
    if us == decisions.UNKNOWN:
        return " (its peer could not tell)" if n == 1 else f" (of {n} peers none could tell)"
    told = "stalls" if us == decisions.STALLED_US else f"would take {us} us"
    peer = format_device(int(row["soonest_peer"]))
    return (
        f" (its peer {peer} {told})" if n == 1 else f" (of {n} peers the soonest, {peer}, {told})"
    )


def _numbers(table: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """What the network saw of each decision, in its order, not capped."""
    return np.concatenate(
        [table["hist_pending"], table["pending"][:, np.newaxis], table["hist_latency_us"]], axis=1
    ).astype(np.uint32)


def _named(values: Any) -> dict[str, Any]:
    """Values of all numbers under the trace event's names."""
    return {
        "pending": values[HISTORY],
        "hist_pending": list(values[:HISTORY]),
        "hist_latency_us": list(values[HISTORY + 1 :]),
    }


def _read_name(age: int) -> str:
    return _ORDINALS[age - 1]
