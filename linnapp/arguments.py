# SPDX-License-Identifier: MIT
"""Checks of the arguments of the library's functions: report errors, never guess a value."""

from __future__ import annotations

import dataclasses
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
        expected = "an integer" if whole else "a number"
        raise TypeError(f"{name}={value!r}: expected {expected}, not {type(value).__name__}")
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
            accepted_are = f"did you mean {near[0]!r}? Accepted are" if near else "accepted are"
            raise TypeError(
                f"{function}() has no argument {name!r}; {accepted_are} {', '.join(accepted)}"
            )


@dataclasses.dataclass(frozen=True)
class Option:
    """Declaration of an option: accepted values, and its flag on the command line.

    A number has the limits of :func:`check_number`. An option without limits and `choices` is
    either True or False. None is accepted if it is the default.
    """

    low: float | None = None
    high: float = math.inf
    whole: bool = False
    open_ends: str = ""
    choices: tuple[str, ...] = ()
    #: Kinds of models that the option applies to.
    kinds: tuple[str, ...] = ("network", "latency")
    #: Description, and name on the command line if it is not the same.
    help: str = ""
    flag: str = ""
    #: Limits on the command line if they are stricter.
    flag_high: float | None = None
    flag_open: bool = False

    def check(self, name: str, value: Any) -> None:
        """Raise TypeError or ValueError if the value is not accepted."""
        if self.choices:
            check_choice(name, value, self.choices)
        elif self.low is None:
            check_flag(name, value)
        else:
            ends = self.open_ends
            check_number(name, value, self.low, self.high, whole=self.whole, open_ends=ends)


def option(default: Any, low: float | None = None, high: float = math.inf, **others: Any) -> Any:
    """Return a field of a dataclass with its :class:`Option`, for :func:`check_options_of`."""
    declared = Option(low, high, **others)
    return dataclasses.field(default=default, metadata={"option": declared})


def options_in(owner: Any) -> dict[str, tuple[Option, Any]]:
    """Return the options of a dataclass by name, with their defaults."""
    return {
        field.name: (field.metadata["option"], field.default)
        for field in dataclasses.fields(owner)
        if "option" in field.metadata
    }


def check_options_of(instance: Any) -> None:
    """Raise TypeError or ValueError if the value of an option is not accepted."""
    for name, (declared, default) in options_in(instance).items():
        value = getattr(instance, name)
        if value is not None or default is not None:
            declared.check(name, value)
