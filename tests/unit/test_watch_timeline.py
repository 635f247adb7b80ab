# SPDX-License-Identifier: MIT
"""A session drawn as a page: bars have the right times, names are escaped, nothing is loaded."""

from __future__ import annotations

import html.parser
import stat
from pathlib import Path

import pytest
from test_watch import FOO, call_record, file_record, io_record, run, store_session

from linnapp.errors import LinnappError
from linnapp.insight import query as watch_query
from linnapp.insight.calls import COMPLETED, IN_CALL, WATCHED

MS = 1_000_000


class Page(html.parser.HTMLParser):
    """The page's bars by lane, its elements, and all its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.lanes: dict[str, list[tuple[str, float, float, float]]] = {}
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self._lane: list[tuple[str, float, float, float]] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        self.links += [attributes[name] for name in ("src", "href") if name in attributes]
        if tag == "svg":
            label = attributes.get("aria-label", "").rpartition(":")[0]
            self._lane = self.lanes.setdefault(label, []) if label else None
        elif tag == "rect" and self._lane is not None:
            place = (float(attributes[name]) for name in ("x", "width", "y"))
            self._lane.append((attributes["class"], *place))

    def handle_data(self, data: str) -> None:
        self.text += data


def io(time_ns: int, latency_ns: int, insert_ns: int, issue_ns: int, **fields: int) -> bytes:
    times = {"time_ns": time_ns, "latency_ns": latency_ns}
    flags = IN_CALL | WATCHED | COMPLETED
    return io_record(
        flags, **times, call_time_ns=0, insert_ns=insert_ns, issue_ns=issue_ns, **fields
    )


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """Return 10 ms of I/Os: a read of 4 ms in the middle, and another thread's fsync at the end."""
    store_session(
        tmp_path / "seen" / "first",
        file_record(FOO, b"<script>&\x1b[2J", b"srv"),
        call_record("fstat", FOO, time_ns=0, duration_ns=MS),
        call_record(
            *("read", FOO),
            time_ns=3 * MS,
            duration_ns=4 * MS,
            result=4096,
            waits_ns=(3 * MS, 0, 0, 0, 0, 0),
        ),
        call_record("fsync", FOO, time_ns=9 * MS, duration_ns=MS, tid=8),
        io(3 * MS, 2 * MS, 3 * MS + MS // 2, 4 * MS),
        io(4 * MS, 2 * MS, 0, 4 * MS, priority=2 << 13 | 9 << 3),
        io(6 * MS, MS // 10, 0, 0, decision=2),
        session="first",
    )
    return tmp_path / "seen"


def drawn(folder: Path, *arguments: object) -> Page:
    output = folder.parent / "page.html"
    done = run("query", folder, "--timeline", output, *arguments)
    assert done.exit_code == 0, done.output
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    return Page(output.read_text())


def test_timeline_bars_have_the_recorded_times(seen: Path) -> None:
    page = drawn(seen)
    assert page.lanes == {
        "postgres 7": [("read", 30, 40, 1), ("other", 0, 10, 1)],
        "postgres 8": [("sync", 90, 10, 1)],
        "4095:1": [
            ("plug_ns", 30, 5, 1),
            ("scheduler_ns", 35, 5, 1),
            ("drive_ns", 40, 10, 1),
            ("drive_ns", 40, 20, 11),  # at the same time, so below
            ("revoked", 60, 1, 1),
        ],
    }
    assert "3 calls, 3 block I/Os" in page.text and "Not drawn" not in page.text
    assert "plug 500.0 us, scheduler 500.0 us, drive 1,000.0 us" in page.text
    assert page.text.count(" in read with the tag 9: 2,000.0 us") == 1
    assert "on a CPU 25.0%, its own I/Os 75.0%" in page.text
    # Names are escaped, without control characters; nothing is loaded, and nothing runs.
    assert "/srv/<script>&?[2J" in page.text and "\x1b" not in page.text
    assert "script" not in page.tags and page.links == ["data:,"]


def test_timeline_enlarges_a_window(seen: Path) -> None:
    page = drawn(seen, "--session", "first", "--window", "0.005", "0.0065")
    assert list(page.lanes) == ["postgres 7", "4095:1"]
    assert page.lanes["postgres 7"] == [("read", 0, 100, 1)]
    assert page.lanes["4095:1"][-1] == ("revoked", 66.667, 6.667, 1)
    assert "0.005 s" in page.text and "0.0065 s" in page.text


def test_timeline_refuses_invalid_sessions_and_windows(seen: Path, tmp_path: Path) -> None:
    store_session(watch_query.session_folder(seen, "second"), call_record("read"), session="second")
    output = tmp_path / "page.html"
    for arguments, words in (
        ((), "several sessions; --session names one: first, second"),
        (("--session", "third"), "no session third; --session names one: first, second"),
        (
            ("--session", "first", "--window", 5, 6),
            "no calls in that time; the session took 0.010 s",
        ),
    ):
        refused = run("query", seen, "--timeline", output, *arguments)
        assert isinstance(refused.exception, LinnappError), refused.output
        assert words in str(refused.exception)
    for arguments in (("--session", "first"), ("select 1", "--window", 1, 2)):
        assert run("query", seen, *arguments).exit_code == 2
    assert not output.exists()
