# SPDX-License-Identifier: MIT
"""Test that each document reaches Elasticsearch once, also when requests fail.

A fake server produces failures that a real one does not produce on request: overload, broken
connections, another product. tests/elasticsearch/ uses a real server.
"""

from __future__ import annotations

import json
import os
import shutil
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
from fake_elasticsearch import FakeServer, running
from test_watch import FOO, call_record, file_record, io_record, run, stored

from linnapp.errors import LinnappError
from linnapp.insight import calls, documents, elastic
from linnapp.insight import query as watch_query
from linnapp.insight.elastic import Server

ALLOWED = {"ELASTIC_API_KEY": "a secret key"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    with running(monkeypatch) as server:
        yield server


def recorded(folder: Path, n: int = 25, session: str | None = None) -> Path:
    in_call = calls.IN_CALL | calls.COMPLETED
    return stored(
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
    "faults",
    [
        [429, 503, 502],
        ["break off", "break off"],
        [[0, 1, 2, 24], [3], [0]],
        [429, [5], "break off", [0, 1]],
        ["break off late"],
    ],
)
def test_send_repeats_temporary_failures(
    server: FakeServer, tmp_path: Path, faults: list[Any]
) -> None:
    server.faults = list(faults)
    done = sent(recorded(tmp_path / "seen"), server, "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    answer = json.loads(done.stdout)
    assert len(server.documents) == 26 and not server.faults
    assert answer["created"] + answer["there_already"] == 26 and not answer["left"]
    if "break off late" not in faults:
        assert answer["created"] == 26


def test_send_splits_a_request_that_is_too_large(server: FakeServer, tmp_path: Path) -> None:
    server.largest = 1500
    server.faults = [[0], 429, [1], "break off"]
    done = sent(recorded(tmp_path / "seen"), server)
    assert done.stdout == f"{server.url}: 26 documents sent\n"


def test_send_reports_a_refused_document(server: FakeServer, tmp_path: Path) -> None:
    server.faults = ["refuse one"]
    done = sent(recorded(tmp_path / "seen"), server)
    assert done.exit_code == 1
    assert "25 documents sent" in done.stdout
    assert "1 documents were refused: no: field is a word" in done.stdout


def test_send_gives_up_when_the_server_stays_overloaded(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elastic, "_RETRY_LIMIT_S", 0.0)
    server.faults = [503]
    done = sent(recorded(tmp_path / "seen"), server)
    assert done.exit_code == 1
    assert "26 documents were not sent" in done.stderr
    assert "_bulk: status 503: busy; the same command sends the rest" in done.stderr
    assert sent(tmp_path / "seen", server).exit_code == 0 and len(server.documents) == 26


FLOOD = (
    "index [linnapp-calls] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage "
    "watermark, index has read-only-allow-delete block];"
)
READ_ONLY = "index [linnapp-calls] blocked by: [FORBIDDEN/8/index write (api)];"


@pytest.mark.parametrize(
    ("status", "reason", "remedy"),
    [(429, FLOOD, "free space on the disks"), (403, READ_ONLY, "remove that block first")],
)
def test_send_reports_a_block_at_once_without_retrying(
    server: FakeServer, tmp_path: Path, status: int, reason: str, remedy: str
) -> None:
    error = {"type": "cluster_block_exception", "reason": reason}
    server.of_each = (status, error)
    done = sent(recorded(tmp_path / "seen"), server)
    assert done.exit_code == 1
    assert f"26 documents were not sent: {server.url}: 25 documents: {reason}" in done.stderr
    assert remedy in done.stderr
    assert server.seen.count(("PUT", "/linnapp-calls/_bulk")) == 1
    # The result is the same when the whole request is refused.
    server.of_each = None
    server.puts["/linnapp-calls"] = [(status, {"error": error})]
    with pytest.raises(LinnappError) as raised:
        documents.prepare(Server(server.url, {}))
    assert reason in str(raised.value) and remedy in str(raised.value)
    assert "privileges" not in str(raised.value)
    assert sent(tmp_path / "seen", server).exit_code == 0 and len(server.documents) == 26


def test_send_counts_documents_stored_before_a_failure(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elastic, "_RETRY_LIMIT_S", 0.05)
    server.largest = 1500
    folder = recorded(tmp_path / "seen")
    sent(folder, server)
    for name in [*server.documents][-5:]:
        del server.documents[name]
    server.of_each = (429, {"type": "cluster_block_exception", "reason": FLOOD})
    answer = json.loads(sent(folder, server, "--json").stdout)
    assert answer["left"] == 26 and answer["created"] == 0
    server.of_each = None
    server.faults = [[], *["break off"] * 40]
    answer = json.loads(sent(folder, server, "--json").stdout)
    assert answer["left"] + answer["created"] + answer["there_already"] == 26
    assert 0 < answer["left"] < 26 and answer["there_already"] > 0


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (503, {"type": "unavailable_shards_exception", "reason": "primary shard is not active"}),
        (429, {"type": "es_rejected_execution_exception", "reason": "rejected execution of"}),
    ],
)
def test_send_reports_the_reason_of_documents_that_stay_refused(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, error: Any
) -> None:
    monkeypatch.setattr(elastic, "_RETRY_LIMIT_S", 0.05)
    server.of_each = (status, error)
    done = sent(recorded(tmp_path / "seen"), server)
    assert done.exit_code == 1
    tried = server.seen.count(("PUT", "/linnapp-calls/_bulk"))
    assert f"25 documents: {error['reason']}; tried {tried} times" in done.stderr and tried > 1


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "[1:75] mapping set to strict, dynamic introduction of [x] is not allowed"),
        (400, "failed to parse field [time_ns] of type [ip]"),
    ],
)
def test_send_counts_refused_documents_by_reason(
    server: FakeServer, tmp_path: Path, status: int, reason: str
) -> None:
    server.of_each = (status, {"type": "x", "reason": f"\x1b[2J{reason}\n"})
    done = sent(recorded(tmp_path / "seen"), server)
    assert done.exit_code == 1
    assert f"26 documents were refused: ?[2J{reason}\n" in done.stdout
    assert server.seen.count(("PUT", "/linnapp-calls/_bulk")) == 1


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (403, "action [indices:data/write/bulk[s]] is unauthorized for API key id [k]"),
        (404, "no such index [linnapp-calls] and [action.auto_create_index] is [false]"),
    ],
)
def test_send_keeps_documents_that_the_server_could_store_later(
    server: FakeServer, tmp_path: Path, status: int, reason: str
) -> None:
    server.of_each = (status, {"type": "x", "reason": reason})
    done = sent(recorded(tmp_path / "seen"), server)
    assert done.exit_code == 1
    assert f"26 documents were not sent: {server.url}: 25 documents: {reason}" in done.stderr
    server.of_each = None
    assert sent(tmp_path / "seen", server).exit_code == 0 and len(server.documents) == 26


