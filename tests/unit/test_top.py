# SPDX-License-Identifier: MIT
"""`linnapp top`: its values on a synthetic tree, and its screen and keys in a pseudo-terminal."""

from __future__ import annotations

import bisect
import fcntl
import html
import io
import itertools
import json
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
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyte
import pytest
from fake_sysfs import make_tree, replaced
from rich.console import Console, RenderableType
from rich.style import Style
from rich.text import Text
from test_cli import ROOT, fails
from test_model_format import random_model

from linnapp.cli import cli
from linnapp.drive import state
from linnapp.drive.latencies import LOWEST_US, N_BUCKETS
from linnapp.drive.snapshots import DriveRow, WatchedArray
from linnapp.drive.sysfs import Drive
from linnapp.errors import LinnappError
from linnapp.insight.top import Screen, drive_details, format_age, sparkline, table

COUNTERS = ("latency_critical", "admitted", "revoked", "probes", "slow", "false_submits")


#: the last column of a drive in a burst, where there is no room for the model's age
BURST = r"[1-9][\d.]* (s|min)\s*$|0\.[1-9] s\s*$"


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
    """Fake clock of the snapshots; call it to advance by seconds."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def passes(seconds: float) -> None:
        now[0] += seconds

    return passes


def test_rates_means_and_bursts(kernel: Kernel, clock: Callable[[float], None]) -> None:
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
    # In a bucket from 96 to 112, from 128 to 160, from 384 to 448.
    assert [round(row.read_us_percentiles["p99"]) for row in rows[:3]] == [104, 143, 415]
    assert [row.read_us_percentiles["reads"] for row in rows] == [2000, 1000, 100, 6]
    assert [row.reads_per_s for row in rows] == [1000, 500, 50, 3]
    assert [row.per_second["revoked"] for row in rows] == [0, 500, 1950, 2]
    assert [row.burst_s for row in rows] == [None, 2, 4, None]
    assert rows[2].latencies_us == [100, 150, 400]
    assert rows[0].in_flight == 7 and rows[0].pending_pages is None
    assert rows[0].model_id == kernel.model.model_id
    assert rows[0].model_age_s is not None and rows[0].model_age_s < 1000
    clock(1)
    (_, idle) = array.take_snapshot()
    assert (idle.read_us_mean, idle.reads_per_s, idle.burst_s) == (None, 0, None)
    assert idle.read_us_percentiles == {}


def test_an_older_kernel_has_no_percentiles(kernel: Kernel, clock: Callable[[float], None]) -> None:
    for disk in kernel.totals:
        (kernel.root / "block" / disk / "linnos/latency_us_histogram").unlink()
    array = WatchedArray([])
    array.take_snapshot()
    clock(1)
    rows = array.take_snapshot()
    assert [row.read_us_percentiles for row in rows] == [{}, {}]
    console = Console(width=200, record=True, file=(kernel.root / "out").open("w"))
    console.print(table(rows, 200))
    assert "p99" not in console.export_text()
    # A kernel with other buckets.
    histogram = kernel.root / "block" / "sda" / "linnos/latency_us_histogram"
    replaced(histogram, "1 2 3\n")
    assert Drive("sda").latency_counts is None


def test_a_healthy_drive_does_not_look_broken(
    kernel: Kernel, clock: Callable[[float], None]
) -> None:
    """The model's threshold is less than the median latency, as with a low-cost failover."""
    replaced(kernel.root / "block" / "sdb" / "linnos" / "threshold_us", "80\n")
    array = WatchedArray([])
    array.take_snapshot()
    totals = kernel.totals["sdb"]
    totals["slow"], totals["false_submits"] = 1060, 1040
    kernel.goes_on(2000, 90, 20)
    clock(1)
    rows = array.take_snapshot()

    def text(shown: RenderableType) -> str:
        console = Console(width=160, record=True, file=io.StringIO())
        console.print(shown)
        return console.export_text()

    shown = text(table(rows, 160))
    # p99 and the refused share are shown, but not the reads slower than the threshold.
    assert re.search(r"^sdb .* 90 +88 +90 +1% ", shown, re.M)
    assert "1040" not in shown and "false" not in shown
    # The details add the share among all reads.
    assert (
        "slower than 80 us: 52.5% of the admitted reads (slow admitted, stats/false_submits), "
        "53.5% of all reads (stats/slow)"
    ) in text(drive_details(rows[1], 160))


