# SPDX-License-Identifier: MIT
"""Decisions in words, as ``linnapp explain`` prints them."""

from __future__ import annotations

from collections.abc import Sequence

from linnapp.learn.explanation import Explanation, Reference
from linnapp.learn.latency_explanation import LatencyExplanation, LatencyReference
from linnapp.model.latency_model import FEATURES, FRACTION_BITS, LATER, NOW
from linnapp.native import HISTORY


def reference(held_against: Reference) -> str:
    """What a network's inputs are held against."""
    return (
        f"held against {held_against.name}: {_sight(held_against.numbers)}; "
        f"margin {held_against.margin:+,}"
    )


def latency_reference(held_against: LatencyReference) -> str:
    """What a latency model's inputs are held against."""
    return (
        f"held against {held_against.name}: {_state(held_against.numbers)}; "
        f"{held_against.predicted_us:,} us"
    )


def decision(each: Explanation, held_against: Reference) -> str:
    """A decision as a paragraph, its parts a line each, the largest first.

    Parameters
    ----------
    each : Explanation
    held_against : Reference
        That it was explained with.
    """
    verdict = "slow" if each.slow else "fast"
    lines = [
        _which(each),
        f"  saw       {_sight(each.numbers)}",
        f"  said      fast {each.out_fast:,}, slow {each.out_slow:,}: margin {each.margin:+,}, "
        f"{verdict}",
        f"  happened  {each.outcome}",
    ]
    rows = [(f"{held_against.margin:+,}", "the reference", "")]
    for i in sorted(range(len(each.names)), key=lambda i: -abs(each.parts[i])):
        now, before = each.numbers[i], held_against.numbers[i]
        if now != before:
            rows.append((f"{each.parts[i]:+,}", each.names[i], f"{now}, not {before}"))
    rows.append((f"{each.margin:+,}", "the margin", verdict))
    return "\n".join([*lines, *_sum(rows), _ways("fast" if each.slow else "slow", each.nearest())])


def expected(each: LatencyExplanation, held_against: LatencyReference, *, logarithmic: bool) -> str:
    """An expected latency as a paragraph, its parts a line each, the largest first.

    Parameters
    ----------
    each : LatencyExplanation
    held_against : LatencyReference
        That it was explained with.
    logarithmic : bool
        Whether the parts are logarithms, each a factor, or us.
    """
    verdict = "slow" if each.refused else "fast"
    overdue = each.least_us == each.predicted_us
    lines = [
        _which(each),
        f"  saw       {_state(each.numbers)}",
        f"  said      {each.predicted_us:,} us: {verdict}"
        + (", by the oldest read in flight" if overdue else ""),
        f"  happened  {each.outcome}",
    ]

    def amount(part: int) -> str:
        if not logarithmic:
            return f"{part:+,} us"
        return f"{part:+,} (x {2 ** (part / (1 << FRACTION_BITS)):.3g})"

    rows = [(f"{held_against.total:+,}", "the reference", f"{held_against.predicted_us:,} us")]
    for i in sorted(range(len(FEATURES)), key=lambda i: -abs(each.parts[i])):
        if each.parts[i]:
            values = f"{each.numbers[i]}, not {held_against.numbers[i]}"
            rows.append((amount(each.parts[i]), FEATURES[i], values))
    in_us = 2 ** (each.total / (1 << FRACTION_BITS)) if logarithmic else each.total
    rows.append((f"{each.total:+,}", "the sum", f"{in_us:,.0f} us"))
    return "\n".join(
        [*lines, *_sum(rows), _ways("fast" if each.refused else "slow", each.nearest())]
    )


def _which(each: Explanation | LatencyExplanation) -> str:
    return f"{each.time_us / 1e6:.6f} s, read of {each.n_sectors / 2:g} KiB at sector {each.sector}"


def _sight(numbers: list[int]) -> str:
    """What a network saw, newest read first."""
    history = len(numbers) // 2
    pending, now, latency = numbers[:history], numbers[history], numbers[history + 1 :]
    past = ", ".join(
        f"{us} us at {pages}" for us, pages in zip(latency[::-1], pending[::-1], strict=True)
    )
    return f"{now} page{'s' * (now != 1)} pending; last reads {past}"


def _state(numbers: list[int]) -> str:
    """What a latency model saw, newest read first; names as docs/formats.md has them."""
    saw = dict(zip(FEATURES, numbers, strict=True))
    past = ", ".join(
        f"{saw[f'latency_us_{ago}']} us at {saw[f'pending_{ago}']}" for ago in range(1, HISTORY + 1)
    )
    return ", ".join(f"{name} {saw[name]}" for name in NOW + LATER) + f"; last reads {past}"


def _sum(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of an addition: amount, the words beside it; the last one is the sum."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    heads = ["because", *[""] * (len(rows) - 2), "="]
    return [
        "  ".join(
            [
                f"  {head:8}",
                amount.rjust(widths[0]),
                *(word.ljust(width) for word, width in zip(words, widths[1:], strict=True)),
            ]
        ).rstrip()
        for head, (amount, *words) in zip(heads, rows, strict=True)
    ]


def _ways(other: str, changes: list[tuple[str, int, int]]) -> str:
    """What would have turned the verdict."""
    ways = "; or ".join(f"{name} {value}, not {now}" for name, value, now in changes)
    return f"  {other} with {ways or 'no other value of any one number'}"