def test_send_refuses_only_the_document_that_is_too_large(
    server: FakeServer, tmp_path: Path
) -> None:
    server.largest = 560  # only the document of the I/O is smaller
    done = sent(recorded(tmp_path / "seen"), server)
    assert done.exit_code == 1
    assert f"{server.url}: 1 documents sent" in done.stdout
    assert "25 documents were refused: too large for the server (413): " in done.stdout


def test_prepare_omits_settings_on_a_serverless_project(server: FakeServer) -> None:
    reason = "Settings [index.auto_expand_replicas] are not available when running in serverless"
    server.puts["/_index_template/linnapp-calls"] = [(400, {"error": {"reason": reason}})]
    documents.prepare(Server(server.url, {}))
    assert server.seen.count(("PUT", "/_index_template/linnapp-calls")) == 2
    assert ("PUT", "/linnapp-ios") in server.seen


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
def test_prepare_reports_the_request_and_the_reason_when_refused(
    server: FakeServer, path: str, status: int, reason: str
) -> None:
    server.puts[path] = [(status, {"error": {"type": "x", "reason": reason}})]
    with pytest.raises(LinnappError) as raised:
        documents.prepare(Server(server.url, {}))
    assert reason in str(raised.value)
    if status != 401:
        assert f"PUT {path}" in str(raised.value)


def test_check_reports_the_reason_when_the_server_is_not_ready(server: FakeServer) -> None:
    server.root = (503, {"error": {"type": "master_not_discovered_exception", "reason": "none"}})
    with pytest.raises(LinnappError, match="status 503: none"):
        Server(server.url, {}).check()


