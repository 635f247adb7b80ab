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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from eval import figures
from eval.cache import RESULTS, ROOT, read_record
from eval.cells import WORKLOADS
from eval.experiment import Context, Table
from eval.long_table import LongTable
from eval.study import Measure, Study, described
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
    among: tuple[str, ...] = ()
    more_is_better: bool = True
    unit: str = "%"
    #: The factor between measured numbers and the paper's.
    scale: float = 100.0
    #: True if the paper's numbers say how much higher the policy's number is than the reference's.
    is_higher: bool = False
    #: True if the claim is about averages over the values of a factor.
    averaged: bool = False
    #: Function that converts a number to the scale on which the numbers of seeds are normally
    #: distributed. For ratios, this scale is logarithmic.
    on: Callable[[float], float] = float
    #: Reason why our measurement is not comparable with the paper's. Empty if it is comparable.
    unlike: str = ""

    def tested_on(self, case: Interval) -> Interval:
        """Return a case on the scale of :attr:`on`."""
        return Interval(*(self.on(end) for end in (case.value, case.low, case.high)))

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


def _log_of_reduction(share: float) -> float:
    """Return the logarithm of reference / policy, given the relative reduction by the policy."""
    return -math.log1p(-share)


#: The names of policies in the texts of claims.
_NAMES = {
    "linnos-hl": "LinnOS+HL",
    "linnos": "LinnOS alone",
    "hedge": "hedging at p95",
    "hedge-ip": "hedging at the inflection point",
    "heuristic-adv": "the advanced heuristic",
}

#: The rivals of Fig. 8 that are not the paper's, with the difference.
_NOT_THE_PAPERS = {
    "hedge-ip": "hedges at the inflection point of a wider search",
    "heuristic-adv": "tuned on the recording, which the paper does by hand in 5.6.1 only",
}


def _mean(policy: str, reference: str, low: float, high: float) -> list[Claim]:
    """Return a claim about means twice: as published, and as an operator would run it today."""
    text = f"mean of {_NAMES[policy]} compared with {_NAMES[reference]}, lower by"
    today = Claim(
        text, low, high, "fig08", "mean_us", policy, reference, on=_log_of_reduction,
        unlike=_NOT_THE_PAPERS.get(reference, ""),
    )  # fmt: skip
    return [replace(today, text=f"as published: {text}", source="published", unlike=""), today]


def _offline(text: str, low: float, high: float, measure: str, training: str) -> Claim:
    more = measure == "accuracy"
    return Claim(text, low, high, "fig10", measure, training, more_is_better=more)


def _model(name: str, low: float, high: float) -> Claim:
    text = f"accuracy of model {name} minus LinnOS's"
    return Claim(text, low, high, "table3", "accuracy", name, "LinnOS", averaged=True)


_OTHER_PROCESSOR = "another processor, another kernel"

CLAIMS = (
    *_mean("linnos-hl", "hedge", 9.6, 79.6),
    *_mean("linnos-hl", "hedge-ip", 14.2, 49.5),
    *_mean("linnos-hl", "heuristic-adv", 10.7, 71.2),
    *_mean("linnos", "hedge", 0.3, 62.3),
    *_mean("linnos", "heuristic-adv", 3.0, 60.7),
    Claim("as published: mean of LinnOS alone compared with LinnOS+HL, higher by", 1.3, 45.7,
          "published", policy="linnos", reference="linnos-hl", on=math.log1p, is_higher=True),
    Claim("mean of LinnOS alone compared with LinnOS+HL, higher by", 1.3, 45.7, "fig08",
          policy="linnos", reference="linnos-hl", on=math.log1p, is_higher=True),
    Claim("mean of LinnOS+HL compared with LinnOS+H99, lower by", 1.7, 39.2, "fig08",
          policy="linnos-hl", reference="linnos-h99", on=_log_of_reduction),
    Claim("inflection points, percentile", 72.0, 98.5, "fig05", "paper_percentile", unit="",
          scale=1.0),
    Claim("inflection point of an hour, largest deviation in 15 hours, percentiles", 0.0, 5.0,
          "fig07", "largest", among=("60",), more_is_better=False, unit="", scale=1.0,
          unlike="an hour of ours is a minute of load at most"),
    _offline("false submits without the bias", 1.3, 10.8, "false_submit_ratio", "unbiased"),
    _offline("false submits with the bias", 0.7, 5.7, "false_submit_ratio", "biased"),
    _offline("false revokes with the bias", 2.8, 9.7, "false_revoke_ratio", "biased"),
    _offline("false revokes at 5.7 % of false submits", 2.8, 9.7, "matched_revoke_ratio", "biased"),
    _offline("accuracy", 87.0, 97.0, "accuracy", "biased"),
    _model("A", -12.0, -3.0),
    _model("B", -4.0, -1.0),
    _model("C", 1.0, 2.0),
    _model("D", 4.0, 5.0),
    replace(
        _model("E", 8.0, 12.0),
        unlike="2.1 million weights from some 25,000 reads; the paper has millions of reads",
    ),
    Claim("time of an inference, us", 4.0, 6.0, "cpu", "work_ns", more_is_better=False, unit="",
          scale=0.001, unlike=_OTHER_PROCESSOR),
    Claim("share of the CPU a drive", 0.3, 0.7, "cpu", "cpu_share", more_is_better=False,
          unlike=_OTHER_PROCESSOR),
)  # fmt: skip


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
            stats.p_value_of(claim.tested_on(case), claim.on(high if side > 0 else low), n_seeds)
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
        unit = f" {claim.unit}" if claim.unit else ""
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
    figures.ranges({claim.text: (claim.low, claim.high) for claim in claims}, cases, 100.0, path)


@dataclass(frozen=True)
class ClaimsStudy(Study):
    """A study without cells, whose table is computed from those of other studies."""

    @property
    def uses(self) -> tuple[str, ...]:
        """Return the experiments whose tables it reads."""
        return tuple(dict.fromkeys(claim.source for claim in CLAIMS))

    def run(self, context: Context) -> LongTable:
        """Collect the cases."""
        return collect(context)

    def tables(self, table: LongTable) -> dict[str, Table]:
        """Return the verdicts and the cases."""
        return tables(table)


EXPERIMENT = ClaimsStudy(
    **described("claims"),
    figure=draw,
    page_data=lambda table: {"by_figure": count_by_figure(table)},
    pages={"claims.md.j2": ROOT / "docs" / "paper.md"},
)
