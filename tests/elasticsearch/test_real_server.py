# SPDX-License-Identifier: MIT
"""A recorded session in a real Elasticsearch: counts, percentiles, and Kibana's panels.

`make test-elasticsearch` fetches the server, the edition for testing plugins. It runs here on
loopback with security enabled and 256 MiB of heap. Its one user has only the rights that `linnapp`
says it needs.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from linnapp.cli import cli
from linnapp.errors import LinnappError
from linnapp.insight import documents
from linnapp.insight import watch as watching
from linnapp.insight.elastic import Outcome, Server
from linnapp.insight.query import query

pytestmark = pytest.mark.elasticsearch

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "linnapp" / "monitoring"
USER, PASSWORD = "watcher", "it is a secret"
#: The bcrypt hash of the user's password.
HASH = "$2a$10$P/toOI4lpbhKLkR.jD1UPuYipOWuGqv9jnv7wnSFoM3vEdo53yKdW"
ROLE = """
linnapp:
  cluster: [monitor, manage_index_templates]
  indices:
    - names: ["linnapp-*"]
      privileges: [manage, create_doc, read]
"""
SETTINGS = """
discovery.type: single-node
network.host: 127.0.0.1
http.port: {http}
transport.port: {transport}
xpack.security.enabled: true
xpack.security.enrollment.enabled: false
monitor.fs.health.refresh_interval: 1s
path.data: {place}/data
path.logs: {place}/logs
"""
JAVA = """
-Xms256m
-Xmx256m
-XX:+UseSerialGC
-XX:TieredStopAtLevel=1
-Djava.io.tmpdir=${ES_TMPDIR}
"""
PROGRAM = textwrap.dedent("""
    import ctypes, os, sys
    os.chdir(sys.argv[1])
    # A tag, where this kernel has any: ioprio_set() of this thread, best effort.
    ioprio_set = {"x86_64": 251, "aarch64": 30}[os.uname().machine]
    ctypes.CDLL(None).syscall(ioprio_set, 1, 0, 2 << 13 | 100 << 3 | 4)
    fd = os.open("log", os.O_CREAT | os.O_RDWR)
    for i in range(1500):
        os.write(fd, b"x" * (i % 200))
        if i % 50 == 0:
            os.fsync(fd)
    try:
        os.open("nowhere", os.O_RDONLY)
    except FileNotFoundError:
        pass
