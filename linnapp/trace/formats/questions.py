# SPDX-License-Identifier: MIT
"""What drives were expected to do with reads, and what they did, from trace events as text.

Somebody who has the same data on several drives (md, a program with BLKEXPECT) asks each of them
(``linnos_expected``), and sends the read to one (``block_bio_queue``): the next one that the same
task sends to a drive that it has asked. ``block_rq_issue`` and ``block_rq_complete`` tell how long
it took there, as for decisions (:mod:`linnapp.trace.formats.decisions`).
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.trace.blktrace import parse_device
from linnapp.trace.formats.decisions import UNKNOWN, add_answers

_ASKED_OR_SENT = re.compile(
    rb"-(\d+) +\[\d+\] [^\n]*? (\d+)\.(\d{6}): (?:"
    rb"linnos_expected: +dev=(\d+:\d+) pending=\d+ expected=([a-z]+) latency_us=(\d+)"
    rb"|block_bio_queue: +(\d+,\d+) R[A-Z]* (\d+) \+ (\d+) )"
)

#: What :func:`~linnapp.trace.formats.decisions.add_answers` wants of a read, and fills in.
_SENT = np.dtype(
    [
        ("time_us", "<i8"),
        ("device", "<u4"),
        ("sector", "<u8"),
        ("n_sectors", "<u4"),
        ("revoked", "?"),
        ("latency_us", "<i8"),
        ("failed", "?"),
    ]
)


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a drive was expected to do with a read."""

    #: {"probe", "fast", "unknown", "slow"}
    expected: str
    #: By a model of latencies; 0 of another.
    predicted_us: int


@dataclasses.dataclass(frozen=True)
class Question:
    """A read about which drives were asked."""

    #: Of each drive, by its number.
    answers: dict[int, Answer]
    #: The drive that served it.
    sent_to: int
    #: From issue to completion there; `UNKNOWN` if that was not seen, or it failed.
    latency_us: int


def parse_questions(text: bytes) -> list[Question]:
    """All questions in a text whose read was sent to one of the drives that were asked."""
    asking: dict[bytes, dict[int, Answer]] = {}
    asked: list[dict[int, Answer]] = []
    sent: list[tuple[int, int, int, int]] = []
    for task, seconds, micros, device, expected, us, disk, sector, n in _ASKED_OR_SENT.findall(
        text
    ):
        if device:
            answers = asking.setdefault(task, {})
            number = parse_device(device.decode())
            if number in answers:  # the read before was never sent: another task did it
                answers.clear()
            answers[number] = Answer(expected.decode(), int(us))
            continue
        number = parse_device(disk.replace(b",", b":").decode())
        if number in asking.get(task, ()):
            asked.append(asking.pop(task))
            sent.append((int(seconds) * 1_000_000 + int(micros), number, int(sector), int(n)))
    table: npt.NDArray[Any] = np.zeros(len(sent), _SENT)
    if sent:
        columns = ("time_us", "device", "sector", "n_sectors")
        for name, values in zip(columns, zip(*sent, strict=True), strict=True):
            table[name] = values
    table["latency_us"] = UNKNOWN
    add_answers(text, table)
    table["latency_us"][table["failed"]] = UNKNOWN
    return [
        Question(answers, int(device), int(latency_us))
        for answers, device, latency_us in zip(
            asked, table["device"], table["latency_us"], strict=True
        )
    ]
