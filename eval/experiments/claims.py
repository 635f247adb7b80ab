# SPDX-License-Identifier: MIT
"""Compare each claim of the paper with our numbers, case by case.

All numbers come from the long tables of other experiments. A case is one of our numbers: that of a
workload, or of a drive. For each claim the table says how many cases are in the paper's range, and
how many are significantly worse or better than the range. A joint test of all cases of the claim
decides that (Student's t over seeds, Holm's correction, a level of 5 %). Its p-value is that of the
hypothesis that all cases are in the range. Other cases outside of the range may be there by chance.
If our measurement differs from the paper's, the numbers are shown as *not comparable*.
Nothing was adjusted to influence a verdict.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from eval import figures
from eval.cache import RESULTS, ROOT, read_record
from eval.cells import WORKLOADS
from eval.experiment import Context, Table
from eval.long_table import LongTable
from eval.study import Measure, Study, load_study_texts
from linnapp import stats
from linnapp.lab.work import StepError
from linnapp.stats import Interval

BETTER, WORSE, MIXED = "better in some cases", "worse in some cases", "better and worse"
NOT_SHOWN, UNTESTED = "not shown to differ", "too few seeds"
UNKNOWN, NOT_COMPARABLE = "not run", "not comparable"

#: Significance level of the joint test of the cases of a claim.
CHANCE = 0.05

#: The figure or table of the paper that the claims of an experiment are about, and the quantity.
SUBJECTS = {
    "fig08": ("Fig. 8 and 11", "differences of means"),
    "published": ("Fig. 8", "the same, with all policies as published"),
    "fig05": ("Table 2", "inflection points"),
    "fig10": ("Fig. 10", "accuracy and errors of the network"),
    "table3": ("Table 3", "accuracy of other models"),
}

#: Names of measures in the table of the claims: the number of a case, and the number of seeds on
#: which the cases of a claim are based.
OURS, SEEDS = "ours", "seeds"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and the rows of a long table that it is compared with."""

    text: str
    #: `low`, `high`: the paper's range.
    low: float
    high: float
    #: The experiment that measures it.
    source: str
    #: `measure`, `policy`, `reference`: those of the rows. The reference is empty if the rows are
    #: not comparisons.
    measure: str = "mean_us"
    policy: str = ""
    reference: str = ""
    #: Values that the rows' places must have, such as "offline".
    among: Sequence[str] = ()
    more_is_better: bool = True
    #: The factor between measured numbers and the paper's, which are percent if it is 100.
    scale: float = 100.0
    #: True if the paper's numbers say how much higher the policy's number is than the reference's.
    is_higher: bool = False
    #: True if the claim is about averages over the values of a factor.
    averaged: bool = False
    #: Reason why our measurement is not comparable with the paper's. Empty if it is comparable.
    unlike: str = ""

    def to_test_scale(self, number: float) -> float:
        """Convert a number to the scale on which those of seeds are normally distributed.

        Means are compared by their ratio, for which this scale is logarithmic.
        """
        if self.measure != "mean_us":
            return number
        return math.log1p(number) if self.is_higher else -math.log1p(-number)

    def interval_on_test_scale(self, case: Interval) -> Interval:
        """Return a case on the scale of :meth:`to_test_scale`."""
        return Interval(*map(self.to_test_scale, (case.value, case.low, case.high)))

    def cases(self, table: LongTable) -> dict[str, Interval]:
        """Return our numbers, by their place in the source's table."""
        found = {
            ", ".join(filter(None, key.place)) or "all": number
            for key, number in table.items()
            if (key.policy, key.measure, key.reference, key.seed)
            == (self.policy, self.measure, self.reference, "")
            and {*self.among} <= {*key.place}
            and ("" in key.place) == self.averaged
            # Logs of real drives are no workloads of the paper.
            and (table.factors[0] != "workload" or key.place[0] in ("", *WORKLOADS))
        }
        if self.is_higher:
            return {case: Interval(-n.value, -n.high, -n.low) for case, n in found.items()}
        return found


CLAIMS = tuple(
    Claim(**fields)
    for fields in tomllib.loads((ROOT / "eval" / "claims.toml").read_text())["claims"]
)


class Judged(NamedTuple):
    """The result of comparing the cases of a claim with the paper's range."""

    verdict: str
    n_cases: int = 0
    #: Cases in the range, by their values alone.
    n_in_range: int = 0
    #: `n_worse`, `n_better`: cases that the joint test shows to be outside.
    n_worse: int = 0
    n_better: int = 0
    #: P-value of the hypothesis that all cases are in the range; NaN if it cannot be tested.
    p: float = math.nan


def judge(claim: Claim, cases: Sequence[Interval], n_seeds: int) -> Judged:
    """Compare the cases of a claim, intervals over `n_seeds` seeds, with the paper's range."""
    known = [case for case in cases if math.isfinite(case.value)]
    low, high = (end / claim.scale for end in (claim.low, claim.high))
    n_in_range = sum(low <= case.value <= high for case in known)
    if not known or claim.unlike:
        return Judged(NOT_COMPARABLE if known else UNKNOWN, len(known), n_in_range)
    tested = [case for case in known if case.is_known]
    if not tested or n_seeds < 3:
        return Judged(UNTESTED, len(known), n_in_range)
    sides = [(case.value > high) - (case.value < low) for case in tested]
    p = stats.holm(
        [
            stats.p_value_of(
                claim.interval_on_test_scale(case),
                claim.to_test_scale(high if side > 0 else low),
                n_seeds,
            )
            if side
            else 1.0
            for case, side in zip(tested, sides, strict=True)
        ]
    )
    better = 1 if claim.more_is_better else -1
    outside = [side for side, p_value in zip(sides, p, strict=True) if p_value <= CHANCE]
    n_worse, n_better = outside.count(-better), outside.count(better)
    verdict = {(0, 0): NOT_SHOWN, (1, 0): WORSE, (0, 1): BETTER}.get(
        (min(n_worse, 1), min(n_better, 1)), MIXED
    )
    return Judged(verdict, len(known), n_in_range, n_worse, n_better, float(p.min()))


