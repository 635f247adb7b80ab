# SPDX-License-Identifier: MIT
"""Where the time goes, as a picture: a bar for the fast I/Os, one for the slow, one ..."""

from __future__ import annotations

from collections.abc import Sequence

from linnapp.figures import check_can_draw, save
from linnapp.files import AnyPath
from linnapp.layers.times import LAYERS, Layers

_COLOURS = {"request": "#e69f00", "issue": "#56b4e9", "drive": "#555555"}


def draw(found: Sequence[tuple[str, Layers]], path: AnyPath) -> None:
    """Draw a row of bars a recording; errors as of :func:`~linnapp.figures.check_can_draw`."""
    check_can_draw(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.6 + 1.9 * len(found)))
    panels = figure.subplots(len(found), 1, squeeze=False, sharex=True)
    for axes, (name, each) in zip(panels[:, 0], found, strict=True):
        bands = each.bands()
        labels = [f"p{band.low:g} to p{band.high:g}" for band in bands]
        left = [0.0] * len(bands)
        for layer, words in LAYERS.items():
            widths = [band.mean_us[layer] for band in bands]
            axes.barh(labels, widths, left=left, color=_COLOURS[layer], label=f"{layer}: {words}")
            left = [a + b for a, b in zip(left, widths, strict=True)]
        axes.invert_yaxis()
        axes.set_title(f"{name}: {each.n} I/Os", fontsize=9, loc="left")
        axes.tick_params(labelsize=8)
    panels[-1, 0].set_xlabel("mean of the I/Os that took as long (us)", fontsize=9)
    # Beside the bars, none of which it may hide.
    figure.tight_layout(rect=(0, 0.3 / figure.get_figheight(), 1, 1))
    figure.legend(*panels[0, 0].get_legend_handles_labels(), fontsize=7, loc="lower center", ncol=3)
    save(figure, path)
