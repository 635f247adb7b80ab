# SPDX-License-Identifier: MIT
"""Decisions in words, as ``linnapp explain`` prints them."""

from __future__ import annotations

from linnapp.learn.explanation import Explanation, Usual
from linnapp.model import LatencyModel, Model
from linnapp.model.latency_model import FEATURES, LATER, NOT_ALWAYS, NOW
from linnapp.native import HISTORY

#: So many of the numbers are named that mattered most.
_SHOWN = 3

AnyModel = Model | LatencyModel


def about(model: AnyModel) -> str:
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


def usual(model: AnyModel, as_usual: Usual) -> str:
    """What a model's numbers are held against."""
    said = _said(model, as_usual.out_fast, as_usual.out_slow)
    return f"usual is {as_usual.name}: {_saw(model, as_usual.numbers)}; {said}"


def decision(model: AnyModel, each: Explanation, as_usual: Usual) -> str:
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
    most = [i for i in by_weight[:_SHOWN] if each.matters[i]]
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