def test_upload_without_a_record_has_no_age(kernel: Kernel, clock: Callable[[float], None]) -> None:
    (kernel.root / "state" / "sdb" / "upload.json").unlink()
    array = WatchedArray([])
    array.take_snapshot()
    clock(1)
    console = Console(width=160, record=True, file=io.StringIO())
    for row in array.take_snapshot():
        console.print(drive_details(row, 160))
    shown = console.export_text()
    assert "sda: observe, no model\n" in shown
    assert f"model {kernel.model.model_id}, upload time unknown, slow above" in shown
    assert "- ago" not in shown


def test_reads_queried_by_md_are_shown(kernel: Kernel, clock: Callable[[float], None]) -> None:
    def below(array: str, *members: str) -> None:
        slaves = kernel.root / "block" / array / "slaves"
        slaves.mkdir(parents=True)
        for member in members:
            (slaves / Path(member).name).symlink_to(kernel.root / "block" / member)

    def text(shown: RenderableType) -> str:
        console = Console(width=160, record=True, file=io.StringIO())
        console.print(shown)
        return console.export_text()

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
    assert "in md0; share of the array's reads: not known" in text(drive_details(rows[0], 160))
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


def test_sparkline() -> None:
    assert sparkline([], 3) == "   "
    assert sparkline([100], 2) == " ▁"
    assert sparkline([100, None, 100], 3) == "▁ ▁"
    assert sparkline([9, 100, 10_000, 2000], 3) == "▁█▆"
    assert sparkline([100, 110], 2) == "▁▂"  # noise is no burst


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        *((None, "-"), (0.25, "0.2 s"), (59, "59 s"), (60, "1 min"), (7200, "2 h")),
        (86400 * 3, "3 d"),
    ],
)
def test_age(seconds: float | None, shown: str) -> None:
    assert format_age(seconds) == shown


@pytest.mark.parametrize("width", [30, 60, 80, 100, 160])
def test_a_table_fits_its_terminal(
    kernel: Kernel, clock: Callable[[float], None], width: int
) -> None:
    array = WatchedArray([])
    array.take_snapshot()
    clock(1)
    kernel.goes_on(123456, 250, 70000)
    rows = array.take_snapshot()
    console = Console(width=width, record=True, file=(kernel.root / "out").open("w"))
    console.print(table(rows, width))
    shown = console.export_text()
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    for word in ("sda", "sdb", "250", "57%", *(["250", "70000"] if width >= 60 else [])):
        assert word in shown
    assert (kernel.model.model_id in shown) == (width >= 160)


def test_keys(kernel: Kernel, clock: Callable[[float], None]) -> None:
    array = WatchedArray([])
    array.take_snapshot()
    clock(1)
    kernel.goes_on(100, 200, 50)
    screen = Screen()
    screen.press(b"\r")
    assert not screen.open
    screen.rows = array.take_snapshot()

    def order() -> list[str]:
        return [row.drive for row in screen.ordered()]

    assert order() == ["sda", "sdb"]
    screen.press(b"s")
    assert order() == ["sdb", "sda"]  # by latency, the slowest first
    screen.press(b"r")
    assert order() == ["sda", "sdb"]
    for key, chosen in ((b"j", "sda"), (b"\x1b[B", "sdb"), (b"j", "sda"), (b"k", "sdb")):
        screen.press(key)
        assert screen.selected == chosen
    screen.press(b"\r")
    assert screen.open
    screen.press(b"\x1b")
    assert not screen.open
    for _ in range(4):
        screen.press(b"s")
    assert screen.sort == 0
    screen.press(b"x")
    screen.press(b"q")
    assert screen.done


def test_each_sort_order_puts_the_worst_drive_first(
    kernel: Kernel, clock: Callable[[float], None]
) -> None:
    array = WatchedArray([])
    array.take_snapshot()
    clock(1)
    kernel.goes_on(100, 200, 50)
    screen = Screen()
    screen.rows = array.take_snapshot()
    for title in ("mean us", "p99 us", "refused"):
        screen.press(b"s")
        console = Console(width=160, record=True, file=io.StringIO())
        console.print(screen.draw(160))
        assert f"sorted by {title}" in console.export_text()
        assert [row.drive for row in screen.ordered()] == ["sdb", "sda"]


