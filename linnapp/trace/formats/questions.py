# SPDX-License-Identifier: MIT
"""Queries of expected latencies and the actual latencies, from trace events in text form.

A process that has the same data on several drives (md, or a program that uses BLKEXPECT) queries
each of them (``linnos_expected``) and sends the read to one (``block_bio_queue``): the next read
that the same task sends to a drive that it has queried. ``block_rq_issue`` and
``block_rq_complete`` give its latency there, as for decisions
(:mod:`linnapp.trace.formats.decisions`).
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

#: Columns that :func:`~linnapp.trace.formats.decisions.add_answers` reads and writes.
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
    """The expectation of a drive for a read."""

    #: {"probe", "fast", "unknown", "slow"}.
    expected: str
    #: Prediction of a latency model in us, or 0 for other models.
    predicted_us: int


@dataclasses.dataclass(frozen=True)
class Question:
    """A read for which drives were queried."""

    #: Answers of the drives, by device number.
    answers: dict[int, Answer]
    #: The drive that served the read.
    sent_to: int
    #: Latency from issue to completion there, or `UNKNOWN` if it was not seen or the read failed.
    latency_us: int


def parse_questions(text: bytes) -> list[Question]:
    """Return all queries in a text whose read was sent to one of the queried drives."""
    asking: dict[bytes, dict[int, Answer]] = {}
    asked: list[dict[int, Answer]] = []
    sent: list[tuple[int, int, int, int]] = []
    for task, seconds, micros, device, expected, us, disk, sector, n in _ASKED_OR_SENT.findall(
        text
    ):
        if device:
            answers = asking.setdefault(task, {})
            number = parse_device(device.decode())
            if number in answers:  # The previous read was not sent by this task.
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
