# SPDX-License-Identifier: MIT
"""The paper's claims, one by one: its figure, ours with its interval, and whether they differ.

Everything is computed from what the other experiments left. The numbers stand beside the paper's. A
word says only what a joint test of all cases shows, at 5 % (Student's t over seeds, corrected by
Holm): *worse* that some case lies on the worse side of the paper's range, *better* that some case
lies beyond its better end and none is worse. A claim of how one variant stands to another has no
better end: it is *not reproduced* when some case lies outside of the range, and *undecided* when no
case can be told from zero. *Not shown to differ* is the rest, and does not say that both are the
same. What was measured of something else is shown and not judged. Nothing was adjusted to make one
come out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import figures, scores
from eval.cache import RESULTS, read_record
from eval.experiment import Context, Experiment, Table
from eval.intervals import of_seeds
from linnapp import stats
from linnapp.stats import Interval, mean_interval

BETTER, WORSE, UNKNOWN = "better", "worse", "not run"
NOT_SHOWN, UNTESTED = "not shown to differ", "too few seeds"
NOT_REPRODUCED, UNDECIDED, NOT_COMPARABLE = "not reproduced", "undecided", "not comparable"


#: At most so often a claim is called worse, better or not reproduced that is none of it.
CHANCE = 0.05


@dataclass(frozen=True)
class Claim:
    """A claim of the paper."""

    text: str
    #: `low`, `high`: the paper's range.
    low: float
    high: float
    #: The experiment that measures it.
    source: str
    #: That experiment's data as {case: interval}.
    measure: Callable[[dict[str, Any]], dict[str, Interval]]
    more_is_better: bool = True
    unit: str = "%"
    #: What a measured number is multiplied by.
    scale: float = 100.0
    #: It says how variants differ, not how good LinnOS is.
    of_variants: bool = False
    #: The scale on which seeds differ by what is normally distributed: of ratios the logarithm.
    on: Callable[[float], float] = float
    #: Why ours is of something else than the paper's, if it is.
    unlike: str = ""

    def tested_on(self, case: Interval) -> Interval:
        """A case on the scale of :attr:`on`."""
        return Interval(*(self.on(end) for end in (case.value, case.low, case.high)))


def _log_below(share: float) -> float:
    """The logarithm of a ratio by which something is below another, with the share's sign."""
    return -math.log1p(-share)


def _below(policy: str, reference: str) -> Callable[[dict[str, Any]], dict[str, Interval]]:
    def measure(data: dict[str, Any]) -> dict[str, Interval]:
        return {cell["workload"]: scores.below(cell, policy, reference) for cell in data["cells"]}

    return measure


def _above(policy: str, reference: str) -> Callable[[dict[str, Any]], dict[str, Interval]]:
    """By what share a policy's mean is above a reference's."""

    def one(cell: dict[str, Any]) -> Interval:
        found = scores.below(cell, policy, reference)
        return Interval(-found.value, -found.high, -found.low)

    def measure(data: dict[str, Any]) -> dict[str, Interval]:
        return {cell["workload"]: one(cell) for cell in data["cells"]}

    return measure


def _offline(field: str, training: str) -> Callable[[dict[str, Any]], dict[str, Interval]]:
    def measure(data: dict[str, Any]) -> dict[str, Interval]:
        from eval.experiments import fig10

        return {
            workload: ratios[field]
            for (workload, trained, where), ratios in fig10.averaged(data).items()
            if (trained, where) == (training, "offline")
        }

    return measure


def _points(data: dict[str, Any]) -> dict[str, Interval]:
    """Percentile of the inflection points by the paper's search, a drive, over the seeds."""
    by: dict[str, list[float]] = {}
    for row in data["rows"]:
        by.setdefault(f"{row['workload']} drive {row['drive']}", []).append(row["paper_percentile"])
    return {case: mean_interval(values) for case, values in by.items()}


def _stable(data: dict[str, Any]) -> dict[str, Interval]:
    """Largest deviation within 15 hours of the windows of an hour, by workload."""
    from eval.experiments import fig07

    by_workload: dict[str, dict[fig07.Day, float]] = {}
    for day, deviation in fig07.largest(data, 60).items():
        by_workload.setdefault(day[0], {})[day] = deviation
    return {workload: of_seeds(fig07.by_seed(largest)) for workload, largest in by_workload.items()}


def _model(name: str) -> Callable[[dict[str, Any]], dict[str, Interval]]:
    def measure(data: dict[str, Any]) -> dict[str, Interval]:
        from eval.experiments import table3

        return {"enterprise workloads": table3.gain(data, name)}

    return measure


def _work_us(data: dict[str, Any]) -> dict[str, Interval]:
    value = data["work_ns"]["scalar"] / 1000
    return {"plain C": Interval(value, math.nan, math.nan)}


