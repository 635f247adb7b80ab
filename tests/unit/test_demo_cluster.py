# SPDX-License-Identifier: MIT
"""The demos: tables, texts and pictures."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from eval import contenders, demo, demo_cluster, figures
from eval.cache import RESULTS, ROOT
from eval.experiments.cluster.lab import ROUNDS
from eval.experiments.cluster.rules import RULES
from eval.intervals import MIN_READS_BEYOND
from eval.long_table import LongTable
from linnapp.lab.work import StepError
from linnapp.stats import Interval

SHOWN = LongTable.load(RESULTS / "demo-cluster.csv")
(PLACE,) = SHOWN.places
PAGE = (ROOT / "docs" / "cluster.md").read_text()


def printed() -> str:
    """Return the page's output of the command."""
    return PAGE.split("```sh\nmake demo-cluster\n```\n\n```text\n")[1].split("```")[0]


def changed(**rules: dict[str, float | Interval]) -> LongTable:
    """Return the committed table with other numbers of some rules."""
    table = SHOWN.only()
    for rule, numbers in rules.items():
        for measure, number in numbers.items():
            table.add(PLACE, rule.replace("_", "-"), measure, number)
    return table


def test_page_shows_the_printed_table() -> None:
    assert printed().startswith(demo_cluster.announcement(ROUNDS))
    assert demo_cluster.result_text(SHOWN) in printed()
    # the first and the last step
    steps = re.findall(r"^\[(\d+)/(\d+)\] .* s\)$", printed(), re.MULTILINE)
    n_steps = str(len(demo_cluster.ORDER) + 3)
    assert steps == [("1", n_steps), (n_steps, n_steps)]


def test_missing_kernel_is_reported_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_cluster, "compile_client", lambda folder: folder / "gluster_reads")
    monkeypatch.setattr(demo_cluster, "CLUSTER_KERNEL", tmp_path / "linux")
    with pytest.raises(StepError, match="linux: not there; `make kernel-cluster` builds it"):
        demo_cluster.demo(tmp_path, 1, 1)
    assert not (tmp_path / "table.csv").exists()


def test_labels_do_not_overlap_and_lines_end_at_enough_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn_figures: list[Figure] = []
    monkeypatch.setattr(plt, "close", drawn_figures.append)
    reads = np.arange(1.0, 20001)
    # Six lines end in the same place, one ends earlier, and one has too few reads.
    drawn = {policy: 100 + reads / 1000 for policy in demo.DRAWN[:-1]}
    drawn[demo.DRAWN[-1]] = reads / 2000
    figures.draw_latency_cdf(drawn | {"heuristic": reads[:MIN_READS_BEYOND]}, tmp_path / "cdf.png")
    (figure,) = drawn_figures
    (axes,) = figure.axes
    assert len(axes.lines) == len(demo.DRAWN)
    for line in axes.lines:
        assert np.asarray(line.get_ydata())[-1] <= np.log10(len(reads) / MIN_READS_BEYOND) + 1e-9
    places = sorted(text.get_position()[0] for text in axes.texts)
    assert {text.get_text() for text in axes.texts} == {*map(contenders.label, demo.DRAWN)}
    assert min(np.diff(places)) >= figures.NAMES_APART - 1e-9
    assert places[0] >= 0 and places[-1] <= 1
    monkeypatch.undo()
    plt.close(figure)


@pytest.mark.parametrize("draw", ["by_place", "draw_ranked_policies"])
def test_figures_of_many_places_and_policies_have_at_most_ten_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw: str
) -> None:
    drawn_figures: list[Figure] = []
    monkeypatch.setattr(plt, "close", drawn_figures.append)
    table = LongTable(("workload",))
    # Each of twelve rivals is the fastest one somewhere, and they differ more from place to place.
    for place in range(12):
        for k, policy in enumerate(["baseline", "fastest", *(f"rival-{k}" for k in range(12))]):
            value = 1000.0 + 10 * k * place - 800 * (policy == f"rival-{place}")
            table.add((f"w{place}",), policy, "mean_us", value)
    monkeypatch.setattr(table, "places_with_rivals", lambda measure: table.places)
    monkeypatch.setattr(
        table, "best_rival", lambda place, **_: f"rival-{place[0].removeprefix('w')}"
    )
    if draw == "by_place":
        figures.draw_by_place(table, {"mean_us": "mean us"}, tmp_path / "figure.png")
    else:
        figures.draw_ranked_policies(table, tmp_path / "figure.png")
    (figure,) = drawn_figures
    (axes,) = figure.axes
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert len(labels) == 10 == len(set(labels))
    if draw == "by_place":
        # Only the places in which the policies differ most are kept, in their order.
        assert labels == [f"w{k}" for k in range(2, 12)]
    else:
        assert "fastest" in labels and "baseline" not in labels
    monkeypatch.undo()
    plt.close(figure)


def test_best_alternative_is_neither_the_library_nor_the_oracle() -> None:
    text = demo_cluster.result_text(changed(oracle={"mean_us": 1}, library={"mean_us": 2}))
    assert "takes 2.0 us in the mean" in text and "The best rival, lowest own last" in text
    text = demo_cluster.result_text(changed(prediction={"mean_us": 1}))
    assert f"The best rival, {RULES['prediction']}, takes 1.0 us" in text
    for low, is_uncertain in ((0.05, False), (-0.05, True)):
        table = changed()
        table.add(PLACE, "library", "mean_us", Interval(0.1, low, 0.2), "own-latency")
        assert ("do not differ significantly" in demo_cluster.result_text(table)) == is_uncertain
