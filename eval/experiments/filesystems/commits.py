# SPDX-License-Identifier: MIT
"""The time of each step of a commit of ext4's journal, from the kernel's trace.

The steps are those of `jbd2_journal_commit_transaction()` that uScope's Fig. 7 shows. They are
found from jbd2's events and the drive's requests: the last write to the journal before the end of a
commit is the commit record, which is sent when all earlier blocks of the commit are on the drive.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from linnapp.lab.work import StepError

#: The steps of a commit. The wait for data counts from the completion of the journal's blocks,
#: which are written at the same time.
STEPS = ("lock, send data", "journal blocks", "wait for data", "commit record", "the rest")

_EVENT = re.compile(
    r"\] .{4,6} +(\d+\.\d+): (?:jbd2_(\w+): \S+ \S+ transaction (\d+)"
    r"|block_rq_(\w+): \S+ W\S* .*?\) (\d+) \+)"
)


def read_commit_steps(path: Path, first: int, length: int) -> dict[str, list[float]]:
    """Return the time of each step of each commit in us, by step.

    The journal has `length` sectors, beginning with sector `first`.
    """
    found = _EVENT.findall(path.read_text())
    if not found:
        raise StepError(f"{path}: it contains no commit of a journal")
    times, commits, transactions, requests, sectors = np.array(found).T
    time_s = times.astype(np.float64)
    sector = np.where(requests == "", "-1", sectors).astype(np.int64)
    in_journal = (sector >= first) & (sector < first + length)
    # Events are ordered by their position in the trace, because many happen in the same us.
    start, logging, end = (
        np.flatnonzero(commits == event)
        for event in ("start_commit", "commit_logging", "end_commit")
    )
    both = np.intersect1d(transactions[start], transactions[end])
    start, logging, end = (
        event[np.isin(transactions[event], both)] for event in (start, logging, end)
    )
    issued, done = (np.flatnonzero((requests == event) & in_journal)
                    for event in ("issue", "complete"))  # fmt: skip
    # The commit record is the last request that is issued and completed before the end.
    sent, recorded = (np.searchsorted(events, end) - 1 for events in (issued, done))
    if not len(end) or min(sent.min(), recorded.min()) < 1:
        raise StepError(f"{path}: it contains no commit of a journal")
    record = issued[sent]
    logged = np.clip(done[recorded - 1], logging, record)
    marks = np.stack([start, logging, logged, record, done[recorded], end])
    steps = np.diff(time_s[marks], axis=0) * 1e6
    return {name: row.tolist() for name, row in zip(STEPS, steps, strict=True)}
