# SPDX-License-Identifier: MIT
"""The exporter's page: its summary of the last hour, and its display in a browser."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from linnapp.drive.latencies import MIDDLE_US, N_BUCKETS
from linnapp.drive.snapshots import DriveRow
from linnapp.insight.hour_page import MINUTES, Hour, render

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
        per_second={"admitted": 8.0, "revoked": 2.0, "probes": 1.0, "false_submits": 0.5},
        burst_s=None,
        model_id="12345678",
        model_age_s=90.0,
        threshold_us=421,
        latencies_us=[120.0],
        totals={"reads": 50},
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


def test_page_shows_p99_and_the_refused_share_of_each_minute_and_now() -> None:
    hour = Hour()
    counts = [0] * N_BUCKETS
    counts[19], counts[40] = 45, 5
    hour.add([row(latency_counts=counts)], NOW_S)
    per_second = {"latency_critical": 10.0, "admitted": 9.8, "revoked": 0.2}
    now = row(per_second=per_second, read_us_percentiles={"p50": 87.0, "p99": 143.0})
    hour.add([now], NOW_S + 60)
    ((_, (timed, untimed)),) = hour.drives().values()
    assert (timed.p99_us, untimed.p99_us) == (MIDDLE_US[40], None)
    html = render(hour, 5.0, NOW_S + 60)
    assert "p99 143 us;" in html and "2.0 % refused;" in html


def test_page_leaves_a_gap_where_a_minute_has_no_reads() -> None:
    hour = Hour()
    for minute in (0, 1, 3):
        hour.add([row(read_us_mean=10.0 if minute else 100.0)], NOW_S + 60 * minute)
    (path,) = re.findall(r'<path class="mean" d="(.*?)"/>', render(hour, 5.0, NOW_S + 180))
    assert path == "M94.17 0.00h0L95.83 100.00h0M99.17 100.00h0"


def test_hour_drops_minutes_older_than_an_hour() -> None:
    hour = Hour()
    for minute in range(MINUTES + 5):
        hour.add([row("sda")] + ([row("gone")] if minute < 3 else []), NOW_S + 60 * minute)
    (only,) = hour.drives().items()
    assert only[0] == "sda" and len(only[1][1]) == MINUTES
    hour.add([], NOW_S + 60 * (MINUTES + 5))
    assert hour.drives()["sda"][0] is None
    assert "No values yet" in render(Hour(), 5.0, NOW_S)


def test_a_clock_that_is_set_back_leaves_nothing_in_the_future() -> None:
    hour = Hour()
    hour.add([row()], NOW_S + 86400)
    hour.add([row()], NOW_S)
    hour.add([row()], NOW_S - 40)
    ((_, minutes),) = hour.drives().values()
    assert [(m.minute, m.reads) for m in minutes] == [(NOW_S // 60, 100)]


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
    assert set(re.findall(r'(?:href|src)="([^"]*)"', html)) == {"data:,", "metrics"}
    assert "http" not in html.replace('http-equiv="refresh"', "") and "<script" not in html
    assert html.count("<svg ") == 3
    assert "This drive is missing now." in html
    for drawing in re.findall(r"<svg .*?</svg>", html, re.DOTALL):
        for element in ET.fromstring(drawing).iter():
            for name in ("x", "y"):
                assert -0.01 <= float(element.get(name, 0)) <= 100
    # In one of four periods of five minutes, all but a tenth of the hinted reads are refused.
    (label,) = re.findall(r'aria-label="nvme1n1, ([^"]*)"', html)
    assert re.search(r"reads took .* on average; \d+ reads refused in 60 minutes", label)
    shares = [float(each) for each in re.findall(r'class="refused".*?height="([\d.]+)"', html)]
    assert 5 <= min(shares) < 6 and 88 <= max(shares) <= 89


def test_page_escapes_drive_names() -> None:
    hour = Hour()
    hour.add([row("<script>x</script>", model_id='"><b>')], NOW_S)
    html = render(hour, 5.0, NOW_S)
    assert "<script>" not in html and "<b>" not in html and "&lt;script&gt;" in html
