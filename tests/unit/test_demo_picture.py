# SPDX-License-Identifier: MIT
"""The demo's picture: labels do not overlap, and lines end where too few reads remain."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from eval import demo, figures
from eval.intervals import RESTS_ON


def test_labels_do_not_overlap_and_lines_end_at_enough_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Figure] = []
    monkeypatch.setattr(plt, "close", kept.append)
    reads = np.arange(1.0, 20001)
    # Six that end in the same place, one before the ends, and one with too few reads.
    drawn = {policy: 100 + reads / 1000 for policy in demo.DRAWN[:-1]}
    drawn[demo.DRAWN[-1]] = reads / 2000
    figures.latency_cdf(drawn | {"heuristic": reads[:RESTS_ON]}, tmp_path / "cdf.png")
    (figure,) = kept
    (axes,) = figure.axes
    assert len(axes.lines) == len(demo.DRAWN)
    for line in axes.lines:
        assert np.asarray(line.get_ydata())[-1] <= np.log10(len(reads) / RESTS_ON) + 1e-9
    places = sorted(text.get_position()[0] for text in axes.texts)
    assert {text.get_text() for text in axes.texts} == set(demo.DRAWN)
    assert min(np.diff(places)) >= figures.NAMES_APART - 1e-9
    assert places[0] >= 0 and places[-1] <= 1
    monkeypatch.undo()
    plt.close(figure)
