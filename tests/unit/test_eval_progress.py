# SPDX-License-Identifier: MIT
"""Progress in a log: lines now and then, and whatever a name contains stands there as it is."""

from __future__ import annotations

import pytest

from eval import progress


def test_in_a_log_stand_the_first_and_the_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 1e9)
    with progress.counting({"[fig08] replaying": 40}) as count:
        for _ in range(40):
            count.begin("[fig08] replaying")
            count.end("[fig08] replaying")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" 0:")[0] for line in lines] == [
        "[fig08] replaying: 1/40",
        "[fig08] replaying: 40/40",
    ]


def test_each_line_where_they_are_far_apart(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    with progress.counting({"training": 3}) as count:
        for _ in range(3):
            count.begin("training")
            count.end("training")
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_each_kind_is_counted_by_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 1e9)
    with progress.counting({"training": 1, "replaying": 2}) as count:
        for what in ("replaying", "training", "replaying"):
            count.begin(what)
            count.end(what)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" 0:")[0] for line in lines] == [
        "replaying: 1/2",
        "training: 1/1",
        "replaying: 2/2",
    ]


def test_steps_are_numbered_and_timed(capsys: pytest.CaptureFixture[str]) -> None:
    steps = progress.Steps(2)
    for what in ("recording [blktrace]", "training"):
        with steps.step(what):
            pass
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("[1/2] recording [blktrace] ... ")
    assert second.startswith("[2/2] training ... ")
