# SPDX-License-Identifier: MIT
"""The cluster demo: its table, text and picture for the run that docs/cluster.md shows."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure

from eval import demo_cluster
from eval.cache import RESULTS, ROOT
from eval.experiments.cluster.lab import ROUNDS
from eval.experiments.cluster.rules import RULES
from linnapp.lab.work import StepError

SHOWN: dict[str, Any] = json.loads((RESULTS / "demo-cluster.json").read_text())
PAGE = (ROOT / "docs" / "cluster.md").read_text()


def printed() -> str:
    """Return the page's output of the command."""
    return PAGE.split("```sh\nmake demo-cluster\n```\n\n```text\n")[1].split("```")[0]


def changed(**runs: dict[str, float]) -> dict[str, Any]:
    result = copy.deepcopy(SHOWN)
    for run in result["runs"]:
        run |= runs.get(run["policy"].replace("-", "_"), {})
    return result


def test_page_shows_the_printed_table() -> None:
    assert printed().startswith(demo_cluster.announcement(ROUNDS))
    assert demo_cluster.result_text(SHOWN) in printed()
    # the first and the last step
    steps = re.findall(r"^\[(\d+)/(\d+)\] .* s\)$", printed(), re.MULTILINE)
    n_steps = str(len(demo_cluster.ORDER) + 3)
    assert steps == [("1", n_steps), (n_steps, n_steps)]


def test_every_rule_has_a_line_with_its_numbers() -> None:
    header, *lines = demo_cluster.rule_table(
        changed(oracle={"mean_us": 7.25, "p99_us": 9.6})
    ).split("\n")
    assert header.split("  ")[0] == "rule"
    assert [line.split("  ")[0] for line in lines] == [RULES[rule] for rule in demo_cluster.ORDER]
    assert lines[-1].split() == ["oracle", "7.2", "10", "0.0", "%"]
    assert len({len(line) for line in (header, *lines)}) == 1


def test_best_alternative_is_neither_the_library_nor_the_oracle() -> None:
    assert demo_cluster.best_rival(changed(oracle={"mean_us": 1}, library={"mean_us": 2})) == (
        "own-latency"
    )
    assert demo_cluster.best_rival(changed(prediction={"mean_us": 1})) == "prediction"
    assert "The best rival, lowest own last latency" in demo_cluster.reading(SHOWN)
    # one of all rules sends two reads at once
    of_all = changed()
    of_all["runs"].append({**of_all["runs"][0], "policy": "clone", "mean_us": 1})
    assert "The best rival without extra reads, lowest own" in demo_cluster.reading(of_all)


@pytest.mark.parametrize(
    ("below", "says"),
    [
        ([0.1, 0.05, 0.2], "a mean 10.0 % lower"),
        ([-0.1, -0.2, -0.05], "a mean 10.0 % higher"),
        ([0.1, -0.05, 0.2], "a mean too near to tell apart"),
    ],
)
def test_difference_is_named_only_if_its_interval_excludes_zero(
    below: list[float], says: str
) -> None:
    result = changed(own_latency={"mean_us": 1, "p99_us": 2})
    for rule in result["below"]:
        result["below"][rule]["own-latency"] = below
    said = demo_cluster.reading(result)
    assert f"{RULES['own-latency']}, takes 1.0 us in the mean and 2 at p99." in said
    assert said.count(says) == 2


def test_picture_has_a_dot_and_a_ring_per_rule_and_a_legend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Figure] = []
    monkeypatch.setattr(plt, "close", kept.append)
    demo_cluster.draw(SHOWN, tmp_path / "figure.png")
    (figure,) = kept
    (axes,) = figure.axes
    means = [run["mean_us"] for run in SHOWN["runs"]]
    p99s = [run["p99_us"] for run in SHOWN["runs"]]
    low, high = axes.get_xlim()
    assert low < min(means) and max(p99s) < high
    said = [text.get_text() for text in axes.texts]
    assert said[-2:] == [f"mean {max(means):.0f}", f"p99 {max(p99s):.0f}"]
    assert len(said) == 2 * len(demo_cluster.ORDER)
    # from the bottom up, the fastest first
    named = [label.get_text().split("\n")[0] for label in axes.get_yticklabels()]
    order = sorted(SHOWN["runs"], key=lambda run: float(run["mean_us"]))
    assert named == [RULES[run["policy"]] for run in order]
    monkeypatch.undo()
    plt.close(figure)


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (StepError("x: not there; `make kernel-cluster` builds it"), "`make kernel-cluster`"),
        (KeyboardInterrupt(), "stopped, no guest is left; `make demo-cluster` begins"),
        (PermissionError(13, "Permission denied", "out"), "Permission denied: 'out'"),
    ],
)
def test_demo_reports_errors_in_one_sentence(
    raised: BaseException, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(demo_cluster, "demo", fails)
    monkeypatch.setattr("sys.argv", ["demo-cluster"])
    with pytest.raises(SystemExit) as stopped:
        demo_cluster.main()
    assert says in str(stopped.value.code)
    assert str(stopped.value.code).startswith("\nmake demo-cluster: ")


def test_missing_kernel_is_reported_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_cluster, "compiled", lambda folder: folder / "gluster_reads")
    monkeypatch.setattr(demo_cluster, "CLUSTER_KERNEL", tmp_path / "linux")
    with pytest.raises(StepError, match="linux: not there; `make kernel-cluster` builds it"):
        demo_cluster.demo(tmp_path, 1, 1)
    assert not (tmp_path / "summary.json").exists()


def test_json_output_is_alone_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_cluster, "demo", lambda *_, **__: SHOWN)
    monkeypatch.setattr("sys.argv", ["demo-cluster", "--json"])
    demo_cluster.main()
    assert json.loads(capsys.readouterr().out) == SHOWN
