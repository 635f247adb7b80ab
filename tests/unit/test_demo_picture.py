# SPDX-License-Identifier: MIT
"""The demo's picture: colour-blind readers can distinguish its lines, and labels do not overlap."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from eval import demo, figures
from eval.intervals import RESTS_ON

#: Linear RGB as it is seen without one kind of cone (Machado, Oliveira, Fernandes 2009).
SEEN = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip

#: CIE 1976: at 2.3 a difference can just be seen.
APART = 10


def lab(linear: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIE L*a*b* of linear sRGB, in daylight."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ linear / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", SEEN)
def test_lines_are_distinguishable_when_colour_blind(kind: str) -> None:
    colour = {}
    for policy in demo.DRAWN:
        rgb = np.array(to_rgb(figures.style(policy)["color"]))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        colour[policy] = lab(np.clip(np.array(SEEN[kind]) @ linear, 0, 1))
    for a, b in combinations(demo.DRAWN, 2):
        dashes = {figures.style(policy).get("linestyle", "-") for policy in (a, b)}
        assert len(dashes) == 2 or np.linalg.norm(colour[a] - colour[b]) >= APART, (a, b)


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
