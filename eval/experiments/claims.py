# SPDX-License-Identifier: MIT
"""The paper's claims, one by one: its numbers, ours with their intervals, and the verdict.

Everything is computed from the long tables of other experiments. A verdict says only what a joint
test of all cases shows, at 5 % (Student's t over seeds, corrected by Holm): *worse* that some case
lies on the worse side of the paper's range, *better* that some case lies beyond its better end and
none is worse. A claim that compares variants has no better end: it is *not reproduced* when some
case lies outside of the range, and *undecided* when no case differs significantly from zero. *Not
shown to differ* is the rest, and does not say that both are the same. Measurements of something
else are shown and get no verdict. Nothing was adjusted to influence a verdict.
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
from eval.work import StepError
from linnapp import stats
from linnapp.stats import Interval

BETTER, WORSE, UNKNOWN = "better", "worse", "not run"
NOT_SHOWN, UNTESTED = "not shown to differ", "too few seeds"
NOT_REPRODUCED, UNDECIDED, NOT_COMPARABLE = "not reproduced", "undecided", "not comparable"

#: The probability with which a claim is called worse, better or not reproduced by chance.
CHANCE = 0.05

#: The measure of the cases, and the number of seeds behind them, in the table of the claims.
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
    #: The rows: those of a policy and a measure, and of the reference of a comparison.
    measure: str = "mean_us"
    policy: str = ""
    reference: str = ""
    #: Values that the rows' places must have, such as "offline".
    among: tuple[str, ...] = ()
    more_is_better: bool = True
    unit: str = "%"
    #: The factor between measured numbers and the paper's.
    scale: float = 100.0
    #: Whether it compares variants, and does not say how good LinnOS is.
    of_variants: bool = False
    #: Whether the paper says by how much the policy's number is higher, not lower.
    is_higher: bool = False
    #: Whether it is about the average over all places.
    averaged: bool = False
    #: The scale on which seeds are normally distributed: of ratios the logarithm.
    on: Callable[[float], float] = float
    #: Why our measurement is of something else than the paper's, if it is.
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
    """Return the logarithm of the ratio behind a relative reduction, with the reduction's sign."""
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
    """Collect the cases of every claim; those of experiments that have not run are as committed."""
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
    """One row a claim with its verdict; then each case."""
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
    """A study that has no cells of its own."""

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
