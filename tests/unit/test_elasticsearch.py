# SPDX-License-Identifier: MIT
"""What is sent to Elasticsearch arrives once, whatever the server does meanwhile.

The servers here are made up, for what a real one does not do when it is asked to: refuse for a
moment, break off, be another one. tests/elasticsearch/ has a real one.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from click.testing import Result
from test_watch import FOO, call_record, file_record, io_record, run, stored

from linnapp.errors import LinnappError
from linnapp.insight import calls, elastic
from linnapp.insight import query as watch_query
from linnapp.insight.elastic import Server

ALLOWED = {"ELASTIC_API_KEY": "a key that nobody sees"}


class MadeUp(http.server.ThreadingHTTPServer):
    """Answers as Elasticsearch does; `faults` are done first, one a bulk request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.documents: dict[str, Any] = {}
        self.faults: list[Any] = []
        self.seen: list[tuple[str, str]] = []
        self.authorization: set[str | None] = set()
        self.root: tuple[int, Any] = (200, {"version": {"number": "8.19.4"}})
        self.largest = 1 << 30
        #: answers to PUT requests, by the beginning of their paths
        self.puts: dict[str, list[tuple[int, Any]]] = {}
        #: what a bulk request does to every document
        self.of_each: tuple[int, Any] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MadeUp

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, said: Any, **headers: str) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def break_off(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def read(self) -> bytes:
        self.server.seen.append((self.command, self.path.split("?")[0]))
        self.server.authorization.add(self.headers.get("Authorization"))
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self) -> None:
        self.read()
        self.answer(*self.server.root)

    def do_PUT(self) -> None:
        json.loads(self.read())
        for path, answers in self.server.puts.items():
            if self.path.startswith(path) and answers:
                status, said = answers.pop(0)
                self.answer(status, said, **({"Location": "https://x/"} if status == 301 else {}))
                return
        self.answer(200, {"acknowledged": True})

    def do_POST(self) -> None:
        body = self.read()
        if not self.path.split("?")[0].endswith("_bulk"):
            self.answer(200, {})
            return
        if len(body) > self.server.largest:
            self.answer(413, {})
            return
        fault = self.server.faults.pop(0) if self.server.faults else None
        if fault == "break off":
            self.break_off()
            return
        if isinstance(fault, int):
            self.answer(fault, {"error": "busy"}, Retry_After="0")
            return
        lines = body.decode().split("\n")
        assert lines.pop() == ""
        items = []
        for k, (head, document) in enumerate(zip(lines[::2], lines[1::2], strict=True)):
            name = json.loads(head)["create"]["_id"]
            status = 409 if name in self.server.documents else 201
            if isinstance(fault, list) and k in fault:
                status = 429
            if fault == "refuse one" and not k:
                status = 400
            if self.server.of_each is not None:
                refusal, why = self.server.of_each
                items.append({"create": {"status": refusal, "error": why}})
                continue
            if status == 201:
                self.server.documents[name] = json.loads(document)
            error = {"type": "x", "reason": "no", "caused_by": {"reason": "field is a word"}}
            items.append(
                {"create": {"status": status, **({} if status == 201 else {"error": error})}}
            )
        # Whoever hears nothing of it sends it again.
        if fault == "break off late":
            self.break_off()
            return
        self.answer(200, {"errors": True, "items": items})


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[MadeUp]:
    monkeypatch.setattr(elastic, "_FIRST_WAIT_S", 0.001)
    for name in ("ELASTIC_API_KEY", "ELASTIC_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    with MadeUp() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def recorded(folder: Path, n: int = 25, session: str | None = None) -> Path:
    in_call = calls.IN_CALL | calls.COMPLETED
    return stored(
        folder,
        file_record(FOO, b'a "\n\\ name', b"srv"),
        *(call_record("pwrite64", FOO, time_ns=10**18 + k, result=100) for k in range(n)),
        io_record(in_call, call="pwrite64", decision=1),
        session=session,
    )


def sent(folder: Path, server: MadeUp, *more: object) -> Result:
    return run("query", folder, "--elasticsearch", server.url, *more)


def test_a_row_is_a_document_with_the_tables_columns(made_up: MadeUp, tmp_path: Path) -> None:
    folder = recorded(tmp_path / "seen")
    done = sent(folder, made_up)
    assert done.exit_code == 0, (done.output, done.exception)
    assert done.stdout == f"{made_up.url}: 26 documents sent\n"
    name = watch_query.recording(folder)["recording"]
    assert sorted(made_up.documents) == sorted(
        [*(f"{name}-calls-{k}" for k in range(25)), f"{name}-ios-0"]
    )
    document = made_up.documents[f"{name}-calls-7"]
    assert document == {
        **{"@timestamp": "2001-09-09T01:46:40.000000007Z", "time_ns": 10**18 + 7},
        **{"recording": name, "host": os.uname().nodename, "session": None, "duration_ns": 5},
        **{"pid": 7, "tid": 7, "process": "postgres", "call": "pwrite64", "fd": 3},
        **{"path": '/srv/a "\n\\ name', "to_path": None, "file_offset": None, "bytes": None},
        **{"result": 100, "kind": "file", "device": "4095:1", "inode": 12},
        **{"first_access_ns": 10**18, "arguments": None},
        **{part: 5 if part == "on_cpu_ns" else 0 for part in calls.PARTS},
    }
    for table, fields in elastic.mappings().items():
        assert set(made_up.documents[f"{name}-{table}-0"]) == set(fields)
    # The server learns the fields before the first document.
    assert made_up.seen.index(("PUT", "/_index_template/linnapp-ios")) < made_up.seen.index(
        ("POST", "/linnapp-calls/_bulk")
    )
    again = sent(folder, made_up)
    assert again.stdout == f"{made_up.url}: 0 documents sent, 26 were there already\n"


@pytest.mark.parametrize(
    "faults",
    [
        [429, 503, 502],
        ["break off", "break off"],
        [[0, 1, 2, 24], [3], [0]],
        [429, [5], "break off", [0, 1]],
        ["break off late"],
    ],
)
def test_what_is_refused_for_a_moment_is_sent_again(
    made_up: MadeUp, tmp_path: Path, faults: list[Any]
) -> None:
    made_up.faults = list(faults)
    done = sent(recorded(tmp_path / "seen"), made_up, "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    told = json.loads(done.stdout)
    assert len(made_up.documents) == 26 and not made_up.faults
    assert told["created"] + told["there_already"] == 26 and not told["left"]
    if "break off late" not in faults:
        assert told["created"] == 26


def test_a_request_that_is_too_large_is_sent_in_parts(made_up: MadeUp, tmp_path: Path) -> None:
    made_up.largest = 1500
    made_up.faults = [[0], 429, [1], "break off"]
    done = sent(recorded(tmp_path / "seen"), made_up)
    assert done.stdout == f"{made_up.url}: 26 documents sent\n"


def test_a_document_that_is_refused_is_told_of(made_up: MadeUp, tmp_path: Path) -> None:
    made_up.faults = ["refuse one"]
    done = sent(recorded(tmp_path / "seen"), made_up)
    assert done.exit_code == 1
    assert "25 documents sent" in done.stdout
    assert "1 documents were refused: no: field is a word" in done.stdout


def test_a_server_that_stays_busy_is_given_up_and_told_of(
    made_up: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elastic, "_ATTEMPTS", 3)
    made_up.faults = [429] * 3
    done = sent(recorded(tmp_path / "seen"), made_up)
    assert done.exit_code == 1
    assert "26 documents were not sent" in done.stderr
    assert "tried 3 times: busy; it answers 429; the same command sends the rest" in done.stderr
    assert sent(tmp_path / "seen", made_up).exit_code == 0 and len(made_up.documents) == 26


FLOOD = (
    "index [linnapp-calls] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage "
    "watermark, index has read-only-allow-delete block];"
)
READ_ONLY = "index [linnapp-calls] blocked by: [FORBIDDEN/8/index write (api)];"


@pytest.mark.parametrize(
    ("status", "reason", "remedy"),
    [(429, FLOOD, "make room on the disks"), (403, READ_ONLY, "that block has to be removed")],
)
def test_a_block_is_named_at_once_and_not_retried(
    made_up: MadeUp, tmp_path: Path, status: int, reason: str, remedy: str
) -> None:
    error = {"type": "cluster_block_exception", "reason": reason}
    made_up.of_each = (status, error)
    done = sent(recorded(tmp_path / "seen"), made_up)
    assert done.exit_code == 1
    assert f"26 documents were not sent: {made_up.url}: 25 documents: {reason}" in done.stderr
    assert remedy in done.stderr
    assert made_up.seen.count(("POST", "/linnapp-calls/_bulk")) == 1
    # The same when the whole request is refused.
    made_up.of_each = None
    made_up.puts["/linnapp-calls"] = [(status, {"error": error})]
    with pytest.raises(LinnappError) as told:
        elastic.prepare(Server(made_up.url, {}))
    assert reason in str(told.value) and remedy in str(told.value)
    assert "privileges" not in str(told.value)
    assert sent(tmp_path / "seen", made_up).exit_code == 0 and len(made_up.documents) == 26


def test_what_was_sent_before_a_block_is_counted(made_up: MadeUp, tmp_path: Path) -> None:
    made_up.largest = 1500
    folder = recorded(tmp_path / "seen")
    sent(folder, made_up)
    for name in [*made_up.documents][-5:]:
        del made_up.documents[name]
    made_up.of_each = (429, {"type": "cluster_block_exception", "reason": FLOOD})
    told = json.loads(sent(folder, made_up, "--json").stdout)
    assert told["left"] == 26 and told["created"] == 0
    made_up.of_each = None
    made_up.faults = [[], *["break off"] * 40]
    told = json.loads(sent(folder, made_up, "--json").stdout)
    assert told["left"] + told["created"] + told["there_already"] == 26
    assert 0 < told["left"] < 26 and told["there_already"] > 0


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (503, {"type": "unavailable_shards_exception", "reason": "primary shard is not active"}),
        (429, {"type": "es_rejected_execution_exception", "reason": "rejected execution of"}),
    ],
)
def test_documents_that_stay_refused_for_the_moment_are_told_of_with_the_reason(
    made_up: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, error: Any
) -> None:
    monkeypatch.setattr(elastic, "_ATTEMPTS", 3)
    made_up.of_each = (status, error)
    done = sent(recorded(tmp_path / "seen"), made_up)
    assert done.exit_code == 1
    assert f"tried 3 times: 25 documents: {error['reason']}" in done.stderr
    assert made_up.seen.count(("POST", "/linnapp-calls/_bulk")) == 3


