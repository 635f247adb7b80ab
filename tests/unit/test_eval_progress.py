# SPDX-License-Identifier: MIT
"""Progress in a log: a line from time to time, with names shown verbatim."""

from __future__ import annotations

from collections import Counter

import pytest

from linnapp.lab import work


@pytest.mark.parametrize(
    ("quiet_s", "begun", "lines"),
    [
        (1e9, ["replay"] * 40, ["replay: 1/40", "replay: 40/40"]),
        (0.0, ["train"] * 3, ["train: 1/3", "train: 2/3", "train: 3/3"]),
        (1e9, ["replay", "train", "replay"], ["replay: 1/2", "train: 1/1", "replay: 2/2"]),
    ],
)
def test_log_has_the_ends_of_each_kind_and_items_that_are_far_apart(
    quiet_s: float, begun: list[str], lines: list[str],
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(work, "QUIET_S", quiet_s)
    with work.counting(dict(Counter(begun))) as count:
        for what in begun:
            count.begin(what)
            count.end(what)
    # without the time
    assert [line.split(" 0:")[0] for line in capsys.readouterr().err.splitlines()] == lines


def test_steps_are_numbered_and_timed(capsys: pytest.CaptureFixture[str]) -> None:
    steps = work.Steps(2)
    for what in ("recording [blktrace]", "training"):
        with steps.step(what):
            pass
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("[1/2] recording [blktrace] ... ")
    assert second.startswith("[2/2] training ... ")
