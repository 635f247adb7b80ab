# SPDX-License-Identifier: MIT
"""The blktrace reader agrees with blkparse on a real recording, event counts and every I/O."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from linnapp.trace.blktrace import COLUMNS, BlktraceReader
from linnapp.trace.reads import load

BASE = Path(__file__).parents[2] / "traces" / "recorded" / "nullblk"
pytestmark = pytest.mark.skipif(shutil.which("blkparse") is None, reason="blkparse not installed")


def blkparse(*arguments: str) -> str:
    return subprocess.run(
        ["blkparse", "-i", BASE.name, *arguments],
        cwd=BASE.parent,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_reader_counts_the_events_that_blkparse_counts() -> None:
    text = blkparse()
    reader = BlktraceReader(BASE)
    list(reader)

    def total(what: str) -> int:
        return sum(int(n) for n in re.findall(rf"{what}:\s+(\d+)", text))

    assert reader.stats["queued"] == total("Reads Queued") + total("Writes Queued")
    assert reader.stats["completed"] == total("Reads Completed") + total("Writes Completed")
    assert reader.stats["issued"] == total("Read Dispatches") + total("Write Dispatches")
    assert reader.stats["back_merges"] == total("Read Merges") + total("Write Merges")
    assert reader.stats["events"] - reader.stats["notes"] == total("Events \\(\\w+\\)")


@pytest.mark.parametrize("form", ["text", "merged"])
def test_output_of_blkparse_holds_what_its_recording_does(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"nullblk.{form}"
    if form == "text":
        path.write_text(blkparse())
    else:
        blkparse("-O", "-d", str(path))
    recorded, printed = load(BASE), load(path)
    assert len(recorded) == 440
    for name in COLUMNS:
        expected, found = getattr(recorded, name), getattr(printed, name)
        if name == "arrival_ns":  # blkparse counts from the first event
            expected, found = expected - expected[0], found - found[0]
        np.testing.assert_array_equal(found, expected, err_msg=name)
