# SPDX-License-Identifier: MIT
"""Test that rows reach a server while they are recorded, and that none is lost if it fails.

The server is a fake one; tests/elasticsearch/ repeats this with a real
one that is stopped, blocked and restarted.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_elasticsearch import FakeServer, running
from running import run
from test_elasticsearch import FLOOD
from test_watch import FOO, call_record, file_record, io_record

from linnapp.errors import LinnappError
from linnapp.insight import calls, documents, elastic
from linnapp.insight import watch as watching
from linnapp.insight.calls import COUNTS, Reader, Store, call_names
from linnapp.insight.elastic import Server
from linnapp.insight.live import Live
from linnapp.insight.query import query

IDENTITY = {"recording": "r", "host": "h"}
NO_COUNTS = dict.fromkeys(COUNTS, 0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    with running(monkeypatch) as server:
        yield server


class Recorder:
    """Feed made-up calls to a store that sends them to a server."""

    def __init__(self, place: Path, url: str) -> None:
        self.place, self.said = place, list[str]()
        server = Server(url, {})
        documents.prepare(server)
        self.live = Live(server, place, IDENTITY, "s", self.said.append)
        self.n = 0

    def __enter__(self) -> Recorder:
        self.live.__enter__()
        self.reader = Reader(rows=10_000).__enter__()
        folder = self.place / "seen"
        folder.mkdir()
        self.store = Store(
            folder, call_names(), self.reader.name, "s", live=self.live.put
        ).__enter__()
        self.reader.feed(file_record(FOO, b"log", b"srv"))
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.__exit__()
        self.live.__exit__()

    def record(self, n: int) -> None:
        now = time.time_ns()
        for k in range(self.n, self.n + n):
            self.reader.feed(call_record("write", FOO, time_ns=now + k, result=k))
        self.reader.feed(io_record(calls.COMPLETED))
        self.n += n
        self.store.add(*self.reader.take())

    def finish(self) -> elastic.Outcome:
        self.store.finish({**IDENTITY, "session": "s", "seconds": 1.0, **NO_COUNTS})
        return self.live.finish(NO_COUNTS)

    def spooled(self) -> int:
        return len(list(self.place.glob(".linnapp-spool-*/*")))


def wait_until(is_true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_documents_are_stored_while_the_recording_runs(
    server: FakeServer,
    tmp_path: Path,
) -> None:
    with Recorder(tmp_path, server.url) as recorder:
        for k in range(1, 4):
            recorder.record(100)
            wait_until(lambda k=k: len(server.documents) == 101 * k)
        outcome = recorder.finish()
    assert (outcome.created, outcome.left, outcome.why) == (303, 0, None)
    assert outcome.delay_ms["p50"] <= outcome.delay_ms["p99"] <= outcome.delay_ms["max"]
    assert not recorder.spooled() and not recorder.said
    # The tables have the same rows, under the same numbers.
    for row, (result, path) in enumerate(
        query(tmp_path / "seen", "select result, path from calls")[1]
    ):
        document = server.documents[f"r-calls-{row}"]
        assert (document["result"], document["path"]) == (result, path) == (row, "/srv/log")
    assert server.reports[-1]["documents"] == 303 and server.reports[-1]["session"] == "s"
    sent_again = run("query", tmp_path / "seen", "--elasticsearch", server.url)
    assert "0 documents sent, 303 were there already" in sent_again.output


BLOCK = {
    "type": "cluster_block_exception",
    "reason": "index [linnapp-calls] blocked by: [read-only]",
}
FULL = {"type": "cluster_block_exception", "reason": FLOOD}


@pytest.mark.parametrize(
    "fault",
    [
        (403, BLOCK),
        (429, FULL),
        (429, {"type": "es_rejected_execution_exception", "reason": "rejected execution"}),
        (503, {"type": "unavailable_shards_exception", "reason": "primary shard is not active"}),
        (404, {"type": "index_not_found_exception", "reason": "no such index"}),
        "break off",
        503,
        401,
    ],
    ids=str,
)
def test_documents_wait_on_the_disk_while_the_server_fails(
    server: FakeServer,
    tmp_path: Path,
    fault: Any,
) -> None:
    with Recorder(tmp_path, server.url) as recorder:
        if isinstance(fault, tuple):
            server.of_each = fault
        else:
            server.faults = [fault] * 1_000_000
        for _ in range(20):
            recorder.record(50)
        wait_until(lambda: recorder.said)
        assert recorder.spooled() == 40 and not server.documents
        server.of_each, server.faults = None, []
        wait_until(lambda: len(recorder.said) == 2)
        outcome = recorder.finish()
    assert outcome.created == len(server.documents) == 1020 and not outcome.left
    assert "what is recorded waits on the disk" in recorder.said[0]
    assert recorder.said[1] == f"{server.url}: stores documents again"


def test_documents_that_were_not_sent_are_counted_and_can_be_sent_later(
    server: FakeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elastic, "_RETRY_LIMIT_S", 0.0)
    with Recorder(tmp_path, server.url) as recorder:
        recorder.record(10)
        wait_until(lambda: len(server.documents) == 11)
        server.faults = [503] * 1_000_000
        recorder.record(20)
        outcome = recorder.finish()
    assert (outcome.created, outcome.left) == (11, 21)
    assert "status 503: busy" in (outcome.why or "")
    server.faults = []
    later = run("query", tmp_path / "seen", "--elasticsearch", server.url)
    assert later.output == f"{server.url}: 21 documents sent, 11 were there already\n"
    assert server.reports[-1]["documents"] == 32 and server.reports[-1]["left_over"] == 0


def test_rows_that_do_not_fit_the_spool_are_counted(
    server: FakeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Recorder(tmp_path, server.url) as recorder:
        recorder.record(10)
        with monkeypatch.context() as patch:
            patch.setattr(recorder.live, "_path", lambda _: Path("/dev/full"))
            patch.setattr(Path, "unlink", lambda *_, **__: None)
            recorder.record(10)
        recorder.record(10)
        outcome = recorder.finish()
    assert (outcome.created, outcome.left) == (22, 11)
    assert "the spool: No space left on device" in (outcome.why or "")
    assert server.reports[-1]["left_over"] == 11
    assert {int(name.split("-")[-1]) for name in server.documents if "calls" in name} == {
        *range(10),
        *range(20, 30),
    }


def test_refused_documents_are_in_the_report(
    server: FakeServer,
    tmp_path: Path,
) -> None:
    with Recorder(tmp_path, server.url) as recorder:
        server.faults = ["refuse one"]
        recorder.record(10)
        outcome = recorder.finish()
    assert outcome.refused.total() == 1 and outcome.created == 10
    assert server.reports[-1]["refused"] == 1


@pytest.fixture
def watching_works() -> None:
    try:
        watching.check_can_watch()
    except LinnappError as error:
        pytest.skip(f"this machine does not allow watching: {error}")


WRITES = "import os, sys, time\nf = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n"


@pytest.mark.usefixtures("watching_works")
def test_a_call_is_on_the_server_before_the_program_ends(
    server: FakeServer,
    tmp_path: Path,
) -> None:
    mark, done = tmp_path / "mark", tmp_path / "done"
    program = WRITES + (
        "os.write(f, b'first')\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.01)\n"
        "os.write(f, b'second')\n"
    )

    def written() -> list[Any]:
        found = [each for each in server.documents.values() if each.get("path") == str(mark)]
        return [each["result"] for each in found if each["call"] == "write"]

    def end_program() -> None:
        wait_until(lambda: written() == [5])
        done.touch()

    thread = threading.Thread(target=end_program)
    thread.start()
    ran = run(
        *("watch", "--elasticsearch", server.url, "--call", "write", "--json", "--"),
        *(sys.executable, "-S", "-E", "-c", program, mark, done),
    )
    thread.join()
    assert ran.exit_code == 0, (ran.output, ran.exception)
    assert written() == [5, 6]
    found = json.loads(ran.stdout)
    assert found["elasticsearch"]["created"] == found["calls"] + found["ios"]["in_calls"]["ios"]


@pytest.mark.usefixtures("watching_works")
def test_tables_are_kept_without_an_output_folder_if_documents_are_missing(
    server: FakeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(elastic, "_RETRY_LIMIT_S", 0.0)
    server.faults = [503] * 1_000_000
    program = WRITES + "os.write(f, b'first')\n"
    ran = run(
        *("watch", "--elasticsearch", server.url, "--"),
        *(sys.executable, "-S", "-E", "-c", program, tmp_path / "mark"),
    )
    assert ran.exit_code == 1
    [kept] = tmp_path.glob("linnapp-*/watched")
    assert f"`linnapp query {kept} --elasticsearch URL` sends them" in ran.stderr
    server.faults = []
    assert run("query", kept, "--elasticsearch", server.url).exit_code == 0
    [[n]] = query(kept, "select (select count(*) from calls) + (select count(*) from ios)")[1]
    assert len(server.documents) == n > 0