def _cpu(data: dict[str, Any]) -> dict[str, Interval]:
    from eval.experiments import cpu

    return cpu.by_workload(data, "cpu_share")


_OTHER_PROCESSOR = "another processor, another kernel"

CLAIMS = (
    Claim("mean of LinnOS+HL below hedging at p95", 9.6, 79.6, "fig08",
          _below("linnos-hl", "hedge"), on=_log_below),
    Claim("mean of LinnOS+HL below hedging at the inflection point", 14.2, 49.5, "fig08",
          _below("linnos-hl", "hedge-ip"), on=_log_below),
    Claim("mean of LinnOS+HL below the advanced heuristic", 10.7, 71.2, "fig08",
          _below("linnos-hl", "heuristic-adv"), on=_log_below),
    Claim("mean of LinnOS alone below hedging at p95", 0.3, 62.3, "fig08",
          _below("linnos", "hedge"), on=_log_below),
    Claim("mean of LinnOS alone below the advanced heuristic", 3.0, 60.7, "fig08",
          _below("linnos", "heuristic-adv"), on=_log_below),
    Claim("mean of LinnOS alone above LinnOS+HL", 1.3, 45.7, "fig08",
          _above("linnos", "linnos-hl"), on=math.log1p, of_variants=True),
    Claim("mean of LinnOS+HL below LinnOS+H99", 1.7, 39.2, "fig08",
          _below("linnos-hl", "linnos-h99"), on=_log_below, of_variants=True),
    Claim("inflection points, percentile", 72.0, 98.5, "fig05", _points, unit="", scale=1.0),
    Claim("inflection point of an hour, largest deviation in 15 hours, percentiles", 0.0, 5.0,
          "fig07", _stable, more_is_better=False, unit="", scale=1.0,
          unlike="an hour of ours is a minute of load at most"),
    Claim("false submits without the bias", 1.3, 10.8, "fig10",
          _offline("false_submit_ratio", "unbiased"), more_is_better=False),
    Claim("false submits with the bias", 0.7, 5.7, "fig10",
          _offline("false_submit_ratio", "biased"), more_is_better=False),
    Claim("false revokes with the bias", 2.8, 9.7, "fig10",
          _offline("false_revoke_ratio", "biased"), more_is_better=False),
    Claim("accuracy", 87.0, 97.0, "fig10", _offline("accuracy", "biased")),
    Claim("model A over LinnOS's accuracy", -12.0, -3.0, "table3", _model("A"),
          of_variants=True),
    Claim("model B over LinnOS's accuracy", -4.0, -1.0, "table3", _model("B"),
          of_variants=True),
    Claim("model C over LinnOS's accuracy", 1.0, 2.0, "table3", _model("C"),
          of_variants=True),
    Claim("model D over LinnOS's accuracy", 4.0, 5.0, "table3", _model("D"),
          of_variants=True),
    Claim("model E over LinnOS's accuracy", 8.0, 12.0, "table3", _model("E"),
          of_variants=True),
    Claim("time of an inference, us", 4.0, 6.0, "cpu", _work_us, more_is_better=False, unit="",
          scale=1.0, unlike=_OTHER_PROCESSOR),
    Claim("share of the CPU a drive", 0.3, 0.7, "cpu", _cpu, more_is_better=False,
          unlike=_OTHER_PROCESSOR),
)  # fmt: skip

SOURCES = tuple(dict.fromkeys(claim.source for claim in CLAIMS))


def judge(claim: Claim, cases: Sequence[Interval], n_seeds: int) -> str:
    """In a word, by the rules above; the intervals are of so many seeds."""
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


def run(context: Context) -> dict[str, Any]:
    """Measure every claim on the data that is there; the others stand as they are committed."""
    there: dict[str, dict[str, Any]] = {}
    n_seeds: dict[str, int] = {}
    for source in SOURCES:
        folder = context.folder.parent / source
        if (folder / "data.json").exists():
            there[source] = context.data_of(source)
            n_seeds[source] = len((read_record(folder) or {}).get("seeds", ()))
    committed = {} if context.development else _committed()
    rows: list[dict[str, Any]] = []
    carried: list[str] = []
    for claim in CLAIMS:
        counted, cases = n_seeds.get(claim.source), _measured(claim, there)
        if claim.source not in there and claim.text in committed:
            carried.append(claim.source)
            counted, cases = committed[claim.text]
        rows.append(
            {
                "claim": claim.text, "source": claim.source, "seeds": counted,
                "paper": [claim.low, claim.high], "unit": claim.unit, "scale": claim.scale,
                "cases": {case: interval.to_json() for case, interval in cases.items()},
                "judged": judge(claim, list(cases.values()), counted or 0), "unlike": claim.unlike,
            }
        )  # fmt: skip
    return {"claims": rows, "as_committed": list(dict.fromkeys(carried)), "runs": []}