def test_retrying_ends_after_a_time_if_each_attempt_takes_long(
    made_up: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elastic, "_PATIENCE_S", 0.0)
    made_up.faults = [503] * 3
    assert "tried 1 times: busy" in sent(recorded(tmp_path / "seen"), made_up).stderr


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "[1:75] mapping set to strict, dynamic introduction of [x] is not allowed"),
        (400, "failed to parse field [time_ns] of type [ip]"),
        (403, "action [indices:data/write/bulk[s]] is unauthorized for API key id [k]"),
        (404, "no such index [linnapp-calls] and [action.auto_create_index] is [false]"),
    ],
)
def test_each_refused_document_is_counted_with_the_reason(
    made_up: MadeUp, tmp_path: Path, status: int, reason: str
) -> None:
    made_up.of_each = (status, {"type": "x", "reason": f"\x1b[2J{reason}\n"})
    done = sent(recorded(tmp_path / "seen"), made_up)
    assert done.exit_code == 1
    assert f"26 documents were refused: ?[2J{reason}\n" in done.stdout
    assert made_up.seen.count(("POST", "/linnapp-calls/_bulk")) == 1


def test_a_document_that_alone_is_too_large_is_refused_and_the_others_are_sent(
    made_up: MadeUp, tmp_path: Path
) -> None:
    made_up.largest = 560  # of the documents, the I/O's alone is smaller
    done = sent(recorded(tmp_path / "seen"), made_up)
    assert done.exit_code == 1
    assert f"{made_up.url}: 1 documents sent" in done.stdout
    assert "25 documents were refused: too large for the server (413): " in done.stdout


