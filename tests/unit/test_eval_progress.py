# SPDX-License-Identifier: MIT
"""Progress in a log: a line from time to time, with names shown verbatim."""

from __future__ import annotations

import pytest

from linnapp.lab import work


def counted(totals: dict[str, int], begun: list[str]) -> None:
    with work.counting(totals) as count:
        for what in begun:
            count.begin(what)
            count.end(what)


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines without the time."""
    return [line.split(" 0:")[0] for line in capsys.readouterr().err.splitlines()]


def test_log_shows_the_first_and_the_last_item(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "QUIET_S", 1e9)
    counted({"[fig08] replaying": 40}, ["[fig08] replaying"] * 40)
    assert shown(capsys) == ["[fig08] replaying: 1/40", "[fig08] replaying: 40/40"]


def test_log_shows_each_item_when_they_are_far_apart(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "QUIET_S", 0.0)
    counted({"training": 3}, ["training"] * 3)
    assert len(shown(capsys)) == 3


def test_each_kind_is_counted_by_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "QUIET_S", 1e9)
    counted({"training": 1, "replaying": 2}, ["replaying", "training", "replaying"])
    assert shown(capsys) == ["replaying: 1/2", "training: 1/1", "replaying: 2/2"]


def test_steps_are_numbered_and_timed(capsys: pytest.CaptureFixture[str]) -> None:
    steps = work.Steps(2)
    for what in ("recording [blktrace]", "training"):
        with steps.step(what):
            pass
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("[1/2] recording [blktrace] ... ")
    assert second.startswith("[2/2] training ... ")
