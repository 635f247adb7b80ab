# SPDX-License-Identifier: MIT
"""What the report says first: what was won and lost, counted from Fig. 8 and the claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from eval.contenders import ours
from eval.experiment import Table
from eval.scores import verdict
from linnapp.stats import Interval

#: Ours by the mean, against each of these.
AGAINST = {
    "baseline": "waiting",
    "shortest-queue": "the shortest queue",
    "hedge": "hedging at p95",
    "heuristic-adv": "the tuned heuristic",
    "clone": "sending every read twice",
}

#: Cell by cell: workload to policy to reference to interval, as Fig. 8 keeps its numbers.
Numbers = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]


def _standing(numbers: Numbers, policy: str, reference: str) -> dict[str, list[str]]:
    """Workloads by what may be said of a policy's mean there."""
    said: dict[str, list[str]] = {"below": [], "above": [], "undecided": []}
    for workload, by_policy in numbers.items():
        difference = by_policy.get(policy, {}).get(reference)
        if difference is not None:
            said[verdict(Interval.from_json(difference))].append(workload)
    return said


def won_and_lost(numbers: Numbers) -> Table:
    """A row for each of ours: below whose mean, in how many workloads, and where above."""
    rows = []
    for policy in ours(dict.fromkeys(name for of in numbers.values() for name in of)):
        cells = [policy]
        for reference in AGAINST:
            said = _standing(numbers, policy, reference)
            of = sum(map(len, said.values()))
            lost = f"; lost {', '.join(said['above'])}" if said["above"] else ""
            cells.append(f"{len(said['below'])} of {of}{lost}" if of else "-")
        rows.append(tuple(cells))
    header = ("mean beyond chance below that of", *AGAINST.values())
    return Table(header, tuple(rows))


def lines(numbers: Numbers, judged: Sequence[str]) -> list[str]:
    """A few sentences: Fig. 8's numbers, and how each claim of the paper was judged, if any was."""
    found = []
    for policy, what in (
        ("linnos", "The paper's method"),
        ("lowest", "Choosing by predicted latency"),
        ("lowest-two, 5% cap", "The same with 5 % of the reads sent twice"),
    ):
        parts = []
        for reference in ("baseline", "hedge", "clone"):
            said = _standing(numbers, policy, reference)
            of = sum(map(len, said.values()))
            if of:
                worse = f" (slower in {', '.join(said['above'])})" if said["above"] else ""
                parts.append(f"{AGAINST[reference]} in {len(said['below'])} of {of}{worse}")
        if parts:
            found.append(f"{what} (`{policy}`) has a lower mean than {'; than '.join(parts)}.")
    if judged:
        words = ", ".join(f"{n} {word}" for word, n in Counter(judged).most_common())
        found.append(f"Of the paper's {len(judged)} claims: {words}.")
    return found
