# SPDX-License-Identifier: MIT
"""The exporter's page: its summary of the last hour, and its display in a browser."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from linnapp.drive.latencies import MIDDLE_US, N_BUCKETS
from linnapp.drive.snapshots import DriveRow
from linnapp.insight.hour_page import MINUTES, Hour, Minute, Scale, render

NOW_S = 1_800_000_000.0 // 60 * 60 + 30


def row(drive: str = "sda", **changes: Any) -> DriveRow:
    """Return a snapshot of a drive after five seconds in which 50 reads completed."""
    seen = DriveRow(
        drive=drive,
        mode="enforce",
        interval_s=5.0,
        read_us_mean=120.0,
        read_us_percentiles={},
        reads_per_s=10.0,
        writes_per_s=1.0,
        in_flight=2,
        pending_pages=None,
        per_second={"admitted": 8.0, "revoked": 2.0, "probes": 1.0, "false_submits": 0.5},
        burst_s=None,
        model_id="12345678",
        model_age_s=90.0,
        threshold_us=421,
        latencies_us=[120.0],
        totals={"reads": 50},
        settings={},
    )
    return dataclasses.replace(seen, **changes)


def test_minute_is_the_sum_of_its_snapshots() -> None:
    hour = Hour()
    hour.add([row()], NOW_S)
    hour.add([row(read_us_mean=480.0, reads_per_s=20.0)], NOW_S + 5)
    hour.add([row(read_us_mean=None, reads_per_s=0.0, per_second={})], NOW_S + 10)
    ((last, (minute,)),) = hour.drives().values()
    assert last is not None and last.read_us_mean is None
    assert minute.reads == 150
    assert minute.mean_us == pytest.approx((120 * 50 + 480 * 100) / 150)
    # The kernel counts probes as admitted.
    assert (minute.hinted, minute.refused) == (100, 20)
    assert minute.refused_share == 0.2


def test_minute_has_percentiles_when_the_policy_timed_reads() -> None:
    hour = Hour()
    counts = [0] * N_BUCKETS
    counts[19], counts[40] = 45, 5
    hour.add([row(latency_counts=counts)], NOW_S)
    hour.add([row()], NOW_S + 60)
    ((_, (timed, untimed)),) = hour.drives().values()
    assert (timed.p99_us, untimed.p99_us) == (MIDDLE_US[40], None)


def test_hour_drops_older_minutes() -> None:
    hour = Hour()
    for minute in range(MINUTES + 5):
        hour.add([row("sda")] + ([row("gone")] if minute < 3 else []), NOW_S + 60 * minute)
    (only,) = hour.drives().items()
    assert only[0] == "sda" and len(only[1][1]) == MINUTES
    hour.add([], NOW_S + 60 * (MINUTES + 5))
    assert hour.drives()["sda"][0] is None


def test_a_clock_that_is_set_back_leaves_nothing_in_the_future() -> None:
    hour = Hour()
    hour.add([row()], NOW_S + 86400)
    hour.add([row()], NOW_S)
    hour.add([row()], NOW_S - 40)
    ((_, minutes),) = hour.drives().values()
    assert [(m.minute, m.reads) for m in minutes] == [(NOW_S // 60, 100)]


@pytest.mark.parametrize(
    ("low", "high", "bottom", "top"),
    [(120, 480, 2, 3), (99, 1001, 1, 4), (1000, 1000, 3, 4), (0.5, 3e6, 0, 7)],
)
def test_scale_is_the_shortest_in_decades(low: float, high: float, bottom: int, top: int) -> None:
    scale = Scale.containing([Minute(0, reads=1, mean_us=low), Minute(1, reads=1, mean_us=high)])
    assert (scale.low, scale.high) == (bottom, top)
    assert [words for words, _ in Scale(1, 7).ticks()] == (
        ["10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s"]
    )
    assert 0 <= scale.percent(low) <= scale.percent(high) <= 100


def test_page_leaves_a_gap_where_a_minute_has_no_reads() -> None:
    hour = Hour()
    for minute in (0, 1, 3):
        hour.add([row(read_us_mean=10.0 if minute else 100.0)], NOW_S + 60 * minute)
    html = render(hour, 5.0, NOW_S + 180)
    (path,) = re.findall(r'<path class="mean" d="(.*?)"/>', html)
    assert path == "M94.17 0.00h0L95.83 100.00h0M99.17 100.00h0"


class Outline(HTMLParser):
    """Collects the references of a page and checks that its elements are closed."""

    VOID = frozenset({"meta", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.errors: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.errors.append(tag)


def an_hour() -> Hour:
    """Return an hour of three drives, each with a burst in turn; the last drive is gone."""
    hour = Hour()
    for look in range(60 * 12):
        rows = []
        for k, name in enumerate(("nvme0n1", "nvme1n1", "nvme2n1")):
            slow = look // 60 % 4 == k
            if name == "nvme2n1" and look > 600:
                continue
            rows.append(
                row(
                    name,
                    read_us_mean=(1800.0 if slow else 95.0) * (1 + look * 7 % 10 / 30),
                    per_second={
                        "latency_critical": 45.0 if slow else 5.3,
                        "admitted": 5.0,
                        "revoked": 40.0 if slow else 0.3,
                        "probes": 1.0,
                    },
                    burst_s=2.0 if slow else None,
                )
            )
        hour.add(rows, NOW_S - 3600 + 5 * look)
    return hour


def test_page_is_complete_without_other_files() -> None:
    html = render(an_hour(), 5.0, NOW_S)
    outline = Outline()
    outline.feed(html)
    assert (outline.open, outline.errors) == ([], [])
    assert set(outline.links) == {"data:,", "metrics"}
    assert "http" not in html.replace('http-equiv="refresh"', "") and "<script" not in html
    assert html.count("<svg ") == 3
    assert "This drive is missing now." in html
    for drawing in re.findall(r"<svg .*?</svg>", html, re.DOTALL):
        for element in ET.fromstring(drawing).iter():
            for name in ("x", "y"):
                assert -0.01 <= float(element.get(name, 0)) <= 100
    # In one of four periods of five minutes, all but a tenth of the hinted reads are refused.
    (said,) = re.findall(r'aria-label="nvme1n1, ([^"]*)"', html)
    assert re.search(r"reads took .* on average; \d+ reads refused in 60 minutes", said)
    shares = [float(each) for each in re.findall(r'class="refused".*?height="([\d.]+)"', html)]
    assert 5 <= min(shares) < 6 and 88 <= max(shares) <= 89


def test_now_shows_p99_and_the_refused_share() -> None:
    """Half of the reads are false submits if the threshold is less than the median latency."""
    hour = Hour()
    per_second = {"latency_critical": 10.0, "admitted": 9.8, "revoked": 0.2, "false_submits": 5.4}
    hour.add([row(per_second=per_second, read_us_percentiles={"p50": 87.0, "p99": 143.0})], NOW_S)
    html = render(hour, 5.0, NOW_S)
    assert "p99 143 us;" in html and "2.0 % refused;" in html
    assert "false submits" not in html and "5.4" not in html


def test_names_are_escaped() -> None:
    hour = Hour()
    hour.add([row("<script>x</script>", model_id='"><b>')], NOW_S)
    html = render(hour, 5.0, NOW_S)
    assert "<script>" not in html and "<b>" not in html and "&lt;script&gt;" in html


def test_page_without_snapshots_says_so() -> None:
    assert "No values yet" in render(Hour(), 5.0, NOW_S)


CHROMIUM = shutil.which("chromium")


def browsed(tmp_path: Path, dark: bool, *arguments: str) -> str:
    """Return the output of headless chromium for `frame.html`."""
    assert CHROMIUM is not None
    ran = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--allow-file-access-from-files",
            f"--user-data-dir={tmp_path}/profile",
            "--virtual-time-budget=3000",
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
            *arguments,
            f"file://{tmp_path}/frame.html",
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return ran.stdout


@pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed (packaging/apt/chromium.txt)"
)
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1100])
def test_page_works_in_a_browser(tmp_path: Path, dark: bool, width: int) -> None:
    """The page uses the requested colours and nothing is wider than the window."""
    probe = (
        "<script>addEventListener('load', () => { document.title = [innerWidth, "
        "document.documentElement.scrollWidth, document.body.parentNode.offsetHeight, "
        "getComputedStyle(document.body).backgroundColor, "
        "[...document.querySelectorAll('svg')].map(s => s.clientHeight)].join(' ') })"
        "</script>"
    )
    # A frame, because a window of chromium cannot be as narrow as a phone.
    (tmp_path / "page.html").write_text(
        render(an_hour(), 5.0, NOW_S).replace("</body>", probe + "</body>")
    )
    (tmp_path / "frame.html").write_text(
        f'<body style="margin:0"><iframe src="page.html" style="width:{width}px;height:2000px;'
        'border:0"></iframe><script>onload = () => setTimeout(() => document.title = '
        "frames[0].document.title, 200)</script>"
    )
    dumped = browsed(tmp_path, dark, "--window-size=1300,2200", "--dump-dom")
    title = re.search(r"<title>(.*?)</title>", dumped)
    assert title, dumped[:2000]
    inner, scrolled, _, *colour, heights = title[1].replace(", ", ",").split(" ")
    assert int(inner) == width and int(scrolled) <= width
    assert colour == (["rgb(20,23,26)"] if dark else ["rgb(255,255,255)"])
    assert len(heights.split(",")) == 3 and min(map(int, heights.split(","))) > 100
