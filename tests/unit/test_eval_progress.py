# SPDX-License-Identifier: MIT
"""Progress in a log: lines now and then, and whatever a name contains stands there as it is."""

from __future__ import annotations

import pytest

from eval import progress


def test_in_a_log_stand_the_first_and_the_last(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 1e9)
    with progress.counting("[fig08] replaying", 40) as one_more:
        for _ in range(40):
            one_more()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" 0:")[0] for line in lines] == [
        "[fig08] replaying: 1/40",
        "[fig08] replaying: 40/40",
    ]


def test_each_line_where_they_are_far_apart(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    with progress.counting("training", 3) as one_more:
        for _ in range(3):
            one_more()
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_steps_are_numbered_and_timed(capsys: pytest.CaptureFixture[str]) -> None:
    steps = progress.Steps(2)
    for what in ("recording [blktrace]", "training"):
        with steps.step(what):
            pass
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("[1/2] recording [blktrace] ... ")
    assert second.startswith("[2/2] training ... ")