def test_once_and_json(
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


def _without_size(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without a terminal size, which readline sets."""
    return {name: value for name, value in environment.items() if name not in ("LINES", "COLUMNS")}


#: to the upper left corner, where each drawing begins
HOME = b"\x1b[H"
GIVE_UP_S = 600


#: `linnapp top` that asks, before each look, for the drives to go on
TOP = """
import os, platform, sys
from linnapp.cli import main
from linnapp.drive.snapshots import WatchedArray
ask, told = map(int, sys.argv[1:3])
look = WatchedArray.take_snapshot
def looks(array):
    os.write(ask, b"?")
    os.read(told, 1)
    return look(array)
WatchedArray.take_snapshot = looks
platform.node = lambda: "storage"
sys.argv[1:] = ["top", "--interval", "0.2"]
main()
"""


class Terminal:
    """`linnapp top` in a pseudo-terminal of 120 x 30, and its screen.

    Between any two snapshots the drives serve equally many reads, whatever the machine does.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._screen = pyte.Screen(120, 30)
        self._stream = pyte.ByteStream(self._screen)
        self._ahead = b""
        self.sent = b""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 30, 120, 0, 0))
        self._slave = slave
        self.settings = termios.tcgetattr(slave)
        self._asked, ask = os.pipe()
        told, self._tell = os.pipe()
        self._pipes = (self._asked, ask, told, self._tell)
        self._us, self._revoked = 100.0, 0
        self.looks = 0
        self.process = subprocess.Popen(
            [sys.executable, "-c", TOP, str(ask), str(told)],
            pass_fds=(ask, told),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**_without_size(os.environ), "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"},
            start_new_session=True,
        )

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def line(self, start: str) -> str:
        """Return the line of the screen that begins like this, or an empty one."""
        return next((line for line in self._screen.display if line.startswith(start)), "")

    def until(
        self, seen: Callable[[], object], us: float | None = None, revoked: int | None = None
    ) -> None:
        """Let the drives work and the screen be drawn until `seen` returns true.

        Reads of the last drive take `us` from now on, and `revoked` are refused in each interval.
        Values that are not given stay the same.
        """
        self._us = self._us if us is None else us
        self._revoked = self._revoked if revoked is None else revoked
        end = time.monotonic() + GIVE_UP_S
        while not seen():
            assert time.monotonic() < end, "\n".join(self._screen.display)
            assert self.process.poll() is None, "\n".join(self._screen.display)
            self._read()

    def _read(self) -> None:
        data, self._ahead = self._ahead + self._sent(), b""
        self._stream.feed(data)

    def _sent(self) -> bytes:
        """Return the output since the last call, empty if there is none."""
        ready = select.select([self._master, self._asked], [], [], 0.1)[0]
        if self._asked in ready:
            os.read(self._asked, 1)
            self._kernel.goes_on(100, self._us, self._revoked)
            self.looks += 1
            os.write(self._tell, b"!")
        if self._master not in ready:
            return b""
        data = os.read(self._master, 65536)
        self.sent += data
        return data

    def lines(self) -> list[list[tuple[str, bool, bool, bool]]]:
        """Return the runs of equal style in each line: text, bold, reverse, red."""
        return [
            [
                ("".join(cell.data for cell in run), *style)
                for style, run in itertools.groupby(
                    (self._screen.buffer[number][column] for column in range(120)),
                    lambda cell: (cell.bold, cell.reverse, cell.fg == "red"),
                )
            ]
            for number in range(self._screen.cursor.y + 1)
        ]

    def picture(self) -> str:
        """Return the screen as SVG, in any monospaced font."""
        console = Console(record=True, width=120, file=io.StringIO(), force_terminal=True)
        lines = self.lines()
        while not "".join(run[0] for run in lines[-1]).strip():
            lines.pop()
        for runs in lines:
            line = Text()
            for text, bold, reverse, red in runs:
                style = Style(bold=bold, reverse=reverse, color="red" if red else None)
                line.append(text, style)
            line.rstrip()
            console.print(line)
        svg = console.export_svg(title="linnapp top")
        return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)

    def whole(self) -> None:
        """Read until the current drawing is complete, that is, the next one has begun."""
        end = time.monotonic() + GIVE_UP_S
        while HOME not in self._ahead:
            assert time.monotonic() < end, "\n".join(self._screen.display)
            self._ahead += self._sent()
        drawn, home, rest = self._ahead.partition(HOME)
        self._stream.feed(drawn)
        self._ahead = home + rest

    def ends(self) -> int:
        while self.process.poll() is None:
            self._read()
        self._read()
        return self.process.returncode

    def settings_now(self) -> list[object]:
        return termios.tcgetattr(self._slave)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for fd in (self._master, self._slave, *self._pipes):
            os.close(fd)


@pytest.fixture
def terminal(kernel: Kernel) -> Iterator[Terminal]:
    terminal = Terminal(kernel)
    yield terminal
    terminal.close()


