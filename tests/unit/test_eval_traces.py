# SPDX-License-Identifier: MIT
"""User-supplied traces: which files are used, and the counts of their runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval import trace_files
from eval.experiments import traces
from eval.experiments.traces import replays, scores
from eval.work import StepError

LINE = "0.000 0 0 4096 1\n"


def test_folder_expands_to_its_traces_by_name(tmp_path: Path) -> None:
    for name in ("b.trace", "a.trace", "deep/er/c.trace"):
        (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / name).write_text(LINE * 2)
    (tmp_path / "all" / "LICENSE").write_text("Copyright of somebody\n")
    (tmp_path / "all" / "empty").touch()
    (tmp_path / "all" / "no.xz").write_text("packed by nobody\n")
    (tmp_path / "alone.trace").write_text(LINE)
    given = (tmp_path / "all", tmp_path / "alone.trace")
    found = trace_files.files(given)
    assert list(found) == ["a.trace", "b.trace", "deep/er/c.trace", "alone.trace"]
    assert found["deep/er/c.trace"] == tmp_path / "all/deep/er/c.trace"
    # The saved data do not contain their paths.
    assert [name for name, _ in trace_files.digests(given)] == list(found)
    assert str(tmp_path) not in str(trace_files.digests(given))


def test_missing_and_duplicate_traces_are_errors(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README").write_text("no trace\n")
    for path, why in (("gone", "no such file or folder"), ("empty", "no trace in it")):
        with pytest.raises(StepError, match=f"{path}: {why}.*LINNOS_TRACES"):
            trace_files.files((tmp_path / path,))
        assert trace_files.digests((tmp_path / path,)) == [[path, "missing"]]
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.trace").write_text(LINE)
    with pytest.raises(StepError, match=r"other/same\.trace: another trace has this name"):
        trace_files.files((tmp_path / "one", tmp_path / "other"))


def test_without_the_variable_the_recorded_applications_are_replayed() -> None:
    found = trace_files.files((trace_files.RECORDED,))
    assert {"fio.blk.xz", "pgbench.blk.xz"} <= found.keys()
    assert not [name for name in found if name.endswith((".md", ".sh"))]


#: Slowness of blocks of time; for `two` they are in reverse order, as if by chance.
HARD = (0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.4, 1.5)


def _runs(iops: float, slowness: str, **mean_us: float) -> list[dict[str, Any]]:
    names = {"hedge5": scores.HEDGE_CAPPED, "two": scores.TWO, "off": replays.OFF, "on": replays.ON}
    return [
        {
            "trace": "t", "iops": iops, "slowness": slowness, "reads": 400,
            "policy": names.get(name, name.replace("_", "-")), "mean_us": mean, "p99_us": None,
            "extra_io_ratio": 0.0, "data_errors": 0, "io_errors": 0,
            "blocks": [[40] * 10, [40 * mean * hard for hard in HARD[::order]]],
        }
        for name, mean in mean_us.items()
        for order in (-1 if name == "two" else 1,)
    ]  # fmt: skip


@pytest.fixture
def data() -> dict[str, Any]:
    """A trace at two rates: `lowest` is slower at one of them without bursts, else faster."""
    facts = {"training_reads": [500] * 3, "n_trees": [300] * 3}
    return {
        "traces": [{"trace": "t", "iops": iops, **facts} for iops in (2000.0, 1000.0)],
        "left_out": [],
        "runs": [
            *_runs(1000, "calm", baseline=100, shortest_queue=104, lowest=103, oracle=90, two=100),
            *_runs(1000, "bursts", baseline=300, shortest_queue=150, lowest=120, oracle=100,
                   two=110, hedge5=240, off=400, on=200),
            *_runs(2000, "calm", baseline=100, shortest_queue=100.5, lowest=100.6, oracle=99.5,
                   two=100.5, hedge5=99, off=100, on=102),
            *_runs(2000, "bursts", baseline=200, shortest_queue=100, lowest=150, oracle=100,
                   two=140, hedge5=190, off=400, on=100),
        ],
    }  # fmt: skip


def test_counts_of_higher_and_lower_means(data: dict[str, Any]) -> None:
    of = scores.lines(data)
    assert [(line.iops, line.slowness) for line in of] == [
        (1000, "calm"), (1000, "bursts"), (2000, "calm"), (2000, "bursts"),
    ]  # fmt: skip
    assert [line.rule for line in of] == ["baseline", "shortest-queue"] * 2
    counted = {count.what: count for count in scores.counts(of)}
    lowest = counted["`lowest` against doing nothing"]
    assert (lowest.n, lowest.above, lowest.below) == (4, 1, 2)
    # Each block was slower for both by the same factor; for `two`, other blocks were.
    assert (lowest.surely_above, lowest.surely_below) == (1, 2)
    two = counted["`lowest-two, 5% cap` against doing nothing"]
    assert (two.above, two.below, two.surely_below) == (0, 2, 1)
    assert lowest.worst == (pytest.approx(0.03), "t at 1000, calm")
    assert lowest.median_calm == pytest.approx(0.018)
    assert lowest.median_bursts == pytest.approx((-0.6 - 0.25) / 2)
    # 3 % slower than baseline, 20 % faster than shortest-queue, equal, 50 % slower than it.
    rules = counted["`lowest` against the best rule"]
    assert (rules.above, rules.below, rules.worst[1]) == (2, 1, "t at 2000, bursts")
    # Lines in which the hedge was not run do not count.
    hedge = counted["`lowest-two, 5% cap` against `hedge, 5% cap`"]
    assert (hedge.n, hedge.above, hedge.below) == (3, 1, 2)
    md = counted["md raid1, `on` against `off`"]
    assert (md.n, md.above, md.below) == (3, 1, 2)
    assert md.median_bursts == pytest.approx((-0.5 - 0.75) / 2)
    # No count for a percentile that no replay was long enough for, nor for absent policies.
    assert not [what for what in counted if "p99" in what or "clone" in what or "linnos`" in what]


def test_shares_require_a_significant_gain(data: dict[str, Any]) -> None:
    of = scores.lines(data)
    # Half a percent counts as no gain.
    assert scores.shares(of, "lowest") == [
        pytest.approx(-0.3), pytest.approx(0.9), pytest.approx(0.5),
    ]  # fmt: skip
    assert scores.shares(of, "clone") == []


def test_first_table_shows_percent_relative_to_baseline(data: dict[str, Any]) -> None:
    tables = traces.EXPERIMENT.table(data)
    first, counts, shares, *_ = tables.values()
    row = dict(zip(first.header, first.rows[1], strict=True))
    assert row["best rule without a model"] == "shortest-queue -50.0"
    assert (row["doing nothing, us"], row["lowest"], row["clone"]) == ("300", "-60.0", "-")
    assert (row["md off, us"], row["md on"]) == ("400", "-50.0")
    assert dict(zip(first.header, first.rows[0], strict=True))[scores.TWO] == "(+0.0)"
    assert first.rows[0][4] == "home +0.0" and first.rows[0][-2:] == ("-", "-")
    assert counts.rows[0] == (
        "`lowest` against doing nothing", "4", "1 by over 1%", "1", "2", "2",
        "+3.0 (t at 1000, calm)", "+1.8", "-42.5",
    )  # fmt: skip
    assert shares.rows[0] == ("lowest", "3", "50%", "-30%")
    assert "Left out" not in tables