def collect(context: Context) -> LongTable:
    """Return the cases of all claims.

    If an experiment has not run, its cases are taken from the committed table of the claims.
    """
    path = RESULTS / "claims.csv"
    committed = LongTable.load(path) if path.exists() and not context.development else None
    table = LongTable(("claim", "case"))
    for claim in CLAIMS:
        try:
            cases = claim.cases(context.table_of(claim.source))
            record = read_record(context.folder.parent / claim.source) or {}
            n_seeds = float(len(record.get("seeds", ())))
        except StepError:
            cases, n_seeds = committed_cases(committed, claim)
        for case, number in cases.items():
            table.add((claim.text, case), "", OURS, number)
        table.add((claim.text, ""), "", SEEDS, n_seeds)
    return table


def committed_cases(table: LongTable | None, claim: Claim) -> tuple[dict[str, Interval], float]:
    """Return the cases of a claim in the table of the claims, and their number of seeds."""
    if table is None:
        return {}, 0.0
    cases = {
        key.place[1]: number
        for key, number in table.items()
        if (key.place[0], key.measure) == (claim.text, OURS)
    }
    seeds = table.value((claim.text, ""), "", SEEDS)
    return cases, 0.0 if math.isnan(seeds) else seeds


def count_by_figure(table: LongTable) -> Table:
    """Count the cases that can be compared, by the figure of the paper, and in total."""
    rows, totals = [], [0, 0, 0, 0]
    for source, (figure, quantity) in SUBJECTS.items():
        counts, tested = [0, 0, 0, 0], False
        for claim in CLAIMS:
            if claim.source != source or claim.unlike:
                continue
            cases, seeds = committed_cases(table, claim)
            of = judge(claim, list(cases.values()), round(seeds))
            tested |= of.verdict not in (UNKNOWN, UNTESTED)
            found = (of.n_cases, of.n_in_range, of.n_worse, of.n_better)
            counts = [count + n for count, n in zip(counts, found, strict=True)]
        totals = [total + n for total, n in zip(totals, counts, strict=True)]
        texts = [str(n) for n in counts]
        if not counts[0]:
            texts = ["not run", "-", "-", "-"]
        elif not tested:
            texts[2:] = ["not tested", "not tested"]
        rows.append((figure, quantity, *texts))
    rows.append(("all", "", *map(str, totals)))
    header = ("the paper's", "claims about", "cases", "in the paper's range", "shown worse",
              "shown better")  # fmt: skip
    return Table(header, tuple(rows))


def tables(table: LongTable) -> dict[str, Table]:
    """Return a table with a row for each claim, their totals, and a table of all cases."""
    rows, every = [], []
    for claim in CLAIMS:
        cases, seeds = committed_cases(table, claim)
        shown = Measure("", 1, claim.scale)
        unit = " %" if claim.scale == 100 else ""
        ends = sorted(cases.values(), key=lambda case: case.value)
        row = (shown.text(ends[0]), shown.text(ends[-1])) if ends else ("-", "-")
        found = judge(claim, list(cases.values()), round(seeds))
        counts = (found.n_cases, found.n_in_range, found.n_worse, found.n_better)
        rows.append(
            (claim.text, f"{claim.low:g} to {claim.high:g}{unit}", *row, *map(str, counts),
             "-" if math.isnan(found.p) else f"{found.p:.2g}", found.verdict,
             claim.unlike, claim.source, f"{seeds:.0f}")
        )  # fmt: skip
        every += [(claim.text, case, shown.text(number)) for case, number in cases.items()]
    counted = ("cases", "in range", "shown worse", "shown better")
    header = ("claim", "paper", "our lowest case", "our highest case", *counted, "joint p",
              "judged", "not comparable because", "from", "seeds")  # fmt: skip
    return {
        "Claims of the paper": Table(header, tuple(rows)),
        "All cases that can be compared": count_by_figure(table),
        "Every case": Table(("claim", "case", "ours"), tuple(every)),
    }


def draw(table: LongTable, path: Path) -> None:
    """Draw the paper's range and our cases for the claims in percent that can be compared."""
    claims = [claim for claim in CLAIMS if claim.source in ("fig08", "fig10") and not claim.unlike]
    cases = {claim.text: committed_cases(table, claim)[0] for claim in claims}
    figures.draw_ranges(
        {claim.text: (claim.low, claim.high) for claim in claims}, cases, 100.0, path
    )


EXPERIMENT = Study(
    **load_study_texts("claims"),
    measure_all=collect,
    uses=tuple(dict.fromkeys(claim.source for claim in CLAIMS)),
    measures={},
    more_tables=tables,
    figure=draw,
    page_data=lambda table: {"by_figure": count_by_figure(table)},
    pages={"claims.md.j2": ROOT / "docs" / "paper.md"},
)