def test_a_session_in_a_terminal(terminal: Terminal) -> None:
    t = terminal
    t.until(lambda: re.match(r"sdb +observe .*▁ +100 ", t.line("sdb")))
    assert re.match(
        r"linnapp top +storage +\d\d:\d\d:\d\d +sorted by drive *$", t.line("linnapp top")
    )
    # A burst on the second drive.
    t.until(lambda: re.search(rf" 500 .*({BURST})", t.line("sdb")), us=500, revoked=80)
    assert "█" in t.line("sdb")
    assert not re.search(r"\d (s|min)", t.line("sda"))  # no burst
    # Sorted by latency it comes first.
    t.press(b"s")
    t.until(lambda: "sorted by mean us" in t.line("linnapp top"), us=500, revoked=80)

    def drives() -> list[str]:
        return [line[:3] for line in t._screen.display if line.startswith("sd")]

    t.until(lambda: drives() == ["sdb", "sda"], us=500, revoked=80)
    # While paused, the screen does not change, although the drives do.
    t.press(b"p")
    t.until(lambda: "paused" in t.line("linnapp top"))
    t.whole()
    before = t.line("sdb")
    looks = t.looks
    t.until(lambda: t.looks > looks + 4, us=900)
    t.whole()
    assert t.line("sdb") == before
    t.press(b"p")
    t.until(lambda: " 900 " in t.line("sdb"), us=900)
    # Chosen with an arrow, and opened.
    t.press(b"\x1b[B\r")
    t.until(lambda: t.line("false_submits"))
    assert t.line("sdb: observe, model ")
    assert t.line("probe_after_revokes 10, probe_after_us 1000") or t.line("probe_after_us 1000")
    assert not t.line("sda")
    t.press(b"\x1b")
    t.until(lambda: t.line("sda"))
    t.press(b"q")
    assert t.ends() == 0
    assert t.settings_now() == t.settings
    # It leaves the alternate screen and shows the cursor again.
    assert t.sent.rindex(b"\x1b[?1049l") > t.sent.rindex(b"\x1b[?1049h")
    assert t.sent.rindex(b"\x1b[?25h") > t.sent.rindex(b"\x1b[?25l")


def test_ctrl_c_ends_it_tidily(terminal: Terminal) -> None:
    terminal.until(lambda: terminal.line("sda"))
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ends() == 0
    assert terminal.settings_now() == terminal.settings
    assert b"Traceback" not in terminal.sent


@pytest.fixture
def array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Three drives of an array."""
    kernel = Kernel(tmp_path, monkeypatch, "nvme0n1 nvme1n1 nvme2n1")
    for drive in kernel.totals:
        (tmp_path / "block" / drive / "linnos" / "mode").write_text("enforce\n")
        (tmp_path / "block" / drive / "linnos" / "model_id").write_text(kernel.model.model_id)
        state.save_upload(drive, kernel.model.model_id)
    terminal = Terminal(kernel)
    yield terminal
    terminal.close()


def kept(name: str, drawn: str) -> str:
    """Return a picture of the docs. LINNOS_PICTURES=docs replaces it first."""
    if "LINNOS_PICTURES" in os.environ:
        (Path(os.environ["LINNOS_PICTURES"]) / name).write_text(drawn)
    return (ROOT / "docs" / name).read_text()


#: the last drive in a burst, where there is no room for the model's age
SLOW = r" 2400 .* [1-9][\d.]* (s|min)\s*$"


def test_picture_in_the_docs_is_up_to_date(array: Terminal) -> None:
    for us in (90, 110, 400, 100, 120, 90, 110):
        shown = rf"nvme2n1 .* {us} "
        array.until(lambda shown=shown: re.search(shown, array.line("nvme2n1")), us)
    array.until(lambda: re.search(SLOW, array.line("nvme2n1")), 2400, 90)
    array.whole()
    picture = array.picture()
    titles = _titles(picture)
    assert {"drive", "revoke/s", "burst", "nvme2n1"} <= titles
    assert titles == _titles(kept("top.svg", picture))


def animated(
    frames: list[tuple[str, list[list[tuple[str, bool, bool, bool]]]]], each_s: float
) -> str:
    """Return an animated SVG of the actions with the screens after them.

    The second frame is shown where animation is disabled.
    """
    n = len(frames)
    tall = max(k for _, lines in frames for k, runs in enumerate(lines, 1) if runs[0][0].strip())
    drawn = []
    for k, (did, lines) in enumerate(frames):
        texts = [f'<text class="did" x="520" y="20">{html.escape(did)}</text>']
        for row, runs in enumerate(lines):
            column = 0
            for text, bold, reverse, red in runs:
                x, y = 10 + 8.5 * column, 50 + 17 * row
                column += len(text)
                if reverse:
                    texts.append(
                        f'<rect x="{x}" y="{y - 13}" width="{8.5 * len(text)}" height="17"/>'
                    )
                elif not text.strip():
                    continue
                else:
                    text = text.rstrip()
                style = " ".join(["b"] * bold + ["h"] * red + ["r"] * reverse)
                words = html.escape(text, quote=False).replace(" ", "\xa0")
                texts.append(
                    f'<text class="{style}" x="{x}" y="{y}" '
                    f'textLength="{8.5 * len(text)}">{words}</text>'
                )
        still = " still" * (k == 1)
        drawn.append(
            f'<g class="frame{still}" style="animation-delay:{(k - n) * each_s:g}s">\n'
            + "\n".join(texts).replace(' class=""', "")
            + "\n</g>"
        )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1040 {40 + 17 * tall}">
<style>
text {{ font: 14px monospace; fill: #c5c8c6 }}
rect {{ fill: #c5c8c6 }}
.b {{ font-weight: bold }}
.h {{ fill: #fb4934 }}
.r {{ fill: #292929 }}
.did {{ font-family: sans-serif; text-anchor: middle; fill: #fabd2f }}
.frame {{ visibility: hidden; animation: turn {n * each_s:g}s step-end infinite }}
.still {{ visibility: visible }}
@keyframes turn {{ 0% {{ visibility: visible }} {100 / n:g}%, 100% {{ visibility: hidden }} }}
@media (prefers-reduced-motion: reduce) {{ .frame {{ animation: none }} }}
</style>
<rect style="fill:#292929" width="1040" height="{40 + 17 * tall}" rx="8"/>
{chr(10).join(drawn)}
</svg>
"""