def _committed() -> dict[str, tuple[int, dict[str, Interval]]]:
    """Seeds and cases under version control, by claim: experiments are run one at a time, too."""
    path = RESULTS / "claims.json"
    if not path.exists():
        return {}
    rows: list[dict[str, Any]] = json.loads(path.read_text()).get("numbers", [])
    return {
        row["claim"]: (
            row["seeds"],
            {case: Interval.from_json(triple) for case, triple in row["cases"].items()},
        )
        for row in rows
        if row["cases"]
    }


def _measured(claim: Claim, there: dict[str, dict[str, Any]]) -> dict[str, Interval]:
    """A claim's cases; none where its experiment has not run, or with data of another form."""
    try:
        return claim.measure(there[claim.source])
    except KeyError:
        return {}


def _span(row: dict[str, Any]) -> str:
    """Ours as a range over the cases, each end with its interval."""
    cases = [case for case in row["cases"].values() if case[0] is not None]
    if not cases:
        return "-"
    ends = (min(cases, key=lambda c: c[0]), max(cases, key=lambda c: c[0]))
    texts = [scores.number(end, 1, row["scale"]) for end in ends]
    return " to ".join(dict.fromkeys(texts)) + (f" {row['unit']}" if row["unit"] else "")


def table(data: dict[str, Any]) -> dict[str, Table]:
    """One row a claim; then each case."""
    claims = tuple(
        (
            row["claim"],
            f"{row['paper'][0]:g} to {row['paper'][1]:g}" + (f" {row['unit']}" * bool(row["unit"])),
            _span(row), str(len(row["cases"])), row["judged"], row["source"],
            str(row["seeds"] or "-"),
        )
        for row in data["claims"]
    )  # fmt: skip
    cases = tuple(
        (row["claim"], case, scores.number(triple, 1, row["scale"]))
        for row in data["claims"]
        for case, triple in row["cases"].items()
    )
    return {
        "Claims of the paper": Table(
            ("claim", "paper", "ours, lowest to highest case", "cases", "judged", "from", "seeds"),
            claims,
        ),
        "Every case": Table(("claim", "case", "ours"), cases),
    }


def reading(data: dict[str, Any]) -> str:
    """How many come out how."""
    parts = []
    for word in (NOT_SHOWN, BETTER, WORSE, NOT_REPRODUCED, UNDECIDED, UNTESTED, NOT_COMPARABLE,
                 UNKNOWN):  # fmt: skip
        found = [
            row["claim"] + (f" ({row['unlike']})" if row["judged"] == NOT_COMPARABLE else "")
            for row in data["claims"]
            if row["judged"] == word
        ]
        if found:
            parts.append(f"{word.capitalize()} ({len(found)}): {'; '.join(found)}.")
    parts.append(
        "*Worse* means that a joint test of all cases (Student's t over seeds, Holm's correction, "
        "5 %) shows one on the worse side of the paper's range; *better* that it shows one beyond "
        "the better end, and none that is worse. What says how variants differ is *not reproduced* "
        "where it shows one outside of the range, and *undecided* where no case can be told from "
        "zero. *Not shown to differ* is the rest: the numbers stand beside the paper's."
    )
    if data["as_committed"]:
        parts.append(
            f"Not in the same run as the rest, but as committed: {', '.join(data['as_committed'])}."
        )
    return "\n\n".join(parts)


def draw(data: dict[str, Any], path: Path) -> None:
    """Each claim's range and our cases, where they are percentages of a mean."""
    rows = [row for row in data["claims"] if row["source"] == "fig08" and row["cases"]]
    if not rows:
        figures.nothing(path, "fig08 has not run")
        return
    figure, axes = plt.subplots(figsize=(9, 0.6 * len(rows) + 1.5))
    for i, row in enumerate(rows):
        axes.barh(i, row["paper"][1] - row["paper"][0], left=row["paper"][0], color="#dddddd")
        for j, (value, low, high) in enumerate(row["cases"].values()):
            y = i + 0.08 * (j - (len(row["cases"]) - 1) / 2)
            if low is not None:
                axes.plot([100 * low, 100 * high], [y, y], color="#0072b2", linewidth=0.8)
            axes.plot(100 * value, y, ".", color="#0072b2")
    axes.axvline(0, color="black", linewidth=0.5)
    axes.set_yticks(range(len(rows)), [row["claim"] for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("%; grey: the paper's range, blue: our cells")
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="claims",
    title="The paper's claims, one by one",
    source="LinnOS 5",
    parameters={"claims": [(c.text, c.low, c.high, c.source) for c in CLAIMS]},
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="The column *paper* of the table.",
    differs="The advanced heuristic is tuned on the recording, unlike the paper's in Fig. 8; "
    "hedging is without a cap, as the paper's. What each figure differs in stands beside it.",
    sources=("eval/scores.py", "eval/intervals.py"),
    uses=SOURCES,
    numbers=lambda data: data["claims"],
)