def test_a_serverless_project_has_the_template_without_settings(made_up: MadeUp) -> None:
    reason = "Settings [index.auto_expand_replicas] are not available when running in serverless"
    made_up.puts["/_index_template/linnapp-calls"] = [(400, {"error": {"reason": reason}})]
    elastic.prepare(Server(made_up.url, {}))
    assert made_up.seen.count(("PUT", "/_index_template/linnapp-calls")) == 2
    assert ("PUT", "/linnapp-ios") in made_up.seen


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/_index_template/", 400, "matching patterns from existing templates [all]"),
        ("/linnapp-calls", 400, "Invalid index name [linnapp-calls], already exists as alias"),
        ("/linnapp-calls", 400, "this action would add [1] shards, but this cluster has [1000]"),
        ("/linnapp-calls", 403, "action [indices:admin/create] is unauthorized for user [u]"),
        ("/linnapp-calls", 301, "https://x/"),
        ("/linnapp-calls", 401, "unable to authenticate user [u] for REST request"),
    ],
)
def test_a_refused_preparation_has_the_request_and_the_reason(
    made_up: MadeUp, path: str, status: int, reason: str
) -> None:
    made_up.puts[path] = [(status, {"error": {"type": "x", "reason": reason}})]
    with pytest.raises(LinnappError) as told:
        elastic.prepare(Server(made_up.url, {}))
    assert reason in str(told.value)
    if status != 401:
        assert f"PUT {path}" in str(told.value)


