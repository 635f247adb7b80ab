# SPDX-License-Identifier: MIT
"""Declare an experiment as data: its factors, policies and seeds, and how a cell is measured.

A study measures every combination of the values of its factors, a policy and a seed. Such a
combination is a *cell*, and a combination of factor values alone is a *place*. Pages call a
workload on an array with a seed a *configuration*. An experiment is a
file `eval/experiments/NAME.py` with a :class:`Study` named `EXPERIMENT`; no other file has to be
changed. The function `cell` measures one cell::

    def cell(context, *, workload, policy, seed):
        return grid.replay(context, grid.cell(workload, seed), policy)

    EXPERIMENT = Study(
        name="mine", title="Policies on two workloads", factors={"workload": ("az-e", "bi-e")},
        policies=("baseline", "hedge", "fastest"), cell=cell, prepare=grid.prepare_place,
        reads=True,
    )

The long texts and the columns of the paper's experiments are in `eval/studies.toml`
(:func:`load_study_texts`).

The rest is done by the study: it runs the cells in parallel, caches their results, and collects
their numbers with intervals in one long table (:mod:`eval.long_table`, `out/eval/NAME/table.csv`).
The tables of the report, the figure and the tables of the pages in `docs` are made from this table.

A cell returns either reads or numbers:

- Reads (`reads=True`): a :class:`~eval.cells.Replayed` or :class:`Reads`, or None if the
  combination does not exist. Means and percentiles are pooled over the seeds, and policies are
  compared with each other on the same reads.
- Numbers: a mapping from the names of `measures` to floats. If one run measures several things, the
  cell returns a list of such mappings. Each mapping then also contains the values of further
  factors, such as the drive.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from eval import contenders, figures, scores
from eval.cache import code_version
from eval.experiment import NOT_AVAILABLE, Context, Table
from eval.intervals import interval_over_seeds
from eval.long_table import LongTable, Place, verdict
from eval.scores import Reads
from linnapp.lab.work import Step, StepError
from linnapp.stats import Interval

#: A finished cell: its place, policy and seed, and what its function returned.
Done = tuple[dict[str, Any], str, int, Any]


class Measure(NamedTuple):
    """A column of numbers in a table: its title, and the format of its numbers."""

    title: str
    digits: int = 0
    #: Factor between the stored and the written number.
    scale: float = 1.0
    #: True for rates and times, whose values differ by factors. Their intervals are computed on
    #: logarithms, and they are compared by relative reductions instead of differences.
    positive: bool = False

    def text(self, number: Interval | None) -> str:
        """Write a number with its interval, or a dash if there is none."""
        return scores.number(None if number is None else number.to_json(), self.digits, self.scale)


#: The measures of replayed reads that tables show.
READ_MEASURES = {
    "mean_us": Measure("mean us", 1),
    **{scores.key(p): Measure(f"p{p:g} us") for p in (50.0, 95.0, 99.0, 99.9)},
    "extra_io_ratio": Measure("extra I/O %", 2, 100.0),
    "revoked_ratio": Measure("refused %", 1, 100.0),
    "share_of_oracle": Measure("% of the oracle's gain", 0, 100.0),
}

#: A reduction of a mean or percentile, in percent.
REDUCTION = Measure("% lower", 1, 100.0)


@dataclass(frozen=True)
class Study:
    """One experiment; see the head of this module."""

    #: As in `make eval-NAME`.
    name: str
    title: str
    #: The values of each factor. Empty for a view (`view_of`).
    factors: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    #: Measures one cell: `cell(context, policy=..., seed=..., **factors)`.
    cell: Callable[..., Any] | None = None
    #: Measures all cells at once, if they cannot be measured one by one.
    measure_all: Callable[[Context], LongTable] | None = None
    policies: Sequence[str] = ("",)
    #: The titles of policies in tables, if they are not the names.
    titles: Mapping[str, str] = field(default_factory=dict)
    #: True if cells return reads. Otherwise they return numbers, which the study caches.
    reads: bool = False
    measures: Mapping[str, Measure] = field(default_factory=lambda: READ_MEASURES)
    #: Runs once for each place and seed before its cells: `prepare(context, seed=..., **factors)`.
    prepare: Callable[..., Any] | None = None
    #: The seeds of a place: `seeds(seeds, **factors)`; all of them by default.
    seeds: Callable[..., Sequence[int]] | None = None
    #: If cells return reads: policies that are compared with all others, by default LinnOS and its
    #: successors.
    compared: Sequence[str] = ()
    #: Pairs of a policy and a reference for an additional table of comparisons.
    pairs: Sequence[tuple[str, str]] = ()
    #: If cells return numbers: the policy with which all others are compared.
    reference: str = ""
    #: Groups of factors. The report has a table for each group, with a row for each combination of
    #: its factors' values. Numbers are averaged over everything else. By default, there is one
    #: group of all factors.
    groups: Sequence[tuple[str, ...]] = ()
    #: Name of the study whose long table this study shows. A study with this field (a view) has no
    #: cells.
    view_of: str = ""
    #: Experiments whose long tables `measure_all` reads.
    uses: Sequence[str] = ()
    #: Draws the figure: `figure(table, path)`.
    figure: Callable[[LongTable, Path], None] | None = None
    #: More tables of the report, by heading.
    more_tables: Callable[[LongTable], Mapping[str, Table]] | None = None
    #: Fields of a replay's summary whose value for each seed is in the table.
    seed_fields: Sequence[str] = scores.OF_EACH_SEED
    #: More values for the templates of pages.
    page_data: Callable[[LongTable], Mapping[str, Any]] | None = None
    #: Templates of tables in `eval/templates`, and the page that each belongs to.
    pages: Mapping[str, Path] = field(default_factory=dict)
    #: The paper's numbers, by policy or by the first factor's value, then by measure.
    paper_values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: The figure or table of the paper.
    source: str = "not in the papers"
    #: The paper's result in words.
    paper: str = NOT_AVAILABLE
    #: The differences from the paper, and the reasons.
    differs: str = ""
    #: Notes that explain the tables.
    notes: str = ""
    #: Inputs from outside the repository that decide the outcome: digests of files, and names in
    #: environment variables.
    inputs: Mapping[str, Any] = field(default_factory=dict)
    #: More files that decide the outcome of a cell, relative to the repository.
    sources: tuple[str, ...] = ()
    command: str = ""
    #: True if a run can measure only some of the places. The committed numbers of the other places
    #: are then kept.
    adds: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        """The factors, policies and inputs of the study, without the seeds."""
        return {"factors": dict(self.factors), "policies": list(self.policies), **self.inputs}

    @property
    def table_name(self) -> str:
        """Name of the experiment whose long table is used, which is another one for a view."""
        return self.view_of or self.name

    def places(self) -> Iterator[dict[str, Any]]:
        """Yield all combinations of factor values."""
        for values in itertools.product(*self.factors.values()):
            yield dict(zip(self.factors, values, strict=True))

    def run(self, context: Context) -> LongTable:
        """Run all cells and return their numbers."""
        if self.view_of:
            return context.table_of(self.view_of)
        if self.measure_all is not None:
            return self.measure_all(context)
        done = self.run_cells(context)
        return self._pool_reads(done) if self.reads else self._average(done)

    def run_cells(self, context: Context) -> list[Done]:
        """Run all cells and return their results."""
        work = context.work()
        steps: list[tuple[dict[str, Any], str, int, Step[Any]]] = []
        for seed in context.seeds:
            for place in self.places():
                if self.seeds is not None and seed not in self.seeds(context.seeds, **place):
                    continue
                after = []
                if self.prepare is not None:
                    prepare = partial(self.prepare, context, seed=seed, **place)
                    after.append(work.add("preparing", prepare))
                for policy in self.policies:
                    call = partial(self._measure, context, place, policy, seed)
                    steps.append((place, policy, seed, work.add("measuring", call, after)))
        work.do()
        return [(place, policy, seed, step.result) for place, policy, seed, step in steps]

    def _measure(self, context: Context, place: dict[str, Any], policy: str, seed: int) -> Any:
        """Run one cell.

        Numbers are cached. The key consists of the cell's arguments and the experiment's code.
        """
        assert self.cell is not None
        call = partial(self.cell, context, policy=policy, seed=seed, **place)
        if self.reads:
            return call()
        module = f"eval/experiments/{self.name}"
        parameters = {
            "study": self.name, "place": place, "policy": policy, "seed": seed,
            "inputs": self.inputs,
            "code": code_version(f"{module}.py", module, *self.sources),
        }  # fmt: skip

        return context.cache.value("study", parameters, lambda _: call())

    def _pool_reads(self, done: Sequence[Done]) -> LongTable:
        table = LongTable(tuple(self.factors))
        by_place: dict[Place, dict[int, dict[str, Any]]] = {}
        for place, policy, seed, result in done:
            if result is None:
                continue
            repeats = by_place.setdefault(tuple(map(str, place.values())), {})
            repeats.setdefault(seed, {})[policy] = result
        if not by_place:
            raise StepError(f"{self.name}: there is nothing to measure")
        for key, by_seed in by_place.items():
            scores.add_reads(table, key, by_seed, self.compared, fields=self.seed_fields)
        return table

    def _average(self, done: Sequence[Done]) -> LongTable:
        """Average numbers over the seeds.

        If there are several numbers for a seed, for example one per drive, their mean is the value
        of the seed.
        """
        rows = [
            {**place, **numbers, "policy": policy, "seed": seed}
            for place, policy, seed, result in done
            for numbers in (result if isinstance(result, list) else [result])
        ]
        groups = tuple(self.groups) or (tuple(self.factors),)
        factors = tuple(dict.fromkeys(name for group in groups for name in group))
        table = LongTable(factors)
        for group in groups:
            found: dict[tuple[Place, str, str], dict[int, list[float]]] = {}
            for row in rows:
                place = tuple(str(row[name]) if name in group else "" for name in factors)
                for measure in self.measures:
                    if row.get(measure) is not None:
                        by_seed = found.setdefault((place, row["policy"], measure), {})
                        by_seed.setdefault(row["seed"], []).append(float(row[measure]))
            for (place, policy, measure), by_seed in found.items():
                positive = self.measures[measure].positive
                table.add(place, policy, measure, interval_over_seeds(by_seed, positive=positive))
                for seed, values in by_seed.items():
                    table.add(place, policy, measure, sum(values) / len(values), seed=seed)
                compared = found.get((place, self.reference, measure))
                if self.reference not in ("", policy) and compared:
                    difference = {
                        seed: [
                            1 - a / b if positive else a - b
                            for a, b in zip(values, compared[seed], strict=False)
                        ]
                        for seed, values in by_seed.items()
                        if seed in compared
                    }
                    table.add(
                        place, policy, measure, interval_over_seeds(difference), self.reference
                    )
        return table

    def tables(self, table: LongTable) -> dict[str, Table]:
        """Return the tables of the report, by heading."""
        if self.view_of:
            wanted = None if self.policies == ("",) else self.policies
            table = table.only(wanted, self.measures)
        shown: dict[str, Table] = {}
        ours = [name for name in contenders.ours(table.policies()) if self.is_compared(table, name)]
        if ours and "mean_us" in self.measures:
            shown["Mean read latency compared with the best rival"] = best_rival_table(table, ours)
            shown[f"The same, of rivals with at most {contenders.EXTRA_IO_LIMIT:.0%} extra I/O"] = (
                best_rival_table(table, ours, contenders.EXTRA_IO_LIMIT)
            )
        if self.pairs:
            shown["Mean read latency of pairs of policies"] = pairs_table(
                table, self.pairs, self.title_of
            )
        for group in self.groups or (table.factors,):
            places = table.places_of(group)
            heading = (
                f"By {', '.join(map(words_of, group))}" if group else "Average over all places"
            )
            if len(self.groups) < 2:
                heading = "All numbers"
            if places and self.measures:
                shown[heading] = self._all_numbers(table, group, places)
        if self.more_tables is not None:
            shown.update(self.more_tables(table))
        return {heading: shown_table for heading, shown_table in shown.items() if shown_table.rows}

    @staticmethod
    def is_compared(table: LongTable, policy: str) -> bool:
        """Return whether the table compares the mean of a policy with that of others."""
        return any(key.policy == policy and key.reference for key, _ in table.items())

    def _all_numbers(self, table: LongTable, group: Sequence[str], places: list[Place]) -> Table:
        """Return a table with a row per place and policy and a column per measure of the places."""
        wanted = {*places}
        known = {k.measure for k, _ in table.items() if not k.reference and k.place in wanted}
        measures = {name: measure for name, measure in self.measures.items() if name in known}
        with_policy = table.policies() != [""]
        papers = [
            name
            for name in measures
            if any(name in values for values in self.paper_values.values())
        ]
        compared = {(k.measure, k.reference) for k, _ in table.items() if k.place in wanted}
        header = [*map(words_of, group), *(["policy"] if with_policy else [])]
        references = {
            name: [self.reference] if (name, self.reference or None) in compared else []
            for name in measures
        }
        for name, measure in measures.items():
            header.append(measure.title)
            header += ["the paper's"] if name in papers else []
            header += [
                ("% lower than " if measure.positive else "minus ") + self.title_of(reference)
                for reference in references[name]
            ]
        rows = []
        for place in places:
            factor_values = [place[table.factors.index(name)] for name in group]
            for policy in table.policies(place):
                row = [*factor_values, *([self.title_of(policy)] if with_policy else [])]
                for name, measure in measures.items():
                    row.append(measure.text(table.get(place, policy, name)))
                    if name in papers:
                        values = self.paper_values.get(policy) or self.paper_values.get(
                            place[0], {}
                        )
                        row.append(values.get(name, "-"))
                    row += [
                        (REDUCTION if measure.positive else measure).text(
                            table.get(place, policy, name, reference)
                        )
                        for reference in references[name]
                    ]
                rows.append(tuple(row))
        return Table(tuple(header), tuple(rows))

    def title_of(self, policy: str) -> str:
        """Return the name of a policy in tables."""
        return self.titles.get(policy) or contenders.title(policy)

    def draw(self, table: LongTable, path: Path) -> None:
        """Draw the figure."""
        if self.figure is not None:
            self.figure(table, path)
        elif contenders.rivals(table.policies()):
            figures.draw_ranked_policies(table, path)
        else:
            titles = {name: measure.title for name, measure in self.measures.items()}
            scales = {name: measure.scale for name, measure in self.measures.items()}
            figures.draw_by_place(table, titles, path, scales=scales)


def words_of(factor: str) -> str:
    """Return the name of a factor in a table."""
    return factor.replace("_min", ", minutes").replace("_", " ")


def load_study_texts(name: str) -> dict[str, Any]:
    """Return the arguments of a study that `eval/studies.toml` has: texts, columns, paper's values.

    Lines of a paragraph are joined.
    """
    found: dict[str, Any] = {"name": name}
    for key, value in _TEXTS[name].items():
        if key == "measures":
            value = {column: Measure(**fields) for column, fields in value.items()}
        elif isinstance(value, str):
            value = "\n\n".join(" ".join(part.split()) for part in value.split("\n\n"))
        found[key] = value
    return found


_TEXTS = tomllib.loads(Path(__file__).with_name("studies.toml").read_text())


def best_rival_table(
    table: LongTable,
    ours: Sequence[str],
    most_extra: float = float("inf"),
    measure: str = "mean_us",
) -> Table:
    """Return a table that compares LinnOS and its successors with the best alternative.

    It has a row for each place and each policy in `ours`, with the reduction and the verdict.
    Alternatives with more than a share `most_extra` of extra I/O are left out.
    """
    name = measure.removesuffix("_us")
    digits = READ_MEASURES[measure].digits
    rows = []
    for place in table.places_with_rivals(measure):
        rival = table.best_rival(place, measure, most_extra)
        for policy in ours:
            reduction = table.reduction(place, policy, rival, measure)
            if reduction is None:
                continue
            word = verdict(reduction)
            rows.append(
                (
                    *place, contenders.title(policy), contenders.title(rival),
                    f"{table.value(place, policy, measure):.{digits}f}",
                    f"{table.value(place, rival, measure):.{digits}f}",
                    REDUCTION.text(reduction), f"**{word}**" if reduction.excludes_zero else word,
                )
            )  # fmt: skip
    header = (
        "policy",
        "best rival",
        f"{name} us",
        f"{name} of the rival, us",
        "% lower",
        "verdict",
    )
    return Table((*map(words_of, table.factors), *header), tuple(rows))


def pairs_table(
    table: LongTable, pairs: Sequence[tuple[str, str]], title: Callable[[str], str]
) -> Table:
    """Return a table of the reductions of means, with a row for each place and pair of policies."""
    rows = tuple(
        (*place, title(policy), title(reference), REDUCTION.text(found), verdict(found))
        for policy, reference in pairs
        for place in table.places
        if (found := table.reduction(place, policy, reference)) is not None
    )
    names = map(words_of, table.factors)
    return Table((*names, "policy", "reference", "% lower", "verdict"), rows)


__all__ = [
    "READ_MEASURES",
    "REDUCTION",
    "Measure",
    "Reads",
    "Study",
    "best_rival_table",
    "load_study_texts",
]
