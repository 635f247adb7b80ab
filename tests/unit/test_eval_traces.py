# SPDX-License-Identifier: MIT
"""Selection of user-supplied traces, and the public traces that the pages need.

The counts on the pages are those of the committed results; see test_eval_report.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from eval import trace_counts, trace_files
from eval.long_table import LongTable
from linnapp.lab.work import StepError

LINE = "0.000 0 0 4096 1\n"


def test_folder_expands_to_its_traces_by_name(tmp_path: Path) -> None:
    for name in ("b.trace", "a.trace", "deep/er/c.trace"):
        (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / name).write_text(LINE * 2)
    (tmp_path / "all" / "LICENSE").write_text("Copyright of a person\n")
    (tmp_path / "all" / "empty").touch()
    (tmp_path / "all" / "no.xz").write_text("not packed\n")
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


def test_pages_need_public_traces() -> None:
    table = LongTable(("trace", "rate", "slowness"))
    for measure, value in (("mean_us", 100.0), ("iops", 2000.0), ("elapsed_s", 2.0)):
        table.add(("mine.trace", 1.0, "calm"), "baseline", measure, value, seed=2010)
    with pytest.raises(StepError, match="LINNOS_TRACES=DIR"):
        trace_counts.page_data(table)
