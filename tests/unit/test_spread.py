# SPDX-License-Identifier: MIT
"""Which reads are worth sending twice, where predictions are alike and differ in how far off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval import spread
from eval.pairs import Reads, halves
from linnapp.model.latency_model import N_FEATURES


def _drive(rng: np.random.Generator, n: int, tells: int | None) -> Reads:
    """One read in ten takes a fifth, or eight times as long; the mean is that of all others."""
    features = rng.integers(0, 100, (n, N_FEATURES)).astype(np.float32)
    wild = rng.random(n) < 0.1
    if tells is not None:
        features[:, tells] = wild
    latency_us = np.where(wild, np.where(rng.random(n) < 0.1, 820, 20), 100).astype(np.uint32)
    at_ns = np.arange(n, dtype=np.uint64) * 1_000_000
    one = np.ones(n, np.int64)
    return Reads(at_ns, latency_us, one.astype(np.uint32), one, features)


@pytest.mark.parametrize("tells", [5, None])
def test_spreads_tell_which_reads_gain_where_means_do_not(tells: int | None) -> None:
    rng = np.random.default_rng(1)
    taught, judged = halves([_drive(rng, 30_000, tells) for _ in range(2)])
    ways = [spread.expected(*both) for both in zip(taught, judged, strict=True)]
    *_, more = spread.gained_by(spread.columns(judged, ways))
    assert more.low is not None and more.high is not None
    assert (more.low > 0) == (tells is not None)


def test_the_gain_is_the_mean_of_what_the_second_saves() -> None:
    first = np.array([[10.0, 100.0], [5.0, 5.0]])
    second = np.array([[20.0, 60.0], [5.0, 5.0]])
    assert spread.gain_us(first, second).tolist() == [(80 + 40) / 4, 0]
    took = np.array([[100.0, 40], [30, 40]] * 10)
    took[18, 0] = 400
    by = np.array([1.0, 0] * 9 + [2, 0])
    assert spread.gained(took, by).sum() == 360


def test_the_lower_prediction_is_sent_first() -> None:
    """One drive is always predicted lower; it is late in every other pair."""
    n = 40
    at_ns, one = np.arange(n, dtype=np.uint64) * 1_000_000, np.ones(n, np.int64)
    features = np.zeros((n, N_FEATURES), np.float32)
    latency_us = [
        np.full(n, 200, np.uint32),
        np.where(np.arange(n) % 2, 500, 100).astype(np.uint32),
    ]
    judged = [Reads(at_ns, us, one.astype(np.uint32), one, features) for us in latency_us]
    same = np.ones((n, spread.SLICES))
    wide = np.where(np.arange(n)[:, None] % 4 == 1, np.linspace(0.1, 9, spread.SLICES), same)
    ways = [
        (spread.Expected(np.full(n, us), same), spread.Expected(np.full(n, us), off))
        for us, off in ((200.0, same), (100.0, wide))
    ]
    gains = spread.columns(judged, ways)
    # Two of forty: of those that are wide, all of which are late.
    assert gains[:, 1].sum() == 2 * 300
    assert set(np.flatnonzero(gains[:, 1]) % 4) == {1}
    assert gains[:, 2].sum() == 2 * 300


def test_the_program_prints_a_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(2)
    drives = {f"flash{k}.blk": _drive(rng, 9000, 5) for k in range(3)}

    def load(path: Path) -> Any:
        return drives[path.name]

    monkeypatch.setattr(spread, "load", load)
    monkeypatch.setattr("sys.argv", ["spread", str(tmp_path)])
    spread.main()
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 3 and said[2].startswith(f"| {tmp_path} | 13,500 |")
