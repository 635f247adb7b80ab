# SPDX-License-Identifier: MIT
"""The verdicts on the paper's claims say only what the intervals support."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eval.cache import Cache
from eval.experiment import Context
from eval.experiments import claims
from eval.experiments.claims import (
    BETTER,
    CLAIMS,
    NOT_COMPARABLE,
    NOT_REPRODUCED,
    NOT_SHOWN,
    UNDECIDED,
    UNKNOWN,
    UNTESTED,
    WORSE,
    Claim,
    judge,
)
from eval.long_table import LongTable
from linnapp.stats import Interval, mean_interval


def _claim(low: float, high: float, *, more: bool = True) -> Claim:
    return Claim("", low, high, "fig08", more_is_better=more)


def test_a_claim_is_worse_or_better_only_by_a_joint_test_of_its_cases() -> None:
    inside, above = Interval(0.30, 0.25, 0.35), Interval(0.9, 0.85, 0.95)
    unsure, lost = Interval(0.05, -0.1, 0.2), Interval(-0.2, -0.3, -0.1)
    claim = _claim(9.6, 79.6)
    assert judge(claim, [inside, inside], 5) == NOT_SHOWN
    assert judge(claim, [inside, unsure], 5) == NOT_SHOWN
    assert judge(claim, [inside, lost], 5) == WORSE
    assert judge(claim, [above, lost], 5) == WORSE
    assert judge(claim, [inside, above], 5) == BETTER
    assert judge(claim, [], 5) == UNKNOWN
    assert judge(claim, [Interval.unknown()], 5) == UNKNOWN
    assert judge(claim, [Interval.unknown(-0.2)], 2) == UNTESTED
    # Its interval alone ends below the range; one of eight cases may do so by chance.
    just = Interval(0.0, -0.08, 0.08)
    assert judge(claim, [just], 5) == WORSE
    assert judge(claim, [just, *[inside] * 7], 5) == NOT_SHOWN
    # An interval of the same width from three seeds is weaker evidence.
    far = Interval(-0.1, -0.17, -0.03)
    assert judge(claim, [far, *[inside] * 7], 20) == WORSE
    assert judge(claim, [far, *[inside] * 7], 3) == NOT_SHOWN
    # Lower error rates are better.
    wrong = _claim(0.7, 5.7, more=False)
    assert judge(wrong, [Interval(0.03, 0.02, 0.04)], 5) == NOT_SHOWN
    assert judge(wrong, [Interval(0.001, 0.0005, 0.002)], 5) == BETTER
    assert judge(wrong, [Interval(0.09, 0.05, 0.12)], 5) == NOT_SHOWN
    assert judge(wrong, [Interval(0.09, 0.08, 0.12)], 5) == WORSE


@pytest.mark.parametrize(("n_seeds", "n_cases"), [(3, 8), (5, 24)])
def test_true_claim_is_called_worse_at_most_at_the_stated_rate(n_seeds: int, n_cases: int) -> None:
    """Place all cases exactly at the worse end of the range."""
    trials, worse = 500, 0
    values = np.random.default_rng(n_cases).normal(0.1, 0.02, (trials, n_cases, n_seeds))
    for cases in values:
        worse += judge(_claim(10, 80), [mean_interval(case) for case in cases], n_seeds) == WORSE
    assert worse / trials <= 0.05 + 2 * (0.05 * 0.95 / trials) ** 0.5


def test_a_claim_about_a_ratio_is_tested_on_its_logarithm() -> None:
    """A ratio of 1.2, with seeds that differ by a factor of 1.1, is as certain as its inverse."""
    claim = next(claim for claim in CLAIMS if claim.source == "fig08")
    shares = [1 - 1.2 * 1.1**end for end in (0, 1, -1)]
    found = claim.tested_on(Interval(*shares))
    assert found.value - found.low == pytest.approx(found.high - found.value)
    assert found.value == pytest.approx(-math.log(1.2))


def test_claims_of_variants_have_no_better_side() -> None:
    gain = replace(_claim(1.0, 2.0), of_variants=True)
    inside, off = Interval(0.015, 0.012, 0.018), Interval(-0.2, -0.3, -0.1)
    assert judge(gain, [inside], 5) == NOT_SHOWN
    assert judge(gain, [Interval(0.09, 0.08, 0.1)], 5) == NOT_REPRODUCED
    assert judge(gain, [inside, off], 5) == NOT_REPRODUCED
    # It reaches the range, but a difference is not significant.
    unsure = Interval(0.004, -0.002, 0.012)
    assert judge(gain, [unsure], 5) == UNDECIDED
    assert judge(gain, [unsure, Interval(0.015, 0.012, 0.02)], 5) == NOT_SHOWN


def test_claims_measured_elsewhere_are_not_judged() -> None:
    other = replace(_claim(1.0, 2.0), unlike="another machine")
    assert judge(other, [Interval(0.5, 0.4, 0.6)], 5) == NOT_COMPARABLE
    assert judge(other, [], 5) == UNKNOWN


def _source(policy: str = "", measure: str = "paper_percentile") -> LongTable:
    table = LongTable(("workload", "drive"))
    for drive in range(3):
        table.add(("az-e", drive), policy, measure, Interval(80.0 + drive, 79.0, 85.0))
    table.add(("az-e", ""), policy, measure, Interval(81.0, 80.0, 82.0))
    table.add(("az-e", 0), policy, measure, 90.0, seed=1)
    return table


def test_cases_are_the_pooled_rows_of_the_places() -> None:
    claim = next(claim for claim in CLAIMS if claim.source == "fig05")
    assert list(claim.cases(_source())) == ["az-e, 0", "az-e, 1", "az-e, 2"]
    averaged = replace(claim, averaged=True).cases(_source())
    assert {case: number.value for case, number in averaged.items()} == {"az-e": 81.0}
    (_, one, _) = claim.cases(_source()).values()
    assert replace(claim, is_higher=True).cases(_source())["az-e, 1"].high == -one.low


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
    assert (points[4:6], points[-1]) == (("3", NOT_SHOWN), "2")
    assert (accuracy[4:6], accuracy[-1]) == (("0", UNKNOWN), "0")
    # A development run does not mix its values with the committed ones.
    developing = claims.collect(replace(context, development=True))
    assert not developing.places_of(("claim", "case"))
