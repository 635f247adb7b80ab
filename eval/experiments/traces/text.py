# SPDX-License-Identifier: MIT
"""The tables of the traces, and what they say in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from eval.experiment import Table
from eval.experiments.traces.replays import GUARDED, MD_UNGUARDED, OFF, ON, ROWS, UNGUARDED
from eval.experiments.traces.scores import (
    H95,
    HEDGE_CAPPED,
    HL,
    NOTHING,
    QUEUE_H95,
    SHARED,
    TWO,
    Line,
    counts,
    lines,
    shares,
)
from eval.intervals import BLOCKS
from eval.scores import errors
from linnapp.model.latency_model import TREES_TO_CHOOSE
from linnapp.stats import LEVEL

#: Columns of the first table, in % of doing nothing.
COLUMNS = (
    "linnos", GUARDED, HL, "lowest", TWO, H95, QUEUE_H95, HEDGE_CAPPED, "hedge", "clone", "oracle",
)  # fmt: skip


def table(data: dict[str, Any]) -> dict[str, Table]:
    """A row a trace, then how many of them are above and below; then everything."""
    of = lines(data)
    tables = {
        "Mean read latency, in % above (+) or below (-) doing nothing; (chance)": _first(of),
        "Counts, by the mean unless p99 is said": _counts(of),
        "Share of the oracle's gain": _shares(of),
        "Read latency (us), mean / p99": _all(
            of, (*(row.name for row in ROWS), UNGUARDED, GUARDED)
        ),
        "On md raid1, with models of latencies (us), mean / p99": _all(of, _on_md(of)),
        "Reads that the models of each drive learnt from": _learnt(data["traces"]),
    }
    if data["left_out"]:
        tables["Left out"] = Table(
            ("trace", "why"), tuple((row["trace"], row["why"]) for row in data["left_out"])
        )
    return tables


def _first(of: Sequence[Line]) -> Table:
    head = ("trace", "I/Os a second", "slowness", "doing nothing, us", "best rule without a model")
    return Table(
        (*head, *COLUMNS, "md off, us", "md on"),
        tuple(
            (
                *_place(line), f"{line.runs[NOTHING]['mean_us']:.0f}",
                f"{'home' if line.rule == NOTHING else line.rule} {_against(line, line.rule)}",
                *(_against(line, policy) for policy in COLUMNS),
                f"{line.runs[OFF]['mean_us']:.0f}" if OFF in line.runs else "-",
                _against(line, ON, OFF),
            )
            for line in of
        ),
    )  # fmt: skip


def _against(line: Line, policy: str, reference: str = NOTHING) -> str:
    """By what percentage a policy is above or below another."""
    share = line.above(policy, reference)
    if share is None or policy == reference or not line.is_chance(policy, reference):
        return percent(share)
    return f"({percent(share)})"


def _place(line: Line) -> tuple[str, str, str]:
    return line.trace, f"{line.iops:.0f}", line.slowness


def _counts(of: list[Line]) -> Table:
    return Table(
        ("what", "of", "above", "above beyond chance", "below by over 1 %", "below beyond chance",
         "at worst",
         "median calm", "median bursts"),
        tuple(
            (
                count.what, str(count.n), f"{count.above} by over {count.level:.0%}",
                _sure(count.surely_above), str(count.below), _sure(count.surely_below),
                f"{percent(count.worst[0])} ({count.worst[1]})",
                percent(count.median_calm), percent(count.median_bursts),
            )
            for count in counts(of)
        ),
    )  # fmt: skip


def _sure(number: int | None) -> str:
    return "-" if number is None else str(number)


def _shares(of: list[Line]) -> Table:
    return Table(
        ("policy", "of", "median", "lowest"),
        tuple(
            (policy, str(len(found)), f"{median(found):.0%}", f"{min(found):.0%}")
            for policy in SHARED
            if (found := shares(of, policy))
        ),
    )


def _all(of: Sequence[Line], policies: Iterable[str]) -> Table:
    policies = tuple(policies)
    return Table(
        ("trace", "I/Os a second", "slowness", *policies),
        tuple((*_place(line), *(_told(line.runs.get(name)) for name in policies)) for line in of),
    )


def _on_md(of: Sequence[Line]) -> list[str]:
    """Earlier results were all unguarded, which `on` was then."""
    known = (OFF, ON, MD_UNGUARDED)
    return [name for name in known if any(name in line.runs for line in of)]


def _learnt(facts: Iterable[dict[str, Any]]) -> Table:
    return Table(
        ("trace", "I/Os a second", "reads"),
        tuple((fact["trace"], f"{fact['iops']:.0f}", _learnt_from(fact)) for fact in facts),
    )


def _learnt_from(fact: dict[str, Any]) -> str:
    def less(trees: int) -> str:
        if trees >= TREES_TO_CHOOSE:
            return ""
        return " (bursts alone)" if trees else " (no trees)"

    return ", ".join(
        f"{reads}{less(trees)}"
        for reads, trees in zip(fact["training_reads"], fact["n_trees"], strict=True)
    )


def _told(run: dict[str, Any] | None) -> str:
    if run is None:
        return "-"
    p99 = "-" if run["p99_us"] is None else f"{run['p99_us']:.0f}"
    return f"{run['mean_us']:.0f} / {p99}"


def percent(share: float | None) -> str:
    """A share with its sign, to a tenth of a percent; a dash where there is none."""
    if share is None:
        return "-"
    # Not -0.0.
    return f"{round(100 * share, 1) + 0.0:+.1f}"


def reading(data: dict[str, Any]) -> str:
    """How much was run, and what chance is here."""
    of = lines(data)
    return (
        f"{len(of)} runs of {len({line.trace for line in of})} traces under each policy, one "
        f"stretch of each; means. Beyond chance: so over {BLOCKS} blocks of time, drawn again "
        f"and again ({LEVEL:.0%}); other stretches and drives may differ by more.\n\n"
        f"{errors(data['runs'])}"
    )
