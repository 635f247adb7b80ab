# SPDX-License-Identifier: MIT
"""Limit on refused fast reads; no model is made that would be worse than none."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from running import run
from test_model_format import random_model
from test_training import array_trace

from linnapp.commands._options import recipe_from, recipe_options
from linnapp.errors import NoGainError
from linnapp.learn import network
from linnapp.learn.examples import load_reads, split
from linnapp.learn.fit import fit_network, train_array
from linnapp.learn.judge import N_SHUFFLES, Refusals, ScoredReads, choose_margin, evaluate
from linnapp.learn.options import MAX_REFUSED_FAST, Recipe, TrainingOptions
from linnapp.model import Model, load_model
from linnapp.trace.reads import load


def reads(
    n: int = 4000, *, knows: float = 1.0, shift: int = 0, slow_us: int = 2000, seed: int = 1
) -> ScoredReads:
    """Return reads, a fifth of them slow; scores are as informative as `knows`, plus `shift`."""
    rng = np.random.default_rng(seed)
    slow = rng.random(n) < 0.2
    score = 1000 * (knows * slow + rng.normal(0, 0.5, n) - 1) + shift
    latency_us = np.where(slow, slow_us, 100).astype(np.uint32)
    return ScoredReads(score.astype(np.int64), latency_us, np.ones(n, np.uint16), 500, 15.0, 3)


@pytest.mark.parametrize("where", ["taught", "judged"])
@pytest.mark.parametrize("limit", [0.02, 0.12, 0.5])
def test_a_margin_keeps_the_limit_on_both_slices(where: str, limit: float) -> None:
    good, bad = reads(), reads(seed=2, shift=1000)
    assert bad.refused_fast_share(0) > 0.5
    taught, judged = (bad, good) if where == "taught" else (good, bad)
    margin = choose_margin(taught, judged, limit)
    assert margin > 0
    assert taught.refused_fast_share(margin) <= limit
    assert judged.refused_fast_share(margin) <= limit
    assert judged.mean_us(margin) < judged.mean_us(None)
    assert choose_margin(taught, judged, 1.0) == 0


def test_choose_margin_uses_the_limit_where_refusing_pays() -> None:
    """A slow read costs a hundred failovers, so fast reads are refused up to the limit."""
    taught, judged = reads(shift=1000), reads(seed=2, shift=1000)
    margin = choose_margin(taught, judged, 0.12)
    largest = max(part.refused_fast_share(margin) for part in (taught, judged))
    assert 0.10 < largest <= 0.12
    assert choose_margin(reads(), reads(seed=2), 0.12) == 0
    never = reads(shift=-100_000)  # a tie with admitting all reads is not worse
    assert choose_margin(never, never, 0.12) == 0
    slow = dataclasses.replace(reads(), threshold_us=1)
    assert slow.refused_fast_share(0) == 0.0 and choose_margin(slow, slow, 0.12) == 0


@pytest.mark.parametrize("knows", [-1, 0])
def test_uninformative_scores_have_no_gain(knows: int) -> None:
    """Slow reads cost barely more than a failover; scores are wrong or uninformative."""
    taught, judged = (reads(knows=knows, shift=700, slow_us=510, seed=seed) for seed in (1, 2))
    with pytest.raises(NoGainError, match=r"mean latency would be \d+\.\d us .* `even_if_w"):
        choose_margin(taught, judged, 1.0)
    assert choose_margin(taught, judged, 1.0, even_if_worse=True) == 0
    margin = choose_margin(taught, judged, 0.12, even_if_worse=True)
    assert 0.10 < judged.refused_fast_share(margin) <= 0.12


def rarely_slow(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return latencies of 80 us, and 2 ms for 3 %."""
    latency_us = (80 * np.exp(rng.normal(size=n) * 0.2)).astype(np.uint32)
    latency_us[rng.random(n) < 0.03] = 2000
    return latency_us


