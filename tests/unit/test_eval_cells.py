# SPDX-License-Identifier: MIT
"""How the cells of the evaluation are trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from eval import cells
from eval.cache import Cache


@pytest.mark.parametrize(
    ("options", "unlimited"),
    [((), True), (cells.PAPER_TRAINING, True), (cells.LATENCY_TRAINING, False)],
)
def test_networks_are_trained_without_a_limit_and_latency_models_as_always(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], unlimited: bool
) -> None:
    given: list[str] = []

    def train(traces: Sequence[Path], model_dir: Path, log: Path, *options: str) -> None:
        model_dir.mkdir(parents=True)
        given.extend(options)

    monkeypatch.setattr(cells.workers, "train", train)
    monkeypatch.setattr(cells, "recorded", lambda cache, cell: tmp_path)
    cell = cells.Cell("az-e", "enterprise", 7, 1.0, 1.0)
    assert cells.trained(Cache(tmp_path / "cache"), cell, options).name == "models"
    before = cells.NETWORK_TRAINING if unlimited else ()
    assert tuple(given) == ("--seed", "7", *before, *options)