""")


def _free_ports(n: int) -> list[int]:
    bound = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [each.getsockname()[1] for each in bound]
    for each in bound:
        each.close()
    return ports


def _user_namespace_command() -> list[str]:
    """Return the start of a command in a user namespace: Elasticsearch refuses to run as root."""
    if os.geteuid():
        return []
    command = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("Elasticsearch does not run as root, and no user namespace can be had here")
    return command


class RealServer:
    """Elasticsearch on loopback; it can be killed and started again with its data."""

    def __init__(self, place: Path) -> None:
        programs = sorted((ROOT / "build" / "elasticsearch").glob("*/bin/elasticsearch"))
        if not programs or shutil.which("java") is None:
            pytest.skip("Elasticsearch is not installed: make test-elasticsearch fetches it")
        self.place = place
        shutil.copytree(programs[-1].parents[1] / "config", place / "config")
        http, transport = _free_ports(2)
        for name, text in (
            ("elasticsearch.yml", SETTINGS.format(http=http, transport=transport, place=place)),
            ("jvm.options", JAVA),
            ("roles.yml", ROLE),
            ("users", f"{USER}:{HASH}\n"),
            ("users_roles", f"linnapp:{USER}\n"),
        ):
            (place / "config" / name).write_text(text)
        self.url = f"http://127.0.0.1:{http}"
        self._program = programs[-1]

    def start(self) -> None:
        home = Path(shutil.which("java") or "").resolve().parents[1]
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ES_")},
            **{"ES_PATH_CONF": str(self.place / "config"), "ES_JAVA_HOME": str(home)},
            "CLI_JAVA_OPTS": "-Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }
        with (self.place / "log").open("w") as log:
            self._process = subprocess.Popen(
                [*_user_namespace_command(), self._program],
                cwd=self.place,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        deadline_s = time.monotonic() + 600
        while True:
            try:
                request(self.url, "/_cluster/health")
                return
            except (urllib.error.URLError, ConnectionError):
                if self._process.poll() is not None or time.monotonic() > deadline_s:
                    pytest.fail((self.place / "log").read_text()[-4000:])
                time.sleep(0.25)

    def processes(self) -> list[int]:
        return [
            int(path.name)
            for path in Path("/proc").glob("[0-9]*")
            if os.getpgid(int(path.name)) == self._process.pid
        ]

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self._process.pid, number)
        if number == signal.SIGKILL:
            self._process.wait()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    server = RealServer(tmp_path_factory.mktemp("elasticsearch"))
    server.start()
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def url(real: RealServer) -> str:
    return real.url


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELASTIC_API_KEY", raising=False)
    monkeypatch.setenv("ELASTIC_PASSWORD", PASSWORD)


def request(url: str, path: str, body: Any = None, method: str | None = None) -> Any:
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    request = urllib.request.Request(
        url + path,
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Basic {pair}", "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def search(url: str, table: str, aggregations: Any, query: Any = None) -> Any:
    index = documents.INDICES[table]
    body = {"size": 0, "track_total_hits": True, "aggs": aggregations}
    return request(url, f"/{index}/_search", {**body, **({"query": query} if query else {})})


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))


def with_user(url: str) -> str:
    return url.replace("//", f"//{USER}@")


@pytest.fixture(scope="module")
def seen(url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a program and send the recording."""
    try:
        watching.check_can_watch()
    except LinnappError as error:
        pytest.skip(f"this machine does not allow watching: {error}")
    folder, place = (tmp_path_factory.mktemp(name) for name in ("seen", "place"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELASTIC_PASSWORD", PASSWORD)
        done = run(
            *("watch", "-o", folder, "--session", "real", "--elasticsearch", with_user(url), "--"),
            *(sys.executable, "-S", "-E", "-c", PROGRAM, place),
        )
    assert done.exit_code == 0, (done.output, done.exception)
    assert PASSWORD not in done.output and f"{url}: " in done.output
    return folder


def rows(seen: Path, sql: str) -> list[tuple[Any, ...]]:
    return list(query(seen, sql)[1])


def test_server_refuses_wrong_and_missing_credentials(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LinnappError, match=r"refuses the key or the password \(401\)"):
        Server(url, {"ELASTIC_PASSWORD": "wrong"}).check()
    with pytest.raises(LinnappError, match=r"the server needs a user \(401\)"):
        Server(url, {}).check()
    server = Server(with_user(url))
    with pytest.raises(LinnappError, match=r"may not do that \(403\)"):
        server.request("PUT /other", lambda: server.client.indices.create(index="other"))


def test_elasticsearch_opens_a_file_again_before_it_is_closed(
    real: RealServer, tmp_path: Path
) -> None:
    pids = [word for pid in real.processes() for word in ("--pid", pid)]
    done = run("watch", "-o", tmp_path / "seen", *pids, "--path", real.place, "--duration", 10)
    assert done.exit_code == 0, (done.output, done.exception)
    found = rows(tmp_path / "seen", (ROOT / "docs/queries/opened-twice.sql").read_text())
    # Its check of the file system's health runs every second.
    [n] = [n for _, path, _, n in found if path.endswith("/.es_temp_file")]
    assert n >= 5


def test_server_counts_match_the_recording(url: str, seen: Path) -> None:
    by_call = search(url, "calls", {"by": {"terms": {"field": "call", "size": 100}}})
    found = {b["key"]: b["doc_count"] for b in by_call["aggregations"]["by"]["buckets"]}
    assert found == dict(rows(seen, "select call, count(*) from calls group by call"))
    assert found["write"] >= 1500
    [[n_ios]] = rows(seen, "select count(*) from ios")
    assert search(url, "ios", {})["hits"]["total"]["value"] == n_ios
    sums = search(
        url,
        "calls",
        {"bytes": {"sum": {"field": "result"}}, "first": {"min": {"field": "time_ns"}}},
        {"term": {"call": "write"}},
    )["aggregations"]
    [[n_bytes]] = rows(seen, "select sum(result) from calls where call = 'write'")
    assert sums["bytes"]["value"] == n_bytes


def test_server_percentiles_match_the_tables(url: str, seen: Path) -> None:
    asked_for = [50, 90, 99]
    found = search(
        url,
        "calls",
        {"p": {"percentiles": {"field": "duration_ns", "percents": asked_for}}},
        {"term": {"call": "write"}},
    )["aggregations"]["p"]["values"]
    for percent in asked_for:
        # The server estimates percentiles; their rank is within half a percent.
        low, high = rows(
            seen,
            f"""select quantile_disc(duration_ns, {percent / 100 - 0.005}),
            quantile_disc(duration_ns, {min(1, percent / 100 + 0.005)})
            from calls where call = 'write'""",
        )[0]
        assert low <= found[f"{percent}.0"] <= high, percent


def test_dates_keep_nanoseconds_and_numbers_are_exact(url: str, seen: Path) -> None:
    [[time_ns, first_ns, result]] = rows(
        seen,
        "select time_ns, first_access_ns, result from calls where call = 'fsync' "
        "order by time_ns limit 1",
    )
    [hit] = request(
        url,
        "/linnapp-calls/_search",
        {"query": {"term": {"time_ns": time_ns}}, "fields": ["@timestamp"]},
    )["hits"]["hits"]
    assert hit["_source"]["first_access_ns"] == first_ns and hit["_source"]["result"] == result
    seconds, ns = divmod(time_ns, 10**9)
    time_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{ns:09d}"
    # The server omits trailing zeros.
    assert hit["fields"]["@timestamp"] == [time_text.rstrip("0") + "Z"]


def test_documents_sent_twice_are_stored_once(url: str, seen: Path) -> None:
    [[n]] = rows(seen, "select (select count(*) from calls) + (select count(*) from ios)")
    again = run("query", seen, "--elasticsearch", with_user(url))
    assert again.exit_code == 0, (again.output, again.exception)
    assert again.output == f"{url}: 0 documents sent, {n} were there already\n"


def test_fields_have_the_types_of_the_template(url: str, seen: Path) -> None:
    for table, fields in documents.mappings().items():
        index = documents.INDICES[table]
        assert request(url, f"/{index}/_mapping")[index]["mappings"] == {
            "dynamic": "strict",
            "properties": fields,
        }
    server = Server(with_user(url))
    sent = Outcome()
    server.bulk("linnapp-calls", b'{"create":{"_id":"x"}}\n{"colour":"red"}', sent)
    assert not sent.created
    [(reason, n)] = sent.refused.items()
    assert "colour" in reason and n == 1


#: queries of the panels as Kibana sends them
QUERIES = {
    "": {"match_all": {}},
    "result < 0": {"range": {"result": {"lt": 0}}},
    "below: false": {"term": {"below": False}},
    "decision: *": {"exists": {"field": "decision"}},
    "tag: *": {"exists": {"field": "tag"}},
}


PANELS = [
    each["attributes"] | {"table": each["references"][0]["id"].removeprefix("linnapp-")}
    for each in map(json.loads, (MONITORING / "linnapp-watch.ndjson").read_text().splitlines())
    if each["type"] == "visualization"
]


def aggregations_of(panel: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return type, purpose and parameters of each aggregation by its number, counted from 1."""
    found = json.loads(panel["visState"])["aggs"]
    return [(each["type"], each["schema"], each["params"]) for each in found]


def aggregations(panel: dict[str, Any]) -> Any:
    """Build the nested aggregations that Kibana requests for a panel."""
    numbers: dict[str, Any] = {}
    for n, (kind, schema, parameters) in enumerate(aggregations_of(panel), 1):
        if schema == "metric" and kind != "count":
            names = ("field", "percents")
            numbers[str(n)] = {
                kind: {name: parameters[name] for name in names if name in parameters}
            }
    found = numbers
    for n, (kind, schema, parameters) in reversed(list(enumerate(aggregations_of(panel), 1))):
        if schema == "metric":
            continue
        if kind == "date_histogram":
            how: Any = {"field": parameters["field"], "fixed_interval": "1s", "min_doc_count": 1}
        else:
            by = parameters["orderBy"]
            ordered = by if by in numbers else "_count"
            how = {"field": parameters["field"], "size": parameters["size"]}
            how["order"] = {ordered: parameters["order"]}
        found = {str(n): {kind: how, "aggs": {**found, **numbers}}}
    return found


#: conditions of QUERIES in SQL
CONDITIONS = {
    "": "true",
    "result < 0": "result < 0",
    "below: false": "not below",
    "decision: *": "decision is not null",
    "tag: *": "tag is not null",
}
#: kinds of metrics in SQL; all values of a percentile's field are compared with it
METRICS = {
    "cardinality": "count(distinct {})",
    "percentiles": "list_sort(list({}) filter ({} is not null))",
    **{kind: f"{kind}({{}})" for kind in ("sum", "avg", "min", "max")},
}


def column(field: str) -> str:
    """Return a field in SQL. The server aggregates dates in ms; the tables do not name the host."""
    added = {"@timestamp": "time_ns / 1e6", "host": literal(socket.gethostname())}
    return added.get(field, field)


def literal(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


class Panel:
    """A panel's answer from the server, compared with DuckDB's answer from the tables."""

    def __init__(self, seen: Path, panel: dict[str, Any]) -> None:
        search = json.loads(panel["kibanaSavedObjectMeta"]["searchSourceJSON"])
        self.kuery = search["query"]["query"]
        self.seen, self.table = seen, panel["table"]
        self.metrics, self.levels = [], []
        for n, (kind, schema, parameters) in enumerate(aggregations_of(panel), 1):
            (self.metrics if schema == "metric" else self.levels).append((str(n), kind, parameters))

    def select(self, where: str, key: str = "true") -> list[tuple[Any, ...]]:
        """Return key, number of rows and the metrics of each group, from the tables."""
        wanted = [
            METRICS[kind].format(*[column(parameters["field"])] * 2)
            for _, kind, parameters in self.metrics
            if kind != "count"
        ]
        return rows(
            self.seen,
            f"select {', '.join([key, 'count(*)', *wanted])} from {self.table} "
            f"where {where} and {key} is not null group by all",
        )

    def check_metrics(self, found: dict[str, Any], n: int, values: Sequence[Any]) -> None:
        numbers = [(name, kind, p) for name, kind, p in self.metrics if kind != "count"]
        for (name, kind, parameters), value in zip(numbers, values, strict=True):
            if kind != "percentiles":
                assert found[name]["value"] == (
                    value if value is None else pytest.approx(float(value), rel=1e-9)
                ) or (kind == "sum" and value is None and found[name]["value"] == 0)
                continue
            for percent in parameters["percents"]:
                answer = found[name]["values"][f"{percent}.0"]
                if not value:
                    assert answer is None
                    continue
                # The server estimates percentiles; their rank is within half a percent, plus one.
                rank, slack = percent / 100 * (len(value) - 1), 0.005 * len(value) + 1
                low, high = int(max(0, rank - slack)), int(min(len(value) - 1, rank + slack + 1))
                assert value[low] <= answer <= value[high], (name, percent)

    def check(self, found: dict[str, Any], where: str, depth: int = 0) -> int:
        """Compare the buckets of a level and of the levels below; return their number."""
        if depth == len(self.levels):
            return 0
        name, kind, parameters = self.levels[depth]
        key = column(parameters["field"])
        if kind == "date_histogram":
            key = "time_ns // 1000000000 * 1000"
        expected = {row[0]: row[1:] for row in self.select(where, key)}
        buckets = found[name]["buckets"]
        if kind == "terms":
            by = parameters["orderBy"]
            place = [n for n, kind, _ in self.metrics if kind != "count"]
            at = 1 + place.index(by) if by in place else 0
            most = sorted((row[at] or 0 for row in expected.values()), reverse=True)
            most = most[: parameters["size"]]
            assert [b[by]["value"] if at else b["doc_count"] for b in buckets] == most
        else:
            assert [bucket["key"] for bucket in buckets] == sorted(expected)
        n = len(buckets)
        for bucket in buckets:
            count, *values = expected[bucket["key"]]
            assert bucket["doc_count"] == count
            self.check_metrics(bucket, count, values)
            n += self.check(bucket, f"{where} and {key} = {literal(bucket['key'])}", depth + 1)
        return n


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_each_dashboard_panel_shows_what_the_tables_say(
    url: str, seen: Path, panel: dict[str, Any]
) -> None:
    expected = Panel(seen, panel)
    query = {"bool": {"filter": [QUERIES[expected.kuery], {"term": {"session": "real"}}]}}
    answer = search(url, panel["table"], aggregations(panel), query)
    assert not answer["_shards"]["failed"]
    where = CONDITIONS[expected.kuery]
    [[_, n, *values]] = expected.select(where) or [[None, 0]]
    assert answer["hits"]["total"]["value"] == n
    if n and not expected.levels:
        expected.check_metrics(answer["aggregations"], n, values)
    compared = expected.check(answer["aggregations"], where)
    # This kernel may record no tags, and has no decisions of LinnOS.
    if panel["title"] not in ("LinnOS' decisions", "Tags"):
        assert n and compared >= len(expected.levels), panel["title"]


#: Makes the given number of calls of 100 bytes per second until the named file exists, and prints
#: the number of calls.
STEADY = textwrap.dedent("""
    import os, sys, time
    fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
    made = 0
    start = time.monotonic()
    while not os.path.exists(sys.argv[2]):
        for _ in range(max(0, int((time.monotonic() - start) * int(sys.argv[3])) - made)):
            os.pwrite(fd, b"x" * 100, 0)
            made += 1
        time.sleep(0.02)
    with open(sys.argv[2], "w") as file:
        file.write(str(made))
""")


class Fault:
    """A failure of the server while a program is recorded, and its end."""

    def __init__(self, real: RealServer) -> None:
        self.real = real

    def block(self, setting: str, value: bool | None) -> None:
        for index in documents.INDICES.values():
            request(self.real.url, f"/{index}/_settings", {f"index.blocks.{setting}": value}, "PUT")

    def begin(self, kind: str) -> None:
        if kind == "stopped":
            self.real.signal(signal.SIGSTOP)
        elif kind == "killed":
            self.real.signal(signal.SIGKILL)
        else:
            self.block("write" if kind == "full, 403" else "read_only_allow_delete", True)

    def end(self, kind: str) -> None:
        if kind == "stopped":
            self.real.signal(signal.SIGCONT)
        elif kind == "killed":
            self.real.start()
        else:
            self.block("write" if kind == "full, 403" else "read_only_allow_delete", None)
        self.real.wait_until_ready()


#: how long each fault lasts
FAULT_S = float(os.environ.get("LINNOS_ELASTICSEARCH_FAULT_S", "6"))


@pytest.mark.parametrize("kind", ["stopped", "full, 429", "full, 403", "killed"])
def test_no_document_is_lost_while_the_server_fails(
    real: RealServer, tmp_path: Path, kind: str
) -> None:
    try:
        watching.check_can_watch()
    except LinnappError as error:
        pytest.skip(f"this machine does not allow watching: {error}")
    documents.prepare(Server(with_user(real.url)))
    file, end, fault = tmp_path / "file", tmp_path / "end", Fault(real)
    with (tmp_path / "out").open("w") as out, (tmp_path / "error").open("w") as error:
        watch = subprocess.Popen(
            [
                *(sys.executable, "-m", "linnapp", "watch", "--json", "--call", "pwrite64"),
                *("--elasticsearch", with_user(real.url), "--", sys.executable, "-S", "-E"),
                *("-c", STEADY, file, end, "500"),
            ],
            stdout=out,
            stderr=error,
            cwd=ROOT,
        )

    def count() -> int:
        request(real.url, "/linnapp-calls/_refresh", method="POST")
        query = {"query": {"term": {"path": str(file)}}}
        return int(request(real.url, "/linnapp-calls/_count", query)["count"])

    def wait_for_more_than(n: int) -> int:
        deadline_s = time.monotonic() + 120
        while (found := count()) <= n:
            assert watch.poll() is None and time.monotonic() < deadline_s, (
                tmp_path / "error"
            ).read_text()
            time.sleep(0.1)
        return found

    before = wait_for_more_than(0)
    fault.begin(kind)
    time.sleep(FAULT_S)
    fault.end(kind)
    wait_for_more_than(before)
    end.touch()
    status = watch.wait(300)
    stderr = (tmp_path / "error").read_text()
    assert status == 0, stderr
    found = json.loads((tmp_path / "out").read_text())
    made = int(end.read_text())
    assert count() == made == found["calls"]
    assert found["elasticsearch"]["left"] == 0 and not found["elasticsearch"]["refused"]
    if kind != "stopped":  # A server that is stopped for less than the timeout only is slow.
        assert "recorded rows wait on the disk" in stderr and "stores documents again" in stderr
    request(real.url, "/linnapp-recordings/_refresh", method="POST")
    term = {"query": {"term": {"recording": found["recording"]}}, "sort": {"time_ns": "desc"}}
    report = request(real.url, "/linnapp-recordings/_search", term)["hits"]["hits"][0]["_source"]
    assert (report["calls"], report["left_over"], report["dropped"]) == (made, 0, 0)
    print(f"{kind} for {FAULT_S:g} s: {made} calls, delay {found['elasticsearch']['delay_ms']} ms")