def test_check_accepts_elasticsearch_without_its_root_endpoint(server: FakeServer) -> None:
    server.root = (405, {"error": "Incorrect HTTP method for uri [/] and method [GET]"})
    Server(server.url, {}).check()
    server.is_elasticsearch = False
    with pytest.raises(LinnappError, match="status 405: Incorrect HTTP method"):
        Server(server.url, {}).check()


def test_check_suggests_https_when_the_port_uses_tls() -> None:
    class Closing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(100)

    with socketserver.TCPServer(("127.0.0.1", 0), Closing) as closing:
        thread = threading.Thread(target=closing.handle_request)
        thread.start()
        with pytest.raises(LinnappError, match="uses TLS.*https://"):
            Server(f"http://127.0.0.1:{closing.server_address[1]}", {}).check()
        thread.join()


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


def test_send_reports_a_damaged_table(server: FakeServer, tmp_path: Path) -> None:
    calls = recorded(tmp_path / "seen") / "calls.parquet"
    whole = calls.read_bytes()
    place = parquet.read_metadata(calls).row_group(1).column(0).data_page_offset
    calls.write_bytes(whole[:place] + bytes(16) + whole[place + 16 :])
    done = sent(tmp_path / "seen", server)
    assert done.exit_code == 1, (done.output, done.exception)
    assert f"26 documents were not sent: {calls}: is not a readable table: " in done.stderr
    calls.write_bytes(whole[:-20])
    refused = sent(tmp_path / "seen", server)
    assert isinstance(refused.exception, LinnappError)
    assert f"{calls}: is not a readable table: " in str(refused.exception)
    assert not server.documents


def test_prepare_reports_failures_without_secrets(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(url: str, message: str, environment: dict[str, str] | None = None) -> None:
        with pytest.raises(LinnappError, match=message) as error:
            documents.prepare(Server(url, environment or {}))
        assert "secret" not in str(error.value) and "secret key" not in str(error.value)

    for url in ("127.0.0.1:9200", "ftp://x", "http://", "http://u:secret@[::1", "http://x:99999"):
        refused(url, "--elasticsearch: ")
    for url in ("http://a..b", f"http://{'a' * 64}.example", "http://u:secret@x/\u00e4"):
        refused(url, "--elasticsearch: not a URL: ")
    refused("http://u:secret@127.0.0.1:1", r"^http://127.0.0.1:1: connection refused")
    refused("http://u:secret@name.invalid", r"^http://name.invalid:9200: ")
    refused(server.url.replace("http:", "https:"), "no TLS: ")
    refused(server.url, "ELASTIC_API_KEY: contains characters", {"ELASTIC_API_KEY": "secret\nkey"})
    server.root = (401, {})
    refused(server.url, r"the server needs a user \(401\); set ELASTIC_API_KEY")
    refused(server.url, "refuses the key or the password", ALLOWED)
    server.root = (403, {"error": {"type": "security", "reason": "no"}})
    refused(server.url, r"may not do that \(403\): no; the user needs .*manage_index_templates")
    server.root = (200, {"version": {"number": "7.17.0"}})
    refused(server.url, "is Elasticsearch 7.17.0; version 8 or later is needed")
    server.root = (400, {"error": {"type": "media_type_header_exception", "reason": "x"}})
    refused(server.url, "the server is older than Elasticsearch 8")
    server.root = (200, {"version": {"number": "2.11.0", "distribution": "opensearch"}})
    server.is_elasticsearch = False
    refused(server.url, r"the server \(200\) is not Elasticsearch 8 or later")


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


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
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


# --- Kibana's dashboard.


def test_kibana_dashboard_uses_existing_fields_without_overlap(tmp_path: Path) -> None:
    done = run("dashboard", "kibana", "-o", tmp_path / "dashboard.ndjson")
    assert done.exit_code == 0 and not done.output
    lines = (tmp_path / "dashboard.ndjson").read_text().splitlines()
    objects = {each["id"]: each for each in map(json.loads, lines)}
    assert len(objects) == len(lines)
    fields = documents.mappings()
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


def test_grafana_dashboard_is_printed_by_default() -> None:
    assert json.loads(run("dashboard", "grafana").output)["title"]
