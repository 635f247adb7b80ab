# SPDX-License-Identifier: MIT
"""Judging the paper's claims case by case."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from eval.cache import Cache
from eval.experiment import Context
from eval.experiments import claims
from eval.experiments.claims import (
    BETTER,
    CLAIMS,
    MIXED,
    NOT_COMPARABLE,
    NOT_SHOWN,
    UNKNOWN,
    UNTESTED,
    WORSE,
    Claim,
    judge,
)
from eval.long_table import LongTable
from linnapp.stats import Interval, mean_interval


def _claim(low: float, high: float, *, more: bool = True) -> Claim:
    return Claim("", low, high, "fig10", "accuracy", more_is_better=more)


def test_judge_counts_cases_in_range_and_those_that_the_joint_test_shows_outside() -> None:
    inside, above = Interval(0.30, 0.25, 0.35), Interval(0.9, 0.85, 0.95)
    unsure, lost = Interval(0.05, -0.1, 0.2), Interval(-0.2, -0.3, -0.1)
    claim = _claim(9.6, 79.6)

    def found(*cases: Interval, n: int = 5, tested: Claim = claim) -> tuple[str, int, int, int]:
        judged = judge(tested, cases, n)
        assert judged.n_cases == len(cases)
        return judged.verdict, judged.n_in_range, judged.n_worse, judged.n_better

    assert found(inside, inside) == (NOT_SHOWN, 2, 0, 0)
    assert found(inside, unsure) == (NOT_SHOWN, 1, 0, 0)
    assert found(inside, lost) == (WORSE, 1, 1, 0)
    assert found(inside, inside, lost, lost) == (WORSE, 2, 2, 0)
    assert found(above, lost) == (MIXED, 0, 1, 1)
    assert found(inside, above) == (BETTER, 1, 0, 1)
    assert found() == (UNKNOWN, 0, 0, 0)
    assert judge(claim, [Interval.unknown()], 5).verdict == UNKNOWN
    # Without intervals, or with two seeds, cases are counted but not tested.
    assert found(Interval.unknown(-0.2), Interval.unknown(0.3)) == (UNTESTED, 1, 0, 0)
    assert found(lost, inside, n=2) == (UNTESTED, 1, 0, 0)
    # Its interval alone ends below the range; one of eight cases may do so by chance.
    just = Interval(0.0, -0.08, 0.08)
    assert found(just) == (WORSE, 0, 1, 0)
    assert found(just, *[inside] * 7) == (NOT_SHOWN, 7, 0, 0)
    # An interval of the same width from three seeds is weaker evidence.
    far = Interval(-0.1, -0.17, -0.03)
    assert found(far, *[inside] * 7, n=20) == (WORSE, 7, 1, 0)
    assert found(far, *[inside] * 7, n=3) == (NOT_SHOWN, 7, 0, 0)
    # Lower error rates are better.
    wrong = _claim(0.7, 5.7, more=False)
    assert found(Interval(0.03, 0.02, 0.04), tested=wrong) == (NOT_SHOWN, 1, 0, 0)
    assert found(Interval(0.001, 0.0005, 0.002), tested=wrong) == (BETTER, 0, 0, 1)
    assert found(Interval(0.09, 0.05, 0.12), tested=wrong) == (NOT_SHOWN, 0, 0, 0)
    assert found(Interval(0.09, 0.08, 0.12), tested=wrong) == (WORSE, 0, 1, 0)
    # Claims that are measured in another way are not judged.
    other = replace(claim, unlike="another machine")
    assert found(lost, tested=other) == (NOT_COMPARABLE, 0, 0, 0)
    assert found(tested=other) == (UNKNOWN, 0, 0, 0)


def test_joint_p_value_is_that_of_the_worst_case_corrected_for_their_number() -> None:
    inside = Interval(0.30, 0.25, 0.35)
    seeds = [0.02, 0.05, 0.01, 0.04, 0.03]
    outside = mean_interval(seeds)
    claim = _claim(9.6, 79.6)
    alone = stats.ttest_1samp(seeds, 0.096).pvalue
    assert judge(claim, [outside], 5).p == pytest.approx(alone)
    assert judge(claim, [outside, inside, inside], 5).p == pytest.approx(3 * alone)
    assert judge(claim, [inside, inside], 5).p == 1
    assert math.isnan(judge(claim, [outside], 2).p)


@pytest.mark.parametrize(("n_seeds", "n_cases"), [(3, 8), (5, 24)])
def test_true_claim_is_called_worse_at_most_at_the_stated_rate(n_seeds: int, n_cases: int) -> None:
    """Place all cases exactly at the worse end of the range."""
    trials, worse = 500, 0
    values = np.random.default_rng(n_cases).normal(0.1, 0.02, (trials, n_cases, n_seeds))
    for cases in values:
        worse += judge(_claim(10, 80), [mean_interval(case) for case in cases], n_seeds).n_worse > 0
    assert worse / trials <= 0.05 + 2 * (0.05 * 0.95 / trials) ** 0.5


def test_a_claim_about_a_ratio_is_tested_on_its_logarithm() -> None:
    """A ratio of 1.2, with seeds that differ by a factor of 1.1, is as certain as its inverse."""
    claim = next(claim for claim in CLAIMS if claim.source == "published")
    shares = [1 - 1.2 * 1.1**end for end in (0, 1, -1)]
    found = claim.interval_on_test_scale(Interval(*shares))
    assert found.value - found.low == pytest.approx(found.high - found.value)
    assert found.value == pytest.approx(-math.log(1.2))


def _source(policy: str = "", measure: str = "paper_percentile") -> LongTable:
    table = LongTable(("workload", "drive"))
    for drive in range(3):
        table.add(("az-e", drive), policy, measure, Interval(80.0 + drive, 79.0, 85.0))
    table.add(("az-e", ""), policy, measure, Interval(81.0, 80.0, 82.0))
    table.add(("az-e", 0), policy, measure, 90.0, seed=1)
    return table


def test_cases_are_the_pooled_rows_of_the_places_without_logs_of_real_drives() -> None:
    claim, table = next(claim for claim in CLAIMS if claim.source == "fig05"), _source()
    table.add(("drive.trace", 0), "", "paper_percentile", Interval(80.0, 79.0, 85.0))
    assert list(claim.cases(table)) == ["az-e, 0", "az-e, 1", "az-e, 2"]
    averaged = replace(claim, averaged=True).cases(table)
    assert {case: number.value for case, number in averaged.items()} == {"az-e": 81.0}
    (_, second, _) = claim.cases(table).values()
    assert replace(claim, is_higher=True).cases(table)["az-e, 1"].high == -second.low


def test_claims_of_experiments_not_run_keep_committed_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context("claims", Cache(tmp_path), 1, False, tmp_path / "out" / "claims")
    monkeypatch.setattr(claims, "RESULTS", tmp_path)
    folder = tmp_path / "out" / "fig05"
    _source().save(folder / "table.csv")
    (folder / "record.json").write_text('{"seeds": [1, 2]}')
    first = claims.collect(context)
    first.save(tmp_path / "claims.csv")
    (folder / "table.csv").unlink()
    assert claims.collect(context).to_csv() == first.to_csv()
    points, accuracy = (
        next(row for row in claims.tables(first)["Claims of the paper"].rows if row[0] == text)
        for text in ("inflection points, percentile", "accuracy")
    )
    assert points[4:9] + points[-1:] == ("3", "3", "0", "0", "-", "2")
    assert points[9] == UNTESTED
    assert (accuracy[4], accuracy[9], accuracy[-1]) == ("0", UNKNOWN, "0")
    # A development run does not mix its values with the committed ones.
    developing = claims.collect(replace(context, development=True))
    assert not developing.places_of(("claim", "case"))