def test_a_server_that_is_not_ready_is_told_of_with_the_reason(made_up: MadeUp) -> None:
    made_up.root = (503, {"error": {"type": "master_not_discovered_exception", "reason": "none"}})
    with pytest.raises(LinnappError, match="it answers 503: none"):
        Server(made_up.url, {}).check()


def test_http_to_a_port_that_speaks_tls_names_https(made_up: MadeUp) -> None:
    class Closing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(100)

    with socketserver.TCPServer(("127.0.0.1", 0), Closing) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(LinnappError, match="speaks TLS.*https://"):
            Server(f"http://127.0.0.1:{server.server_address[1]}", {}).check()
        thread.join()


def test_sessions_are_sent_apart_or_all(made_up: MadeUp, tmp_path: Path) -> None:
    for session, n in (("before", 3), ("after", 5)):
        recorded(tmp_path / "seen" / session, n, session)
    sent(tmp_path / "seen", made_up, "--session", "after")
    assert Counter(each["session"] for each in made_up.documents.values()) == {"after": 6}
    sent(tmp_path / "seen", made_up)
    assert Counter(each["session"] for each in made_up.documents.values()) == {
        "after": 6,
        "before": 4,
    }
    refused = sent(tmp_path / "seen", made_up, "--session", "x")
    assert isinstance(refused.exception, LinnappError) and "x" in str(refused.exception)


def test_a_table_that_is_damaged_is_told_of(made_up: MadeUp, tmp_path: Path) -> None:
    calls = recorded(tmp_path / "seen") / "calls.parquet"
    whole = calls.read_bytes()
    place = parquet.read_metadata(calls).row_group(1).column(0).data_page_offset
    calls.write_bytes(whole[:place] + bytes(16) + whole[place + 16 :])
    done = sent(tmp_path / "seen", made_up)
    assert done.exit_code == 1, (done.output, done.exception)
    assert f"26 documents were not sent: {calls}: not a table that can be read: " in done.stderr
    calls.write_bytes(whole[:-20])
    refused = sent(tmp_path / "seen", made_up)
    assert isinstance(refused.exception, LinnappError)
    assert f"{calls}: not a table that can be read: " in str(refused.exception)
    assert not made_up.documents