def heavy_tailed(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return latencies like a real drive's: slow in runs, over three orders of magnitude."""
    turns = np.cumsum(rng.geometric(1 / 30, n // 5 + 10))
    slow = np.searchsorted(turns, np.arange(n)) % 4 == 0
    tail_us = 400 * rng.pareto(2, n) * np.where(slow, 4, 0.5)
    latency_us = 100 * np.exp(rng.normal(size=n) * 0.5) + tail_us
    return np.asarray(np.minimum(latency_us, 10**6), np.uint32)


def taken(
    latency_us: np.ndarray, knows: float, draw: int, alike: int = 1
) -> tuple[int | None, int | None]:
    """Return the cut of random scores, as for a latency model, and their margin, as for a network.

    `knows` sets how informative they are; `alike` neighbours have nearly equal scores.
    """
    n = len(latency_us)
    rng = np.random.default_rng([draw, n, 2])
    noise = np.convolve(rng.normal(size=n + alike - 1), np.ones(alike), "valid") / alike**0.5
    point_us = int(np.percentile(latency_us, 90))
    score = (1000 * (noise / 2 + knows * (latency_us > point_us) - 0.5)).astype(np.int64)
    whole = ScoredReads(score, latency_us, np.ones(n, np.uint16), point_us, 15.0, 3)
    parts = split(n, TrainingOptions())
    taught, judged = whole.take(parts.training), whole.take(parts.validation)
    cut = judged.best_threshold(max(part.min_threshold(0.10) for part in (taught, judged)))
    try:
        return cut, choose_margin(taught, judged, 0.15)
    except NoGainError:
        return cut, None


@pytest.mark.parametrize("n", [500, 10_000, pytest.param(100_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("drive", [rarely_slow, heavy_tailed])
@pytest.mark.parametrize("alike", [1, 50])
def test_random_scores_are_hardly_ever_accepted(
    n: int, drive: Callable[[int, np.random.Generator], np.ndarray], alike: int
) -> None:
    latency_us = drive(n, np.random.default_rng(n))
    drawn = [taken(latency_us, 0.0, draw, alike) for draw in range(100)]
    assert sum(cut is not None for cut, _ in drawn) <= 3
    assert sum(margin is not None for _, margin in drawn) <= 3


@pytest.mark.parametrize("drive", [rarely_slow, heavy_tailed])
def test_informative_scores_are_used(
    drive: Callable[[int, np.random.Generator], np.ndarray],
) -> None:
    drawn = [
        taken(drive(10_000, np.random.default_rng([draw, 1])), 1.0, draw) for draw in range(100)
    ]
    assert sum(cut is not None for cut, _ in drawn) >= 95
    assert sum(margin is not None for _, margin in drawn) >= 95


def is_significant(slow: np.ndarray, best_shuffled_us: np.ndarray) -> bool:
    """Test refusing all slow reads, given the gains of random assignments."""
    latency_us = np.where(slow, 5000, 100).astype(np.uint32)
    refusals = Refusals(latency_us, np.ones(2000), slow.astype(np.int64), 1, 15.0, 3)
    refusals.__dict__["_best_shuffled_us"] = best_shuffled_us
    return refusals.is_significant(0)


@pytest.mark.parametrize(("n_slow", "expected"), [(2, False), (3, False), (4, True)])
def test_refusals_pay_only_if_resampled_blocks_agree(n_slow: int, expected: bool) -> None:
    """Refuse all slow reads, in a few of twenty blocks that a recording might lack.

    A bootstrap sample of 20 blocks lacks all of three blocks in 3.9 % of cases, of four in 1.2 %.
    """
    slow = (np.arange(2000) // 100 < n_slow) & (np.arange(2000) % 2 == 0)
    assert is_significant(slow, np.zeros(N_SHUFFLES)) == expected


@pytest.mark.parametrize(("as_good", "expected"), [(4, True), (5, False), (9, False)])
def test_refusals_are_significant_only_if_few_shuffles_gain_as_much(
    as_good: int, expected: bool
) -> None:
    gains_us = np.repeat([1e6, 0.0], [as_good, N_SHUFFLES - as_good])
    assert is_significant(np.arange(2000) % 10 == 0, gains_us) == expected


def test_choose_margin_keeps_only_confident_refusals_of_a_harmful_network() -> None:
    """Failovers are so expensive that refusing pays only for the reads with the highest scores."""
    taught, judged = (
        dataclasses.replace(reads(knows=1.5, shift=500, seed=seed), failover_us=1000.0)
        for seed in (1, 2)
    )
    assert judged.mean_us(0) > judged.mean_us(None)
    margin = choose_margin(taught, judged, 1.0)
    assert judged.mean_us(margin) < judged.mean_us(None)


def seldom(per_mille: float, seed: int = 1, *, slow_us: int = 2000) -> ScoredReads:
    """Return scores below 0, except for this share of the reads, which are slow."""
    whole = reads(knows=0, shift=-100_000, seed=seed, slow_us=slow_us)
    above = np.flatnonzero(~whole.fast)[: round(per_mille * len(whole.score) / 1000)]
    whole.score[above] = 1
    return whole


def test_choose_margin_requires_a_gain_unless_hardly_any_read_is_refused() -> None:
    """A network of a drive without bursts refuses almost no read; others must have a gain."""
    assert choose_margin(seldom(0.5), seldom(0.5, 2), 0.12) == 0
    assert choose_margin(seldom(150), seldom(0.5, 2), 0.12) == 0
    blind = reads(knows=0, slow_us=510)
    assert blind.refused(0).mean() > 0.01 and blind.refused_fast_share(0) < 0.12
    with pytest.raises(NoGainError):
        choose_margin(blind, seldom(0.5, 2), 0.12)
    with pytest.raises(NoGainError):
        choose_margin(seldom(0.5), blind, 0.12)


@pytest.mark.parametrize("slow", [0, 1])
def test_train_warns_of_a_network_that_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: int
) -> None:
    model = random_model()
    monkeypatch.setattr(
        network,
        "quantise",
        lambda weights, threshold_us: dataclasses.replace(
            model,
            output_weights=np.zeros_like(model.output_weights),
            output_bias=np.array([1 - slow, slow]),
            threshold_us=threshold_us,
        ),
    )
    trace, out = array_trace(tmp_path / "d.blk", 1), tmp_path / "m"
    arguments = ("--bias", 2, "--epochs", 1, "--even-if-worse", "--max-refused", 1)
    result = run("train", "--kind", "network", "--trace", trace, "-o", out, *arguments)
    assert result.exit_code == 0, result.output
    remedy = "record longer, under the load that makes the drive slow"
    warning = (
        "d: THE MODEL REFUSES NO READS: 0.00% of the validation slice, 0.00% of the training "
        f"slice; {remedy}"
    )
    assert (warning in result.stderr) == (not slow)
    record = json.loads((out / "d.json").read_text())
    assert record["remedy"] == (None if slow else remedy)


QUICK = Recipe(training=TrainingOptions(max_epochs=2), auto_bias=False)


@pytest.fixture
def refusing_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every trained network refuse all reads, without any discrimination."""
    model = random_model()
    silent = dataclasses.replace(
        model, output_weights=np.zeros_like(model.output_weights), output_bias=np.array([0, 1000])
    )
    monkeypatch.setattr(
        network,
        "quantise",
        lambda weights, threshold_us: dataclasses.replace(silent, threshold_us=threshold_us),
    )


def test_train_writes_no_model_that_is_worse_than_admitting_all(
    tmp_path: Path, refusing_all: None
) -> None:
    trace, out = array_trace(tmp_path / "d.blk", 1), tmp_path / "m"
    arguments = ("train", "--kind", "network", "--trace", trace, "-o", out, "--bias", 2)
    arguments += ("--epochs", 1)
    result = run(*arguments)
    assert isinstance(result.exception, NoGainError) and "no model for d" in str(result.exception)
    assert "d: NO MODEL" in result.stderr and "--even-if-worse" in result.stderr
    assert not out.exists()
    with pytest.raises(NoGainError):
        fit_network(load(trace), max_epochs=2, bias=2, max_refused=0.5)
    assert run(*arguments, "--even-if-worse").exit_code == 0
    record = json.loads((out / "d.json").read_text())
    assert record["margin"] == 0
    quality = record["quality"]["validation"]
    assert quality["false_revoke_share"] == 1.0
    # A network that does not discriminate costs the failovers that it requests.
    assert quality["mean_us"] == pytest.approx(quality["always_fast_mean_us"] + 2 * 15)


def test_the_other_drives_of_an_array_get_their_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = [array_trace(tmp_path / f"d{i}.blk", i, 1500) for i in range(2)]
    out = tmp_path / "m"
    train_array(traces, out, QUICK, processes=1)
    before = (out / "d0.linnos").read_bytes()
    real = network.choose_margin

    def not_for_the_first(*arguments: object, **more: object) -> int:
        if not has_failed:
            has_failed.append(True)
            raise NoGainError("nothing learnt")
        return real(*arguments, **more)  # type: ignore[arg-type]

    has_failed: list[bool] = []
    monkeypatch.setattr(network, "choose_margin", not_for_the_first)
    named = [argument for trace in traces for argument in ("--trace", trace)]
    result = run(
        *("train", "--kind", "network", *named, "-o", out),
        *("--seed", 2, "--bias", 2, "--epochs", 2, "--processes", 1),
    )
    assert str(result.exception) == "no model for d0: see above"
    assert "NO MODEL" in result.stderr and "d0.blk: nothing learnt" in result.stderr
    assert result.stdout.split() == [str(out / "d1.linnos")]
    assert (out / "d0.linnos").read_bytes() == before
    assert json.loads((out / "d1.json").read_text())["options"]["seed"] == 2


def test_a_raised_margin_is_in_the_file_and_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network has an offset towards slow, so that it refuses everything."""
    trace, out = array_trace(tmp_path / "d.blk", 1), tmp_path / "m"
    train_array([trace], out, QUICK)
    plain = Model.load(out / "d.linnos")
    assert json.loads((out / "d.json").read_text())["margin"] == 0
    real = network.quantise

    def eager(*arguments: object) -> Model:
        model = real(*arguments)  # type: ignore[arg-type]
        return dataclasses.replace(model, output_bias=model.output_bias + np.array([0, 10**8]))

    monkeypatch.setattr(network, "quantise", eager)
    train_array([trace], out, QUICK)
    record = json.loads((out / "d.json").read_text())
    raised = load_model(out / "d.linnos")
    assert isinstance(raised, Model)
    assert raised.model_id == record["model_id"]
    assert record["margin"] > 0 and record["max_refused"] == MAX_REFUSED_FAST["network"]
    assert raised.output_bias.tolist() == [
        plain.output_bias[0] + record["margin"],
        plain.output_bias[1] + 10**8,
    ]
    assert record["quality"]["as_trained"]["false_revoke_share"] == 1.0
    assert record["quality"]["validation"]["false_revoke_share"] <= MAX_REFUSED_FAST["network"]
    # The record's values are those of the file: the test slice is evaluated again.
    latency_us = load_reads(trace).latency_us
    test = latency_us[split(len(latency_us), QUICK.training).test]
    assert record["quality"]["test"]["always_fast_mean_us"] == pytest.approx(test.mean())
    judged = evaluate(raised, trace)
    by_slice = [record[part] for part in ("training", "validation", "test")]
    refused = judged.confusion.true_slow + judged.confusion.false_revoke
    assert refused == sum(part["true_slow"] + part["false_revoke"] for part in by_slice)


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ((), MAX_REFUSED_FAST["network"]),
        (("--bias", "5"), 1.0),
        (("--bias", "5", "--max-refused", "0.2"), 0.2),
        (("--max-refused", "1"), 1.0),
    ],
)
def test_explicit_bias_has_no_limit_on_refusals(options: tuple[str, ...], limit: float) -> None:
    import click

    parsed: list[Recipe] = []
    command = click.command()(recipe_options(lambda **given: parsed.append(recipe_from(given))))
    command.main(list(options), standalone_mode=False)
    assert parsed[0].refused_limit == limit
    assert (
        dataclasses.replace(Recipe(), kind="latency").refused_limit == MAX_REFUSED_FAST["latency"]
    )
