# SPDX-License-Identifier: MIT
"""Small mixes on a file system whose drive is slow at times, as in `make eval-filesystems`."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.experiments.filesystems import reports
from eval.experiments.filesystems.design import (
    CACHED,
    CONFIGURATIONS,
    DIRECT,
    STEADY,
    Case,
    Mix,
    Slowness,
)
from eval.experiments.filesystems.lab import run_once
from eval.experiments.filesystems.wrong import BLOCKS, FILES, Wrong
from eval.experiments.filesystems.wrong import run_once as store_wrong_data

pytestmark = pytest.mark.lab

EXT4 = CONFIGURATIONS[0]
SLOW = Slowness("interval", 10, 10_000)
IN_JOURNAL = Slowness("interval", 10, 10_000, "journal")


def test_varmail_slows_more_than_webserver_and_commits_are_observed(tmp_path: Path) -> None:
    mail = Case(EXT4, Mix("varmail", 4, 20, 12, 3000), (SLOW, IN_JOURNAL))
    pages = Case(EXT4, Mix("webserver", 4, 20, 6, 6000), (SLOW,))
    watched = Case(EXT4, Mix("varmail", 4, 20, 6, 3000), (), CACHED, STEADY, steps=True)
    assert mail.cache == DIRECT
    base, slow, in_journal = run_once(mail, 1, tmp_path / "mail")
    hit = slow["drive"]["injected_reads"] + slow["drive"]["injected_writes"]
    ios = slow["drive"]["reads"] + slow["drive"]["writes"]
    assert base["drive"]["injected_writes"] == 0 and 0.05 < hit / ios < 0.15
    assert in_journal["drive"]["injected_reads"] == 0 < in_journal["drive"]["injected_writes"]
    # A read past the page cache takes as long as the drive, and waits for no commit.
    assert reports.slowdown(base, in_journal, "read").value < 0.2
    assert reports.slowdown(base, in_journal, "fsync").value > 2
    base_pages, slow_pages = run_once(pages, 1, tmp_path / "pages")
    assert 30 < sum(base_pages["total_us"]["read"]) / sum(base_pages["count"]["read"]) < 45
    mail_slowdown, pages_slowdown = (
        reports.slowdown(base, slow),
        reports.slowdown(base_pages, slow_pages),
    )
    assert mail_slowdown.value > pages_slowdown.value > 2
    (run,) = run_once(watched, 1, tmp_path / "watched")
    steps = run["steps"]
    assert len(steps["commit record"]) >= 20
    # Each is at least one write to a drive that takes 35 us.
    assert min(steps["commit record"]) > 30


def test_md_repair_copies_wrong_data_over_the_right_mirror(tmp_path: Path) -> None:
    found = {
        kind: store_wrong_data(Wrong("ext4", kind, "zeros"), 1, tmp_path / kind)
        for kind in ("md", "md_without", "md_repaired")
    }
    hit = found["md"]["injected"]
    assert hit > FILES * BLOCKS / 50
    assert [run["checked"].split()[1] for run in found.values()] == ["differ", "differ", "same"]
    # The first drive is absent in the last two, so the second one's data is read.
    assert found["md_without"]["right"] == FILES * BLOCKS
    assert found["md_repaired"]["wrong"] == found["md"]["wrong"] > hit / 2


def test_btrfs_corrects_wrong_data_of_one_of_three_mirrors(tmp_path: Path) -> None:
    found = store_wrong_data(Wrong("btrfs", "btrfs1c3", "lost_write"), 1, tmp_path)
    assert found["injected"] > 0 and found["right"] == FILES * BLOCKS