def test_each_obstacle_is_named(made_up: MadeUp, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(url: str, words: str, environment: dict[str, str] | None = None) -> None:
        with pytest.raises(LinnappError, match=words) as error:
            elastic.prepare(Server(url, environment or {}))
        assert "secret" not in str(error.value) and "key that" not in str(error.value)

    for url in ("127.0.0.1:9200", "ftp://x", "http://", "http://u:secret@[::1", "http://x:99999"):
        refused(url, "--elasticsearch: ")
    for url in ("http://a..b", f"http://{'a' * 64}.example", "http://u:secret@x/\u00e4"):
        refused(url, "--elasticsearch: no URL: ")
    refused("http://u:secret@127.0.0.1:1", r"^http://127.0.0.1:1: connection refused")
    refused("http://u:secret@name.invalid", r"^http://name.invalid:9200: ")
    refused(made_up.url.replace("http:", "https:"), "no TLS: ")
    refused(made_up.url, "ELASTIC_API_KEY: no key", {"ELASTIC_API_KEY": "secret\nkey"})
    made_up.root = (401, {})
    refused(made_up.url, r"wants to know who you are \(401\): set ELASTIC_API_KEY")
    refused(made_up.url, "refuses the key or the password", ALLOWED)
    made_up.root = (403, {"error": {"type": "security", "reason": "no"}})
    refused(made_up.url, r"may not do that \(403\): no; it takes .*manage_index_templates")
    made_up.root = (200, {"hello": "world"})
    refused(made_up.url, r"somebody answers \(200\), but not as Elasticsearch")
    made_up.root = (200, {"version": {"number": "7.6.2"}})
    refused(made_up.url, "Elasticsearch 7.6.2; 7.8 at least")
    made_up.root = (200, {"version": {"number": "2.11.0", "distribution": "opensearch"}})
    elastic.prepare(Server(made_up.url, {}))


def test_who_we_are_is_told_to_the_server_alone(made_up: MadeUp, tmp_path: Path) -> None:
    for url, environment, authorization in (
        ("http://", ALLOWED, "ApiKey a key that nobody sees"),
        ("http://u:p%40ss@", {}, "Basic dTpwQHNz"),
        ("http://u@", {"ELASTIC_PASSWORD": "p@ss"}, "Basic dTpwQHNz"),
        ("http://", {"ELASTIC_PASSWORD": "p@ss"}, "Basic ZWxhc3RpYzpwQHNz"),
        ("http://u@", {"ELASTIC_PASSWORD": "p\udce4"}, "Basic dTpw5A=="),
        ("http://", {}, None),
    ):
        made_up.authorization.clear()
        server = Server(made_up.url.replace("http://", url), environment)
        server.check()
        assert made_up.authorization == {authorization}
        assert server.name == made_up.url and not server.is_overheard
    assert Server("http://u:p@example.org", {}).is_overheard
    assert not Server("https://u:p@example.org", {}).is_overheard
    assert Server("https://example.org/es/", {}).name == "https://example.org:9200/es"
    done = run("query", recorded(tmp_path / "seen"), "--elasticsearch",
               made_up.url.replace("//", "//u:secret@"))  # fmt: skip
    assert done.exit_code == 0 and "secret" not in done.output
    assert "secret" not in (tmp_path / "seen" / "recording.json").read_text()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_certificate_must_be_one_that_is_trusted(
    made_up: MadeUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    made_up.socket = context.wrap_socket(made_up.socket, server_side=True)
    url = f"https://localhost:{made_up.server_port}"
    with pytest.raises(LinnappError, match=r"not to be trusted: self.signed .*SSL_CERT_FILE"):
        Server(url, {}).check()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate"))
    Server(url, {}).check()
    with pytest.raises(LinnappError, match="not to be trusted"):
        Server(url.replace("localhost", "127.0.0.1"), {}).check()


# --- Kibana's dashboard.


def test_the_dashboard_asks_for_fields_that_there_are(tmp_path: Path) -> None:
    done = run("dashboard", "kibana", "-o", tmp_path / "dashboard.ndjson")
    assert done.exit_code == 0 and not done.output
    lines = (tmp_path / "dashboard.ndjson").read_text().splitlines()
    objects = {each["id"]: each for each in map(json.loads, lines)}
    assert len(objects) == len(lines)
    fields = elastic.mappings()
    for each in objects.values():
        assert set(each["migrationVersion"]) == {each["type"]}
        for reference in each["references"]:
            assert objects[reference["id"]]["type"] == reference["type"]
        if each["type"] != "visualization":
            continue
        [index] = [reference["id"] for reference in each["references"]]
        state = json.loads(each["attributes"]["visState"])
        used = {agg["params"]["field"] for agg in state["aggs"] if "field" in agg["params"]}
        asked = json.loads(each["attributes"]["kibanaSavedObjectMeta"]["searchSourceJSON"])
        if asked["query"]["query"]:
            used.add(asked["query"]["query"].split()[0].rstrip(":"))
        assert used <= set(fields[index.removeprefix("linnapp-")]), each["attributes"]["title"]
    panels = json.loads(objects["linnapp-watch"]["attributes"]["panelsJSON"])
    assert len(panels) == len(objects) - 3 > 10
    [parts] = [
        json.loads(each["attributes"]["visState"])["aggs"]
        for each in objects.values()
        if each["attributes"]["title"] == "Where the time of calls went"
    ]
    labels = {agg["params"]["field"]: agg["params"]["customLabel"] for agg in parts[:-1]}
    assert labels == {part: f"{words}, ns" for part, words in calls.PART_NAMES.items()}
    taken = set()
    for panel in panels:
        grid = panel["gridData"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not taken & cells and max(x for x, _ in cells) < 48
        taken |= cells
    names = {reference["name"] for reference in objects["linnapp-watch"]["references"]}
    assert names == {panel["panelRefName"] for panel in panels}
    assert len(taken) == 48 * (1 + max(y for _, y in taken))


def test_grafanas_dashboard_is_printed() -> None:
    assert json.loads(run("dashboard", "grafana").output)["title"]
