# SPDX-License-Identifier: MIT
"""Checks of the arguments of the library's functions: report errors, never guess a value."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Collection, Iterable, Sequence
from typing import Any


def check_choice(name: str, value: Any, accepted: Sequence[str]) -> None:
    """Raise ValueError if the value is not one of the accepted words."""
    if value not in accepted:
        raise ValueError(f"{name}={value!r}: accepted are {', '.join(map(repr, accepted))}")


def check_number(
    name: str,
    value: Any,
    low: float,
    high: float = math.inf,
    *,
    whole: bool = False,
    open_ends: str = "",
) -> None:
    """Raise TypeError if the value is not a number, and ValueError if it is out of range.

    The ends, `low` and `high`, are accepted except those that `open_ends` names: "low", "high",
    or "low high". Infinities and NaN are out of range.
    """
    kind = numbers.Integral if whole else numbers.Real
    if isinstance(value, bool) or not isinstance(value, kind):
        what = "an integer" if whole else "a number"
        raise TypeError(f"{name}={value!r}: expected {what}, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    above = number > low if "low" in open_ends else number >= low
    below = number < high if "high" in open_ends else number <= high
    if not (above and below and math.isfinite(number)):
        least = f"above {low:g}" if "low" in open_ends else f"at least {low:g}"
        most = f"below {high:g}" if "high" in open_ends else f"at most {high:g}"
        if high == math.inf:
            most = "and no infinity"
        raise ValueError(f"{name}={value!r}: accepted is {least}, {most}")


def check_flag(name: str, value: Any) -> None:
    """Raise TypeError if the value is neither True nor False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: expected True or False, not {type(value).__name__}")


def check_kind(name: str, value: Any, kind: type, where: str = "") -> None:
    """Raise TypeError for another class; `where` may say where suitable objects are found."""
    if not isinstance(value, kind):
        found = type(value).__name__
        raise TypeError(f"{name}={value!r}: expected {kind.__name__}{where}, not {found}")


def did_you_mean(name: str, accepted: Iterable[str]) -> str:
    """Return a question that names the words similar to a mistyped name; empty if there are none.

    It may name several: 'trian', with two letters swapped, is more similar to 'trial' than to
    'train'.
    """
    near = difflib.get_close_matches(name, list(accepted))
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else ""


def check_names(function: str, given: Collection[str], accepted: Sequence[str]) -> None:
    """Raise TypeError for unknown keyword arguments."""
    for name in given:
        if name not in accepted:
            near = difflib.get_close_matches(name, accepted, n=1)
            meant = f"did you mean {near[0]!r}? A" if near else "a"
            raise TypeError(
                f"{function}() has no argument {name!r}; {meant}ccepted are {', '.join(accepted)}"
            )
