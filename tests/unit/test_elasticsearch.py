# SPDX-License-Identifier: MIT
"""Test that each document reaches Elasticsearch once, also when requests fail.

A fake server produces failures that a real one does not produce on request: overload, broken
connections, another product. tests/elasticsearch/ uses a real server.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from fake_elasticsearch import FakeServer, running
from test_watch import FOO, call_record, file_record, io_record, run, store_session

from linnapp.errors import LinnappError
from linnapp.insight import calls, documents, elastic
from linnapp.insight import query as watch_query
from linnapp.insight.calls import COUNTS, Reader, Store, call_names
from linnapp.insight.elastic import Server
from linnapp.insight.live import Live
from linnapp.insight.query import query

ALLOWED = {"ELASTIC_API_KEY": "a secret key"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    with running(monkeypatch) as server:
        yield server


def recorded(folder: Path, n: int = 25, session: str | None = None) -> Path:
    in_call = calls.IN_CALL | calls.COMPLETED
    return store_session(
        folder,
        file_record(FOO, b'a "\n\\ name', b"srv"),
        *(call_record("pwrite64", FOO, time_ns=10**18 + k, result=100) for k in range(n)),
        io_record(in_call, call="pwrite64", decision=1),
        session=session,
    )


def sent(folder: Path, server: FakeServer, *more: object) -> Result:
    return run("query", folder, "--elasticsearch", server.url, *more)


def test_send_stores_each_row_with_the_columns_as_fields(
    server: FakeServer, tmp_path: Path
) -> None:
    folder = recorded(tmp_path / "seen")
    done = sent(folder, server)
    assert done.exit_code == 0, (done.output, done.exception)
    assert done.stdout == f"{server.url}: 26 documents sent\n"
    name = watch_query.recording(folder)["recording"]
    assert sorted(server.documents) == sorted(
        [*(f"{name}-calls-{k}" for k in range(25)), f"{name}-ios-0"]
    )
    document = server.documents[f"{name}-calls-7"]
    assert document == {
        **{"@timestamp": "2001-09-09T01:46:40.000000007Z", "time_ns": 10**18 + 7},
        **{"recording": name, "host": os.uname().nodename, "session": None, "duration_ns": 5},
        **{"pid": 7, "tid": 7, "process": "postgres", "call": "pwrite64", "fd": 3},
        **{"path": '/srv/a "\n\\ name', "to_path": None, "file_offset": None, "bytes": None},
        **{"result": 100, "kind": "file", "device": "4095:1", "inode": 12},
        **{"first_access_ns": 10**18, "arguments": None},
        **{"content_hash": None, "hashed_bytes": None},
        **{part: 5 if part == "on_cpu_ns" else 0 for part in calls.PARTS},
    }
    mappings = documents.mappings()
    for table in calls.TABLES:
        assert set(server.documents[f"{name}-{table}-0"]) == set(mappings[table])
    [report] = server.reports
    assert set(report) == set(mappings["recordings"])
    assert report["calls"] == 25 and report["ios"] == 1 and report["documents"] == 26
    # The fields are defined before the first document is sent.
    assert server.seen.index(("PUT", "/_index_template/linnapp-ios")) < server.seen.index(
        ("PUT", "/linnapp-calls/_bulk")
    )
    again = sent(folder, server)
    assert again.stdout == f"{server.url}: 0 documents sent, 26 were there already\n"


@pytest.mark.parametrize(
    ("faults", "largest"),
    [
        ([429, 503, 502], None),
        (["break off", "break off"], None),
        ([[0, 1, 2, 24], [3], [0]], None),
        ([429, [5], "break off", [0, 1]], None),
        (["break off late"], None),
        # Requests that are too large are split.
        ([[0], 429, [1], "break off"], 1500),
    ],
)
def test_send_repeats_temporary_failures(
    server: FakeServer, tmp_path: Path, faults: list[Any], largest: int | None
) -> None:
    server.faults = list(faults)
    server.largest = largest or server.largest
    done = sent(recorded(tmp_path / "seen"), server, "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    answer = json.loads(done.stdout)
    assert len(server.documents) == 26 and not server.faults
    assert answer["created"] + answer["there_already"] == 26 and not answer["left"]
    if "break off late" not in faults:
        assert answer["created"] == 26


FLOOD = (
    "index [linnapp-calls] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage "
    "watermark, index has read-only-allow-delete block];"
)


BLOCK = "cluster_block_exception"
READ_ONLY = "index [linnapp-calls] blocked by: [FORBIDDEN/8/index write (api)];"
#: The status and the error of each document, and what becomes of the documents.
OUTCOMES = [
    (400, "x", "[1:75] mapping set to strict, dynamic introduction of [x] is not", "refused"),
    (400, "x", "failed to parse field [time_ns] of type [ip]", "refused"),
    (403, "x", "action [indices:data/write/bulk[s]] is unauthorized for API key id", "left"),
    (404, "x", "no such index [linnapp-calls] and [action.auto_create_index] is [false]", "left"),
    (503, "unavailable_shards_exception", "primary shard is not active", "left, after tries"),
    (429, "es_rejected_execution_exception", "rejected execution of", "left, after tries"),
    (429, BLOCK, FLOOD, "left: free space on the disks"),
    (403, BLOCK, READ_ONLY, "left: remove that block first"),
]


@pytest.mark.parametrize(("status", "kind", "reason", "outcome"), OUTCOMES)
def test_send_reports_the_reason_and_keeps_documents_that_could_be_stored_later(
    server: FakeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    kind: str,
    reason: str,
    outcome: str,
) -> None:
    monkeypatch.setattr(elastic, "_RETRY_LIMIT_S", 0.05)
    server.of_each = (status, {"type": kind, "reason": f"\x1b[2J{reason}\n"})
    done = sent(recorded(tmp_path / "seen"), server)
    assert done.exit_code == 1
    tried = server.seen.count(("PUT", "/linnapp-calls/_bulk"))
    assert (tried > 1) == ("tries" in outcome)
    if outcome == "refused":
        assert f"26 documents were refused: ?[2J{reason}\n" in done.stdout
        return
    assert f"26 documents were not sent: {server.url}: 25 documents: ?[2J{reason}" in done.stderr
    assert (f"; tried {tried} times" in done.stderr) == (tried > 1)
    assert outcome.partition(": ")[2] in done.stderr
    server.of_each = None
    assert sent(tmp_path / "seen", server).exit_code == 0 and len(server.documents) == 26


def test_send_reports_documents_that_were_refused_too_large_or_left(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = recorded(tmp_path / "seen")
    server.largest = 560  # only the document of the I/O is smaller
    done = sent(folder, server)
    assert done.exit_code == 1 and f"{server.url}: 1 documents sent" in done.stdout
    assert "25 documents were refused: too large for the server (413): " in done.stdout
    server.largest, server.faults = 1 << 30, ["refuse one"]
    done = sent(folder, server)
    assert "1 documents were refused: no: field is a word" in done.stdout
    monkeypatch.setattr(elastic, "_RETRY_LIMIT_S", 0.0)
    server.documents.clear()
    server.faults = [503]
    done = sent(folder, server)
    assert done.exit_code == 1 and "26 documents were not sent" in done.stderr
    assert "_bulk: status 503: busy; the same command sends the rest" in done.stderr


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/_index_template/", 400, "matching patterns from existing templates [all]"),
        ("/linnapp-calls", 400, "Invalid index name [linnapp-calls], already exists as alias"),
        ("/linnapp-calls", 403, "action [indices:admin/create] is unauthorized for user [u]"),
        ("/linnapp-calls", 429, FLOOD),
        ("/linnapp-calls", 301, "https://x/"),
        ("/linnapp-calls", 401, "unable to authenticate user [u] for REST request"),
    ],
)
def test_prepare_reports_the_request_and_the_reason_when_refused(
    server: FakeServer, path: str, status: int, reason: str
) -> None:
    kind = BLOCK if reason == FLOOD else "x"
    server.puts[path] = [(status, {"error": {"type": kind, "reason": reason}})]
    with pytest.raises(LinnappError) as raised:
        documents.prepare(Server(server.url, {}))
    assert reason in str(raised.value)
    assert f"PUT {path}" in str(raised.value) or status in (401, 429)


def test_prepare_omits_settings_on_a_serverless_project(server: FakeServer) -> None:
    reason = "Settings [index.auto_expand_replicas] are not available when running in serverless"
    server.puts["/_index_template/linnapp-calls"] = [(400, {"error": {"reason": reason}})]
    documents.prepare(Server(server.url, {}))
    assert server.seen.count(("PUT", "/_index_template/linnapp-calls")) == 2


def test_send_selects_a_session_or_all(server: FakeServer, tmp_path: Path) -> None:
    for session, n in (("before", 3), ("after", 5)):
        recorded(tmp_path / "seen" / session, n, session)
    sent(tmp_path / "seen", server, "--session", "after")
    assert Counter(each["session"] for each in server.documents.values()) == {"after": 6}
    sent(tmp_path / "seen", server)
    assert Counter(each["session"] for each in server.documents.values()) == {
        "after": 6,
        "before": 4,
    }
    refused = sent(tmp_path / "seen", server, "--session", "x")
    assert isinstance(refused.exception, LinnappError) and "x" in str(refused.exception)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        *((url, "--elasticsearch: ") for url in ("127.0.0.1:9200", "ftp://x", "http://")),
        *((url, "--elasticsearch: ") for url in ("http://u:secret@[::1", "http://x:99999")),
        *((url, "--elasticsearch: not a URL: ") for url in ("http://a..b", "http://u:secret@x/ä")),
        ("http://u:secret@127.0.0.1:1", r"^http://127.0.0.1:1: connection refused"),
        ("http://u:secret@name.invalid", r"^http://name.invalid:9200: "),
    ],
)
def test_addresses_without_a_server_are_named_without_secrets(url: str, message: str) -> None:
    with pytest.raises(LinnappError, match=message) as error:
        documents.prepare(Server(url, {}))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ((401, {}), r"the server needs a user \(401\); set ELASTIC_API_KEY"),
        ((403, {"error": {"type": "security", "reason": "no"}}), r"may not do that \(403\): no; "),
        ((503, {"error": {"type": "x", "reason": "none"}}), "status 503: none"),
        ((200, {"version": {"number": "7.17.0"}}), "is Elasticsearch 7.17.0; version 8 or later"),
        ((400, {"error": {"type": "media_type_header_exception"}}), "older than Elasticsearch 8"),
        ((405, {"error": "Incorrect HTTP method for uri [/]"}), ""),  # without a root endpoint
    ],
)
def test_check_says_why_a_server_cannot_be_used(
    server: FakeServer, root: tuple[int, Any], message: str
) -> None:
    server.root = root
    if not message:
        Server(server.url, {}).check()
        return
    with pytest.raises(LinnappError, match=message):
        Server(server.url, {}).check()
    if root[0] == 401:
        with pytest.raises(LinnappError, match="refuses the key or the password"):
            Server(server.url, ALLOWED).check()


def test_servers_that_are_not_elasticsearch_or_use_tls_are_named(server: FakeServer) -> None:
    with pytest.raises(LinnappError, match="no TLS: "):
        Server(server.url.replace("http:", "https:"), {}).check()
    server.root = (200, {"version": {"number": "2.11.0", "distribution": "opensearch"}})
    server.is_elasticsearch = False
    with pytest.raises(LinnappError, match=r"the server \(200\) is not Elasticsearch 8 or later"):
        Server(server.url, {}).check()


def test_check_refuses_an_untrusted_certificate(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", tmp_path / "key", "-out", tmp_path / "certificate"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = f"https://localhost:{server.server_port}"
    with pytest.raises(LinnappError, match=r"cannot be trusted: self.signed .*SSL_CERT_FILE"):
        Server(url, {}).check()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate"))
    Server(url, {}).check()
    with pytest.raises(LinnappError, match="cannot be trusted"):
        Server(url.replace("localhost", "127.0.0.1"), {}).check()


def test_credentials_are_sent_and_never_shown(server: FakeServer, tmp_path: Path) -> None:
    for url, environment, authorization in (
        ("http://", ALLOWED, "ApiKey a secret key"),
        ("http://u:p%40ss@", {}, "Basic dTpwQHNz"),
        ("http://u@", {"ELASTIC_PASSWORD": "p@ss"}, "Basic dTpwQHNz"),
        ("http://", {"ELASTIC_PASSWORD": "p@ss"}, "Basic ZWxhc3RpYzpwQHNz"),
        ("http://u@", {"ELASTIC_PASSWORD": "p\udce4"}, "Basic dTpw5A=="),
        ("http://", {}, None),
    ):
        server.authorization.clear()
        client = Server(server.url.replace("http://", url), environment)
        client.check()
        assert server.authorization == {authorization}
        assert client.name == server.url and not client.sends_plain_password
    assert Server("http://u:p@example.org", {}).sends_plain_password
    assert not Server("https://u:p@example.org", {}).sends_plain_password
    assert Server("https://example.org/es/", {}).name == "https://example.org:9200/es"
    done = run("query", recorded(tmp_path / "seen"), "--elasticsearch",
               server.url.replace("//", "//u:secret@"))  # fmt: skip
    assert done.exit_code == 0 and "secret" not in done.output
    assert "secret" not in (tmp_path / "seen" / "recording.json").read_text()


def test_kibana_dashboard_uses_existing_fields(tmp_path: Path) -> None:
    done = run("dashboard", "kibana", "-o", tmp_path / "dashboard.ndjson")
    assert done.exit_code == 0 and not done.output
    lines = (tmp_path / "dashboard.ndjson").read_text().splitlines()
    objects = {each["id"]: each for each in map(json.loads, lines)}
    fields = documents.mappings()
    for each in objects.values():
        for reference in each["references"]:
            assert objects[reference["id"]]["type"] == reference["type"]
        if each["type"] == "visualization":
            [index] = [reference["id"] for reference in each["references"]]
            state = json.loads(each["attributes"]["visState"])
            used = {agg["params"]["field"] for agg in state["aggs"] if "field" in agg["params"]}
            assert used <= set(fields[index.removeprefix("linnapp-")]), each["attributes"]["title"]
    panels = json.loads(objects["linnapp-watch"]["attributes"]["panelsJSON"])
    assert len(panels) == len(objects) - 3 > 10
    assert json.loads(run("dashboard", "grafana").output)["title"]


IDENTITY = {"recording": "r", "host": "h"}
NO_COUNTS = dict.fromkeys(COUNTS, 0)


class Recorder:
    """Feed synthetic calls to a store that sends them to a server."""

    def __init__(self, place: Path, url: str) -> None:
        self.place, self.messages = place, list[str]()
        server = Server(url, {})
        documents.prepare(server)
        self.live = Live(server, place, IDENTITY, "s", self.messages.append)
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


def test_documents_are_stored_while_the_recording_runs(server: FakeServer, tmp_path: Path) -> None:
    with Recorder(tmp_path, server.url) as recorder:
        for k in range(1, 4):
            recorder.record(100)
            wait_until(lambda k=k: len(server.documents) == 101 * k)
        outcome = recorder.finish()
    assert (outcome.created, outcome.left, outcome.why) == (303, 0, None)
    assert outcome.delay_ms["p50"] <= outcome.delay_ms["p99"] <= outcome.delay_ms["max"]
    assert not recorder.spooled() and not recorder.messages
    # The tables have the same rows, under the same numbers.
    for row, (result, path) in enumerate(
        query(tmp_path / "seen", "select result, path from calls")[1]
    ):
        document = server.documents[f"r-calls-{row}"]
        assert (document["result"], document["path"]) == (result, path) == (row, "/srv/log")
    assert server.reports[-1]["documents"] == 303 and server.reports[-1]["session"] == "s"
    sent_again = run("query", tmp_path / "seen", "--elasticsearch", server.url)
    assert "0 documents sent, 303 were there already" in sent_again.output


@pytest.mark.parametrize("fault", [(403, "cluster_block_exception"), 503], ids=str)
def test_documents_wait_on_the_disk_while_the_server_fails(
    server: FakeServer, tmp_path: Path, fault: Any
) -> None:
    with Recorder(tmp_path, server.url) as recorder:
        if isinstance(fault, tuple):
            server.of_each = (fault[0], {"type": fault[1], "reason": "[read-only]"})
        else:
            server.faults = [fault] * 1_000_000
        for _ in range(20):
            recorder.record(50)
        wait_until(lambda: recorder.messages)
        assert recorder.spooled() == 40 and not server.documents
        server.of_each, server.faults = None, []
        wait_until(lambda: len(recorder.messages) == 2)
        outcome = recorder.finish()
    assert outcome.created == len(server.documents) == 1020 and not outcome.left
    assert "recorded rows wait on the disk" in recorder.messages[0]
    assert recorder.messages[1] == f"{server.url}: stores documents again"


def test_documents_that_were_not_sent_or_refused_are_counted_and_can_be_sent_later(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elastic, "_RETRY_LIMIT_S", 0.0)
    with Recorder(tmp_path, server.url) as recorder:
        server.faults = ["refuse one"]
        recorder.record(10)
        wait_until(lambda: len(server.documents) == 10)
        server.faults = [503] * 1_000_000
        recorder.record(20)
        outcome = recorder.finish()
    assert (outcome.created, outcome.left, outcome.refused.total()) == (10, 21, 1)
    assert "status 503: busy" in (outcome.why or "")
    server.faults = []
    later = run("query", tmp_path / "seen", "--elasticsearch", server.url)
    assert later.output == f"{server.url}: 22 documents sent, 10 were there already\n"
    assert server.reports[-1]["documents"] == 32 and server.reports[-1]["left_over"] == 0


def test_rows_that_do_not_fit_the_spool_are_counted(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


WRITES = "import os, sys, time\nf = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n"


@pytest.mark.usefixtures("can_watch")
def test_a_call_is_on_the_server_before_the_program_ends(
    server: FakeServer, tmp_path: Path
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
    result = run(
        *("watch", "--elasticsearch", server.url, "--call", "write", "--json", "--"),
        *(sys.executable, "-S", "-E", "-c", program, mark, done),
    )
    thread.join()
    assert result.exit_code == 0, (result.output, result.exception)
    assert written() == [5, 6]
    found = json.loads(result.stdout)
    assert found["elasticsearch"]["created"] == found["calls"] + found["ios"]["in_calls"]["ios"]


@pytest.mark.usefixtures("can_watch")
def test_tables_are_kept_without_an_output_folder_if_documents_are_missing(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(elastic, "_RETRY_LIMIT_S", 0.0)
    server.faults = [503] * 1_000_000
    program = WRITES + "os.write(f, b'first')\n"
    result = run(
        *("watch", "--elasticsearch", server.url, "--"),
        *(sys.executable, "-S", "-E", "-c", program, tmp_path / "mark"),
    )
    assert result.exit_code == 1
    [tables] = tmp_path.glob("linnapp-*/watched")
    assert f"`linnapp query {tables} --elasticsearch URL` sends them" in result.stderr
    server.faults = []
    assert run("query", tables, "--elasticsearch", server.url).exit_code == 0
    [[n]] = query(tables, "select (select count(*) from calls) + (select count(*) from ios)")[1]
    assert len(server.documents) == n > 0
