# SPDX-License-Identifier: MIT
"""Compare each claim of the paper with our numbers, and give a verdict.

All numbers come from the long tables of other experiments. The cases of a claim are tested jointly
at a level of 5 % (Student's t over seeds, Holm's correction). The verdict is *worse* if a case is
significantly on the worse side of the paper's range. It is *better* if a case is significantly
beyond the better end of the range and no case is worse. A claim that compares variants has no
better end. Its verdict is *not reproduced* if a case is significantly outside of the range, and
*undecided* if no case differs significantly from zero. In all other cases the verdict is *not shown
to differ*, which does not mean that our numbers and the paper's are equal. If our measurement is of
something else than the paper's, the numbers are shown as *not comparable*. Nothing was adjusted to
influence a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval import figures
from eval.cache import RESULTS, read_record
from eval.experiment import Context, Table
from eval.long_table import LongTable
from eval.study import Measure, Study
from linnapp import stats
from linnapp.lab.work import StepError
from linnapp.stats import Interval

BETTER, WORSE, UNKNOWN = "better", "worse", "not run"
NOT_SHOWN, UNTESTED = "not shown to differ", "too few seeds"
NOT_REPRODUCED, UNDECIDED, NOT_COMPARABLE = "not reproduced", "undecided", "not comparable"

#: Significance level of the joint test of the cases of a claim.
CHANCE = 0.05

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
    #: True if the claim compares variants of LinnOS, and is not about how good LinnOS is.
    of_variants: bool = False
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
        }
        if self.is_higher:
            return {case: Interval(-n.value, -n.high, -n.low) for case, n in found.items()}
        return found


def _log_of_reduction(share: float) -> float:
    """Return the logarithm of reference / policy, given the relative reduction by the policy."""
    return -math.log1p(-share)


def _mean(text: str, policy: str, reference: str, low: float, high: float) -> Claim:
    return Claim(text, low, high, "fig08", "mean_us", policy, reference, on=_log_of_reduction)


def _offline(text: str, low: float, high: float, measure: str, training: str) -> Claim:
    more = measure == "accuracy"
    return Claim(
        text, low, high, "fig10", measure, training, among=("offline",), more_is_better=more
    )


def _model(name: str, low: float, high: float) -> Claim:
    text = f"accuracy of model {name} minus LinnOS's"
    return Claim(
        text, low, high, "table3", "accuracy", name, "LinnOS", averaged=True, of_variants=True
    )


_OTHER_PROCESSOR = "another processor, another kernel"

CLAIMS = (
    _mean("mean of LinnOS+HL compared with hedging at p95, lower by",
          "linnos-hl", "hedge", 9.6, 79.6),
    _mean("mean of LinnOS+HL compared with hedging at the inflection point, lower by",
          "linnos-hl", "hedge-ip", 14.2, 49.5),
    _mean("mean of LinnOS+HL compared with the advanced heuristic, lower by",
          "linnos-hl", "heuristic-adv", 10.7, 71.2),
    _mean("mean of LinnOS alone compared with hedging at p95, lower by",
          "linnos", "hedge", 0.3, 62.3),
    _mean("mean of LinnOS alone compared with the advanced heuristic, lower by",
          "linnos", "heuristic-adv", 3.0, 60.7),
    Claim("mean of LinnOS alone compared with LinnOS+HL, higher by", 1.3, 45.7, "fig08",
          policy="linnos", reference="linnos-hl", on=math.log1p, of_variants=True, is_higher=True),
    Claim("mean of LinnOS+HL compared with LinnOS+H99, lower by", 1.7, 39.2, "fig08",
          policy="linnos-hl", reference="linnos-h99", on=_log_of_reduction, of_variants=True),
    Claim("inflection points, percentile", 72.0, 98.5, "fig05", "paper_percentile", unit="",
          scale=1.0),
    Claim("inflection point of an hour, largest deviation in 15 hours, percentiles", 0.0, 5.0,
          "fig07", "largest", among=("60",), more_is_better=False, unit="", scale=1.0,
          unlike="an hour of ours is a minute of load at most"),
    _offline("false submits without the bias", 1.3, 10.8, "false_submit_ratio", "unbiased"),
    _offline("false submits with the bias", 0.7, 5.7, "false_submit_ratio", "biased"),
    _offline("false revokes with the bias", 2.8, 9.7, "false_revoke_ratio", "biased"),
    _offline("accuracy", 87.0, 97.0, "accuracy", "biased"),
    _model("A", -12.0, -3.0),
    _model("B", -4.0, -1.0),
    _model("C", 1.0, 2.0),
    _model("D", 4.0, 5.0),
    _model("E", 8.0, 12.0),
    Claim("time of an inference, us", 4.0, 6.0, "cpu", "work_ns", more_is_better=False, unit="",
          scale=0.001, unlike=_OTHER_PROCESSOR),
    Claim("share of the CPU a drive", 0.3, 0.7, "cpu", "cpu_share", more_is_better=False,
          unlike=_OTHER_PROCESSOR),
)  # fmt: skip


def judge(claim: Claim, cases: Sequence[Interval], n_seeds: int) -> str:
    """Return the verdict on a claim, by the rules above, from intervals over `n_seeds` seeds."""
    known = [case for case in cases if math.isfinite(case.value)]
    if not known:
        return UNKNOWN
    if claim.unlike:
        return NOT_COMPARABLE
    tested = [case for case in known if case.is_known]
    if not tested:
        return UNTESTED
    low, high = (end / claim.scale for end in (claim.low, claim.high))
    sides = [(case.value > high) - (case.value < low) for case in tested]
    ends = [high if side > 0 else low for side in sides]
    p = [
        stats.p_value_of(claim.tested_on(case), claim.on(end), n_seeds) if side else 1.0
        for case, side, end in zip(tested, sides, ends, strict=True)
    ]
    outside = [side for side, is_out in zip(sides, stats.holm(p) <= CHANCE, strict=True) if is_out]
    if claim.of_variants:
        if outside:
            return NOT_REPRODUCED
        p = [stats.p_value_of(claim.tested_on(case), claim.on(0.0), n_seeds) for case in tested]
        return UNDECIDED if stats.holm(p).min() > CHANCE else NOT_SHOWN
    better = 1 if claim.more_is_better else -1
    if -better in outside:
        return WORSE
    return BETTER if better in outside else NOT_SHOWN


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


def tables(table: LongTable) -> dict[str, Table]:
    """Return a table with a row for each claim and its verdict, and a table of all cases."""
    rows, every = [], []
    for claim in CLAIMS:
        cases, seeds = committed_cases(table, claim)
        shown = Measure("", 1, claim.scale)
        unit = f" {claim.unit}" if claim.unit else ""
        ends = sorted(cases.values(), key=lambda case: case.value)
        row = (shown.text(ends[0]), shown.text(ends[-1])) if ends else ("-", "-")
        said = judge(claim, list(cases.values()), round(seeds))
        rows.append(
            (claim.text, f"{claim.low:g} to {claim.high:g}{unit}", *row, str(len(cases)), said,
             claim.unlike, claim.source, f"{seeds:.0f}")
        )  # fmt: skip
        every += [(claim.text, case, shown.text(number)) for case, number in cases.items()]
    header = ("claim", "paper", "our lowest case", "our highest case", "cases", "judged",
              "not comparable because", "from", "seeds")  # fmt: skip
    return {
        "Claims of the paper": Table(header, tuple(rows)),
        "Every case": Table(("claim", "case", "ours"), tuple(every)),
    }


def draw(table: LongTable, path: Path) -> None:
    """Draw the paper's range and our cases for the claims about means."""
    claims = [claim for claim in CLAIMS if claim.source == "fig08"]
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
    name="claims",
    title="The paper's claims, one by one",
    source="LinnOS 5",
    figure=draw,
    settings={"claims": [(claim.text, claim.low, claim.high, claim.source) for claim in CLAIMS]},
    paper="The column *paper* of the table.",
    differs="The advanced heuristic is tuned on the recording, unlike the paper's in Fig. 8; "
    "hedging has no cap, as in the paper. The section of each experiment has its differences.",
    notes="*Worse* means that a joint test of all cases (Student's t over seeds, Holm's "
    "correction, 5 %) shows one on the worse side of the paper's range; *better* that it shows one "
    "beyond the better end, and none that is worse. A claim that compares variants is *not "
    "reproduced* if the test shows one outside of the range, and *undecided* if no case differs "
    "significantly from zero. *Not shown to differ* is the rest.",
)