def test_recording_in_the_docs_is_up_to_date(array: Terminal) -> None:
    """A burst begins; drives are sorted, the screen is paused, a drive is opened; it ends."""
    frames = []

    def frame(did: str, seen: Callable[[], object], us: float = 2400, revoked: int = 90) -> None:
        array.until(seen, us, revoked)
        array.whole()
        frames.append((did, array.lines()))

    def slow(drive: str = "nvme2n1") -> bool:
        return bool(re.search(SLOW, array.line(drive)))

    def order() -> list[str]:
        return [line[:7] for line in array._screen.display if line.startswith("nvme")]

    for us in (90, 110, 100, 120, 90):
        shown = rf"nvme2n1 .* {us} "
        array.until(lambda shown=shown: re.search(shown, array.line("nvme2n1")), us)
    frame("linnapp top", lambda: re.search(" 110 ", array.line("nvme2n1")), 110, 0)
    frame("a burst on nvme2n1", slow)
    array.press(b"s")
    frame("s: sorted by latency", lambda: order()[:1] == ["nvme2n1"] and slow())
    array.press(b"p")
    frame("p: paused", lambda: "paused" in array.line("linnapp top"))
    array.press(b"p\x1b[B")
    frame(
        "p, down: going on, a drive is chosen",
        lambda: any(reverse for runs in array.lines() for _, _, reverse, _ in runs),
    )
    array.press(b"\r")
    frame("Enter: opened", lambda: array.line("false_submits"))
    array.press(b"\x1b")
    frame(
        "Esc: the burst is over",
        lambda: re.search(" 100 .* -", array.line("nvme2n1")) and not slow(),
        100,
        0,
    )
    drawn = animated(frames, 2)
    assert len(drawn) < 40_000
    ET.fromstring(drawn)

    def words(picture: str) -> list[set[str]]:
        return [_titles(each) for each in re.findall(r'<g class="frame.*?</g>', picture, re.S)]

    assert len(words(drawn)) == 7
    assert words(drawn) == words(kept("top-recording.svg", drawn))


def _titles(picture: str) -> set[str]:
    """Return the words of a picture except values and bars."""
    text = html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture)))
    return set(re.findall(r"(?<!\S)[a-zA-Z][a-z/0-9]*(?!\S)", text.replace("\xa0", " ")))


def test_rows_are_what_is_printed(kernel: Kernel, clock: Callable[[float], None]) -> None:
    array = WatchedArray(["sda"])
    array.take_snapshot()
    clock(1)
    (row,) = array.take_snapshot()
    shown = row.to_json()
    assert "latencies_us" not in shown
    assert set(shown) | {"latencies_us", "latency_counts"} == set(DriveRow.__dataclass_fields__)
