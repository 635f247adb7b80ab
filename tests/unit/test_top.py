# SPDX-License-Identifier: MIT
"""`linnapp top`: its values on a synthetic tree, and its screen in a pseudo-terminal."""

from __future__ import annotations

import bisect
import fcntl
import io
import json
import math
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fake_sysfs import make_tree, replaced
from rich.console import Console, RenderableType
from test_cli import ROOT, fails
from test_model_format import random_model

from linnapp.cli import cli
from linnapp.drive import state
from linnapp.drive.latencies import LOWEST_US, MIDDLE_US, N_BUCKETS, percentile_us
from linnapp.drive.snapshots import WatchedArray
from linnapp.errors import LinnappError
from linnapp.insight.top import draw, format_age, table

COUNTERS = ("latency_critical", "admitted", "revoked", "probes", "slow", "false_submits")


class Kernel:
    """Drives under load; the last one has slow reads, refuses reads, and has a model."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, disks: str = "sda sdb") -> None:
        self.root = root
        make_tree(root, monkeypatch, disks)
        monkeypatch.setenv("LINNAPP_STATE", str(root / "state"))
        self.totals = {disk: dict.fromkeys((*COUNTERS, "reads"), 0) for disk in disks.split()}
        self.read_ms = dict.fromkeys(self.totals, 0.0)
        self.counts = {disk: [0] * N_BUCKETS for disk in self.totals}
        self.model = random_model()
        self.last = disks.split()[-1]
        (root / "block" / self.last / "linnos" / "model_id").write_text(self.model.model_id)
        state.save_upload(self.last, self.model.model_id)
        self.goes_on(0)

    def goes_on(self, reads: int, us: float = 100, revoked: int = 0) -> None:
        """Add `reads` on each drive; those of the last take `us`, and `revoked` are refused."""
        for disk, totals in self.totals.items():
            refused = revoked if disk == self.last else 0
            us_here = us if disk == self.last else 100
            totals["reads"] += reads
            totals["latency_critical"] += reads
            totals["revoked"] += refused
            totals["admitted"] += reads - refused
            self.read_ms[disk] += (reads - refused) * us_here / 1e3
            directory = self.root / "block" / disk
            self.counts[disk][bisect.bisect(LOWEST_US, us_here) - 1] += reads - refused
            replaced(
                directory / "linnos" / "latency_us_histogram",
                " ".join(map(str, self.counts[disk])) + "\n",
            )
            for name, total in totals.items():
                replaced(directory / "linnos" / "stats" / name, f"{total}\n")
            replaced(
                directory / "stat",
                f"{totals['admitted']} 0 0 {self.read_ms[disk]:.0f} 0 0 0 0 7 0 0\n",
            )


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the terminal's width, or 80 without one; pytest-xdist sets it for child processes."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(tmp_path, monkeypatch)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a fake clock of the snapshots; a call advances it by seconds."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def passes(seconds: float) -> None:
        now[0] += seconds

    return passes


def text(shown: RenderableType, width: int = 160) -> str:
    """Return what a terminal of this width shows."""
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(shown)
    return console.export_text()


def test_top_shows_rates_means_and_bursts(kernel: Kernel, clock: Callable[[float], None]) -> None:
    array = WatchedArray([])
    assert array.take_snapshot() == []
    rows = []
    for reads, us, revoked in ((2000, 100, 0), (2000, 150, 1000), (4000, 400, 3900), (10, 100, 4)):
        clock(2)
        kernel.goes_on(reads, us, revoked)
        first, second = array.take_snapshot()
        rows.append(second)
    assert (first.drive, first.mode, first.burst_s, first.model_id) == (
        "sda",
        "observe",
        None,
        None,
    )
    assert [row.read_us_mean for row in rows[:3]] == [100, 150, 400]
    # The buckets are from 96 to 112, from 128 to 160 and from 384 to 448.
    assert [round(row.read_us_percentiles["p99"]) for row in rows[:3]] == [104, 143, 415]
    assert [row.read_us_percentiles["reads"] for row in rows] == [2000, 1000, 100, 6]
    assert [row.reads_per_s for row in rows] == [1000, 500, 50, 3]
    assert [row.per_second["revoked"] for row in rows] == [0, 500, 1950, 2]
    assert [row.burst_s for row in rows] == [None, 2, 4, None]
    assert rows[2].latencies_us == [100, 150, 400]
    assert rows[0].in_flight == 7
    assert rows[0].model_id == kernel.model.model_id
    assert rows[0].model_age_s is not None and rows[0].model_age_s < 1000
    clock(1)
    (_, idle) = array.take_snapshot()
    assert (idle.read_us_mean, idle.reads_per_s, idle.burst_s) == (None, 0, None)
    assert idle.read_us_percentiles == {}
    totals = kernel.totals["sdb"]
    totals["inferences"], totals["inference_ns"] = 2000, 240_000
    kernel.goes_on(0)
    clock(1)
    shown = text(draw(array.take_snapshot(), 160))
    assert "a prediction takes 120 ns; all of them take" in shown


def test_top_shows_ages_in_the_largest_unit() -> None:
    shown = [format_age(seconds) for seconds in (None, 0.25, 59, 60, 7200, 259_200)]
    assert shown == ["-", "0.2 s", "59 s", "1 min", "2 h", "3 d"]


def test_reads_queried_by_md_are_shown(kernel: Kernel, clock: Callable[[float], None]) -> None:
    def below(array: str, *members: str) -> None:
        slaves = kernel.root / "block" / array / "slaves"
        slaves.mkdir(parents=True)
        for member in members:
            (slaves / Path(member).name).symlink_to(kernel.root / "block" / member)

    below("md0", "sda/sda1", "sdb")
    below("md1", "sdb", "sdc")  # sdc has no LinnOS
    array = WatchedArray([])
    array.take_snapshot()
    clock(2)
    kernel.goes_on(300, revoked=200)
    rows = array.take_snapshot()
    assert [(row.array, row.array_read_share) for row in rows] == [("md0", 0.75), ("md0", 0.25)]
    shown = text(table(rows, 160))
    assert re.search(r"^sda .* 75% ", shown, re.M) and re.search(r"^sdb .* 25% ", shown, re.M)
    assert "asked/s" not in shown
    # Hinted reads also count as inferences; there were no other queries.
    for totals in kernel.totals.values():
        totals["inferences"] = totals["latency_critical"]
    kernel.goes_on(0)
    clock(2)
    assert "asked/s" not in text(table(array.take_snapshot(), 160))
    for totals in kernel.totals.values():
        totals["inferences"] += 5000
    kernel.goes_on(0)
    clock(2)
    rows = array.take_snapshot()
    assert [row.per_second["inferences"] for row in rows] == [2500, 2500]
    assert [row.array_read_share for row in rows] == [None, None]  # nothing was read
    assert re.search(r"^sdb .* - +2500 ", text(table(rows, 160)), re.M)
    # The share is unknown if only one drive of the array is shown.
    alone = WatchedArray(["sdb"])
    alone.take_snapshot()
    clock(2)
    kernel.goes_on(10)
    (row,) = alone.take_snapshot()
    assert (row.array, row.array_read_share) == ("md0", None)


def test_drives_can_disappear_and_return(kernel: Kernel, clock: Callable[[float], None]) -> None:
    kernel.goes_on(10)
    array = WatchedArray([])
    array.take_snapshot()
    gone = kernel.root / "block" / "sdb"
    gone.rename(kernel.root / "away")
    clock(1)
    assert [row.drive for row in array.take_snapshot()] == ["sda"]
    (kernel.root / "away").rename(gone)
    clock(1)
    assert [row.drive for row in array.take_snapshot()] == ["sda"]
    clock(1)
    assert [row.drive for row in array.take_snapshot()] == ["sda", "sdb"]
    kernel.totals["sdb"]["reads"] = 3  # another disk of that name
    kernel.goes_on(0)
    clock(1)
    assert [row.drive for row in array.take_snapshot()] == ["sda"]


@pytest.mark.parametrize("width", [30, 60, 80, 100, 160])
def test_top_table_fits_its_terminal(
    kernel: Kernel, clock: Callable[[float], None], width: int
) -> None:
    array = WatchedArray([])
    array.take_snapshot()
    clock(1)
    kernel.goes_on(123456, 250, 70000)
    rows = array.take_snapshot()
    shown = text(table(rows, width), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    for word in ("sda", "sdb", "250", "57%", *(["250", "70000"] if width >= 60 else [])):
        assert word in shown
    assert (kernel.model.model_id in shown) == (width >= 160)


def test_top_once_prints_one_interval_as_table_or_json(
    kernel: Kernel, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: (kernel.goes_on(40, 300), real(seconds)))
    arguments = ["top", "--once", "--interval", "0.1"]
    cli.main([*arguments, "--json", "sdb"], standalone_mode=False)
    (row,) = json.loads(capsys.readouterr().out)["drives"]
    assert row["drive"] == "sdb"
    assert row["read_us_mean"] == 300
    assert row["totals"]["admitted"] == 40
    assert 0 < row["per_second"]["admitted"] <= 400
    cli.main(arguments, standalone_mode=False)
    shown = capsys.readouterr().out
    assert re.search(r"^drive +mode +latency +mean us +p50 us +p99 us", shown)
    assert kernel.model.model_id in shown


def test_top_refuses_invalid_arguments(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    fails("top needs a terminal; --once prints one interval", "top")
    with pytest.raises(LinnappError, match="sdz: no such disk"):
        cli.main(["top", "sdz", "--once"], standalone_mode=False)
    monkeypatch.setenv("LINNAPP_SYSFS", str(kernel.root / "none"))
    with pytest.raises(LinnappError, match="no disk has LinnOS"):
        cli.main(["top", "--once"], standalone_mode=False)


#: Seconds until the test gives up.
GIVE_UP_S = 600


def test_a_session_in_a_terminal_draws_until_ctrl_c_and_restores_the_terminal(
    kernel: Kernel,
) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 30, 120, 0, 0))
    settings = termios.tcgetattr(slave)
    environment = {
        name: os.environ[name] for name in os.environ if name not in ("LINES", "COLUMNS")
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "linnapp", "top", "--interval", "0.1"],
        **dict.fromkeys(("stdin", "stdout", "stderr"), slave),
        env={**environment, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"},
        start_new_session=True,
    )
    sent = b""
    end = time.monotonic() + GIVE_UP_S
    try:
        # The drives serve reads all the time; the last one is slow, so that it is in a burst.
        while not re.search(rb"sdb +observe [^\r]*500 [^\r]* (0\.\d|\d+) s", sent):
            assert time.monotonic() < end and process.poll() is None, sent
            kernel.goes_on(100, us=500, revoked=80)
            while select.select([master], [], [], 0.02)[0]:
                sent += os.read(master, 65536)
        assert re.search(rb"linnapp top .* ctrl-C ends it", sent)
        process.send_signal(signal.SIGINT)
        assert process.wait(GIVE_UP_S) == 0
        while select.select([master], [], [], 0)[0]:
            sent += os.read(master, 65536)
        assert termios.tcgetattr(slave) == settings
    finally:
        process.kill()
        process.wait()
        for fd in (master, slave):
            os.close(fd)
    # It leaves the alternate screen and shows the cursor again.
    assert sent.rindex(b"\x1b[?1049l") > sent.rindex(b"\x1b[?1049h")
    assert sent.rindex(b"\x1b[?25h") > sent.rindex(b"\x1b[?25l")
    assert b"Traceback" not in sent


def kernels_bucket(us: int) -> int:
    """Compute the bucket as linnos_latency_bucket() in blk-linnos-policy.h does."""
    shift = (us | 4).bit_length() - 3
    return min((shift << 2) + (max(us, 3) >> shift) - 3, N_BUCKETS - 1)


def test_latency_buckets_equal_those_of_the_kernel() -> None:
    # The values of the table in linnos_policy_test.c.
    assert [LOWEST_US[k] for k in (0, 1, 4, 5, 6, 8, 9, 19, 20, 87)] == [
        *(0, 4, 7, 8, 10, 14, 16, 96, 112, 12_582_912)
    ]
    for us in (*range(5000), *(edge + by for edge in LOWEST_US[1:] for by in (-1, 0, 1))):
        assert kernels_bucket(us) == bisect.bisect(LOWEST_US, us) - 1
    ends = (*LOWEST_US[1:], math.inf)
    assert all(a <= us < b for a, us, b in zip(LOWEST_US, MIDDLE_US, ends, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_of_buckets_are_within_12_percent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    latencies = np.floor(rng.lognormal(5, 1.5, 20_000)).astype(int) + 4
    counts = [0] * N_BUCKETS
    for us in latencies:
        counts[kernels_bucket(int(us))] += 1
    for percent in (1, 50, 90, 99, 99.9, 100):
        truth = np.percentile(latencies, percent, method="inverted_cdf")
        assert percentile_us(counts, percent) == pytest.approx(truth, rel=0.12)


def test_percentile_of_no_reads_is_none_and_of_few_is_in_their_buckets() -> None:
    assert percentile_us([], 50) is None
    assert percentile_us([0] * N_BUCKETS, 50) is None
    counts = [0] * N_BUCKETS
    counts[0], counts[-1] = 99, 1
    assert (percentile_us(counts, 99), percentile_us(counts, 99.5)) == (2, 12_582_912)
