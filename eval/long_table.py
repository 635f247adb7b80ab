# SPDX-License-Identifier: MIT
"""The long table of an experiment: one row for each number, with its interval.

A row belongs to a place (one value of each factor), a policy and a measure. A row with a reference
compares the policy with that reference. For reads, and for measures that are `positive`
(:class:`eval.study.Measure`), its value is the relative reduction of the measure, which is positive
if the policy is faster. For other measures, it is the policy's number minus that of the reference.
A row with a seed contains the number of that seed alone. On disk, the table is a CSV file, which
pandas, R and a spreadsheet can read.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eval import contenders
from linnapp.files import replace_text
from linnapp.stats import Interval

#: One value of each factor, as text. It is empty for a factor over which the row is averaged.
Place = tuple[str, ...]

FASTER, SLOWER, NOT_SIGNIFICANT = "faster", "slower", "not significant"


class Key(NamedTuple):
    """Identification of a number."""

    place: Place
    policy: str
    measure: str
    reference: str = ""
    seed: str = ""


def verdict(reduction: Interval) -> str:
    """Return ``FASTER`` or ``SLOWER`` if a reduction is significant, else ``NOT_SIGNIFICANT``."""
    if reduction.is_above:
        return FASTER
    return SLOWER if reduction.is_below else NOT_SIGNIFICANT


class LongTable:
    """The numbers of an experiment, by factor values, policy and measure."""

    _COLUMNS = ("policy", "measure", "reference", "seed", "value", "low", "high")

    def __init__(self, factors: Sequence[str]) -> None:
        self.factors = tuple(factors)
        self._numbers: dict[Key, Interval] = {}
        # Policies and seeds in the order in which they were added; policies by place, and those of
        # the whole table at None.
        self._policies: dict[Place | None, dict[str, None]] = {None: {}}
        self._seeds: dict[str, None] = {}

    def _put(self, key: Key, number: Interval) -> None:
        self._numbers[key] = number
        self._policies[None][key.policy] = None
        self._policies.setdefault(key.place, {})[key.policy] = None
        if key.seed:
            self._seeds[key.seed] = None

    def add(
        self,
        place: Iterable[Any],
        policy: str,
        measure: str,
        number: Interval | float,
        reference: str = "",
        seed: int | str = "",
    ) -> None:
        """Add a number."""
        if not isinstance(number, Interval):
            number = Interval.unknown(float(number))
        self._put(Key(tuple(map(str, place)), policy, measure, reference, str(seed)), number)

    def items(self) -> Iterable[tuple[Key, Interval]]:
        """Return all rows."""
        return self._numbers.items()

    def get(
        self, place: Place, policy: str, measure: str, reference: str = "", seed: int | str = ""
    ) -> Interval | None:
        """Return a number, or None if the table does not have it.

        Percentiles that are based on too few reads are not in the table.
        """
        return self._numbers.get(Key(place, policy, measure, reference, str(seed)))

    def interval(self, place: Place, policy: str, measure: str, reference: str = "") -> Interval:
        """Return a number that the table is known to have."""
        return self._numbers[Key(place, policy, measure, reference)]

    def value(self, place: Place, policy: str, measure: str, seed: int | str = "") -> float:
        """Return a number without its interval, or NaN."""
        found = self.get(place, policy, measure, seed=seed)
        return math.nan if found is None else found.value

    def reduction(
        self, place: Place, policy: str, reference: str, measure: str = "mean_us"
    ) -> Interval | None:
        """Return the share by which a policy's measure is lower than that of a reference."""
        return self.get(place, policy, measure, reference)

    @property
    def places(self) -> list[Place]:
        """The places, in the order in which they were added."""
        return [place for place in self._policies if place is not None]

    def factor_values(self) -> dict[str, list[str]]:
        """Return the values of each factor, in the order in which they were added."""
        return {
            name: list(dict.fromkeys(place[k] for place in self.places if place[k]))
            for k, name in enumerate(self.factors)
        }

    def places_of(self, factors: Iterable[str]) -> list[Place]:
        """Return the places that have a value for exactly these factors."""
        wanted = {*factors}
        return [
            place
            for place in self.places
            if {name for name, value in zip(self.factors, place, strict=True) if value} == wanted
        ]

    def policies(self, place: Place | None = None) -> list[str]:
        """Return the policies that were measured, everywhere or in one place."""
        return list(self._policies.get(place, {}))

    def seeds(self) -> list[str]:
        """Return the seeds that have rows of their own."""
        return list(self._seeds)

    def places_with_rivals(self, measure: str = "mean_us") -> list[Place]:
        """Return the places in which an alternative was measured."""
        rivals = contenders.rivals(self.policies())
        return [
            place for place in self.places if any(self.get(place, name, measure) for name in rivals)
        ]

    def best_rival(
        self, place: Place, measure: str = "mean_us", most_extra: float = math.inf
    ) -> str:
        """Return the alternative with the lowest value of a measure.

        Alternatives are the policies other than LinnOS, its successors and bounds. Those that send
        more than a share `most_extra` of the reads twice are left out.
        """
        known = {
            name: number.value
            for name in contenders.rivals(self.policies(place))
            if (number := self.get(place, name, measure)) is not None
            and not self.value(place, name, "extra_io_ratio") > most_extra
        }
        return min(known, key=known.__getitem__)

    def count_verdicts(
        self, policy: str, reference: str, measure: str = "mean_us"
    ) -> dict[str, list[Place]]:
        """Return the places by verdict (:func:`verdict`) on a policy compared with a reference."""
        found: dict[str, list[Place]] = {FASTER: [], SLOWER: [], NOT_SIGNIFICANT: []}
        for place in self.places:
            reduction = self.reduction(place, policy, reference, measure)
            if reduction is not None:
                found[verdict(reduction)].append(place)
        return found

    def only(
        self, policies: Iterable[str] | None = None, measures: Iterable[str] | None = None
    ) -> LongTable:
        """Return a table with only these policies and measures.

        The comparisons of these policies are kept, also those with policies that are left out.
        """
        part = LongTable(self.factors)
        kept_policies = None if policies is None else {*policies}
        kept_measures = None if measures is None else {*measures}
        for key, number in self._numbers.items():
            if (kept_policies is None or key.policy in kept_policies) and (
                kept_measures is None or key.measure in kept_measures
            ):
                part._put(key, number)
        return part

    def add_missing_places(self, older: LongTable) -> bool:
        """Add the places that only an older table has. Return true if there are any."""
        missing = {*older.places} - {*self.places}
        for key, number in older.items():
            if key.place in missing:
                self._put(key, number)
        return bool(missing)

    def to_csv(self) -> str:
        """Return the table as CSV text, in which NaN and infinite numbers are empty."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow((*self.factors, *self._COLUMNS))
        for key, number in self._numbers.items():
            ends = ("" if end is None else repr(end) for end in number.to_json())
            rows.writerow((*key.place, key.policy, key.measure, key.reference, key.seed, *ends))
        return text.getvalue()

    @classmethod
    def from_csv(cls, text: str) -> LongTable:
        """Restore a table from the result of :meth:`to_csv`."""
        header, *rows = csv.reader(io.StringIO(text))
        n_factors = len(header) - len(cls._COLUMNS)
        if tuple(header[n_factors:]) != cls._COLUMNS:
            raise ValueError(f"the columns are {', '.join(header)}, not those of a long table")
        table = cls(header[:n_factors])
        for row in rows:
            policy, measure, reference, seed, *ends = row[n_factors:]
            numbers = [float(end) if end else None for end in ends]
            table.add(
                row[:n_factors], policy, measure, Interval.from_json(numbers), reference, seed
            )
        return table

    def save(self, path: Path) -> None:
        """Write the table to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, self.to_csv())

    @classmethod
    def load(cls, path: Path) -> LongTable:
        """Read a table that :meth:`save` wrote."""
        return cls.from_csv(path.read_text())
