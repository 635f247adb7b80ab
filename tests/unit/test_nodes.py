# SPDX-License-Identifier: MIT
"""liblinnos-cluster from Python: it chooses as in C, and mistakes of a caller do no harm."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import re
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import pytest
from test_agent import KEY, locally, made, running
from test_cluster_library import BUILDS, ROOT, SOURCE

from linnapp import nodes as binding
from linnapp.errors import LinnappError
from linnapp.nodes import Nodes, Read

PAGE = 4096
US, MS = 1_000, 1_000_000
PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "cluster.md").read_text(), re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    BUILDS.make("all")


def read_once(client: Nodes, took_us: int, now_ns: int, **options: Any) -> tuple[Read, int]:
    """Read once from one of three nodes; return the read and the time of its end."""
    read = client.choose([0, 1, 2], PAGE, now_ns=now_ns, **options)
    attempt = read.sent(read.node, now_ns=now_ns)
    now_ns += took_us * US
    attempt.ended(now_ns=now_ns)
    read.answered(attempt, now_ns=now_ns)
    return read, now_ns


def test_python_example_chooses_as_the_one_in_c(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "cluster.md").read_text()
    (said,) = re.findall(r"^    (\d+ slow, \d+ left home, \d+ copies)$", page, re.MULTILINE)
    exec(PROGRAMS[0], {})
    assert capsys.readouterr().out == f"{said}\n"


def test_reads_leave_a_node_whose_agent_reports_a_missing_drive(tmp_path: Path) -> None:
    """With the page's program, over real sockets; the other node has no agent."""
    made()
    program = ROOT / "build" / "agent" / "linnos-agent"
    with (
        running(program, tmp_path, "listen 127.0.0.1 PORT", "allow 127.0.0.1") as agent,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent,
        Nodes(2, report_ttl_ms=600_000, report_max_uses=1_000_000) as client,
    ):
        udp.setblocking(False)
        silent.bind(("127.0.0.1", 0))
        names: dict[str, Any] = {
            "agents": [("127.0.0.1", agent.port), silent.getsockname()],
            **{"client": client, "contextlib": contextlib, "udp": udp},
        }
        exec(PROGRAMS[1], names)
        # The other node is the default, and the agent is queried.
        until = time.monotonic() + 600
        while not client.stats().answers and time.monotonic() < until:
            # Reads of equal length, however busy this machine is.
            now_ns = time.monotonic_ns()
            read = client.choose([0, 1], PAGE, home=1, now_ns=now_ns)
            attempt = read.sent(1, now_ns=now_ns)
            attempt.ended(now_ns=now_ns + 100 * US)
            read.answered(attempt, now_ns=now_ns + 100 * US)
            names["exchange_reports"]()
        assert client.stats().answers
        told = client.node_stats(0)
        assert told.state == "slow" and told.report_age_us is not None
        assert client.node_stats(1).report_age_us is None
        went = [client.choose([0, 1], PAGE, home=0).node for _ in range(1000)]
        assert went.count(1) > 500


def test_query_first_is_recommended_when_nothing_is_known(tmp_path: Path) -> None:
    """One node in five is slow, each is read once; a real agent answers, with a fake clock."""
    made()
    program = ROOT / "build" / "agent" / "linnos-agent"
    asked, now_ns = 0, MS
    with running(program, tmp_path) as agent, Nodes(1000) as client:
        assert client.query_first([0, 1], 0, now_ns=now_ns) is None
        for k in range(0, 1000, 2):
            first = client.query_first([k, k + 1], k, now_ns=now_ns)
            if first is not None:
                assert first[0] == k and now_ns < first[1] <= now_ns + MS
                asked += 1
            read = client.choose([k, k + 1], PAGE, home=k, now_ns=now_ns)
            attempt = read.sent(read.node, now_ns=now_ns)
            probed = client.next_query_node(now_ns=now_ns)
            if probed is not None:
                question = client.build_query(probed, 0, PAGE, now_ns=now_ns)
                answer = locally(agent, tmp_path, question)
                assert client.receive_report(probed, answer, now_ns=now_ns + 50 * US)
                assert not client.receive_report(probed, answer, now_ns=now_ns + 50 * US)
            now_ns += 100 * US if k % 10 else 10 * MS
            attempt.ended(now_ns=now_ns)
            read.answered(attempt, now_ns=now_ns)
        stats = client.stats()
    assert asked == stats.asked_first > 100 and stats.refused == stats.answers > 100


def test_default_clients_use_different_cookies() -> None:
    made()
    with Nodes(1) as one, Nodes(1) as other:
        cookies = {
            client.build_query(0, 0, PAGE)[8:16] for client in (one, other) for _ in range(4)
        }
    assert len(cookies) == 8


@pytest.mark.parametrize("secret", [KEY, bytes(range(11, 256)) + bytes(11)])
def test_queries_are_signed_and_invalid_answers_are_refused(tmp_path: Path, secret: bytes) -> None:
    """Also with the longest key that an agent accepts."""
    made()
    program = ROOT / "build" / "agent" / "linnos-agent"
    key = tmp_path / "key"
    key.write_bytes(secret)
    key.chmod(0o600)
    options = ("listen 127.0.0.1 PORT", "allow 127.0.0.1", f"key {key}")
    with (
        running(program, tmp_path, *options) as agent,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        Nodes(2, key=secret) as client,
        Nodes(2) as without,
    ):
        udp.settimeout(600)
        udp.connect(("127.0.0.1", agent.port))
        udp.send(without.build_query(0, 0, PAGE))
        udp.send(client.build_query(0, 0, PAGE))
        answer = udp.recv(200)
        for junk in (b"", b"\0" * 64, answer[:64], answer + b"\0", bytes(5000)):
            assert not client.receive_report(0, junk)
        assert not client.receive_report(1, answer) and not client.receive_report(7, answer)
        assert client.receive_report(0, answer)
        assert client.stats().refused == 7 and client.stats().answers == 1
        assert "1 not signed" in agent.ended()


def test_failed_read_is_retried_on_every_other_node() -> None:
    with Nodes(5) as client:
        read = client.choose([4, 1, 3], PAGE, home=1, now_ns=MS)
        assert (read.node, read.home, read.copy, read.hedge_at_ns) == (1, 1, None, None)
        tried = [read.node]
        read.sent(read.node, now_ns=MS).ended("failed", now_ns=2 * MS)
        while (node := read.next(now_ns=2 * MS)) is not None:
            assert node == read.node
            tried.append(node)
            read.sent(node, now_ns=2 * MS).ended("failed", now_ns=3 * MS)
        read.answered(None, now_ns=3 * MS)
        assert sorted(tried) == [1, 3, 4]
        assert client.stats().failovers == 2 and client.stats().errors == 3
        assert client.node_stats(1).state == "failing" and client.node_stats(0).state == "silent"
        assert client.node_stats(3).errors == 1


def test_slow_read_is_hedged() -> None:
    now_ns = MS
    with Nodes(3, mode="hedge", max_duplicates=10) as client:
        for k in range(100):
            _, now_ns = read_once(client, 100, now_ns, home=k % 3)
        read = client.choose([0, 1, 2], PAGE, home=1, now_ns=now_ns)
        assert read.expected_us == 100 and read.hedge_at_ns == now_ns + 200 * US
        first = read.sent(read.node, now_ns=now_ns)
        now_ns = read.hedge_at_ns
        node = read.hedge(now_ns=now_ns)
        assert node in (0, 2) and read.hedge_at_ns is None
        hedge = read.sent(node, "hedge", now_ns=now_ns)
        hedge.ended(now_ns=now_ns + 100 * US)
        read.answered(hedge, now_ns=now_ns + 100 * US)
        first.ended("cancelled", now_ns=now_ns + 300 * US)
        assert client.node_stats(1, now_ns=now_ns + 300 * US).state == "slow"
        alone = client.choose([0, 1, 2], PAGE, never_hedge=True, now_ns=now_ns)
        assert alone.hedge_at_ns is None
        stats = client.stats()
    assert (stats.hedges, stats.hedges_won, stats.sent, stats.ended) == (1, 1, 102, 102)


def test_modes_and_guard_follow_the_options() -> None:
    moved = {}
    for name, options in (
        *[(mode, {"mode": mode}) for mode in get_args(binding.Mode)],
        ("unguarded", {"unguarded": True}),
        ("margin", {"margin_percent": 100}),
    ):
        with Nodes(3, **options) as client:
            now_ns = MS
            for k in range(2000):
                read = client.choose([0, 1, 2], PAGE, home=0, now_ns=now_ns)
                attempt = read.sent(read.node, now_ns=now_ns)
                now_ns += 2000 * US if read.node == 0 and k > 200 else 100 * US
                attempt.ended(now_ns=now_ns)
                read.answered(attempt, now_ns=now_ns)
                _, now_ns = read_once(client, 100, now_ns, home=1 + k % 2)
            stats = client.stats()
            moved[name] = stats.moved
            assert (stats.stayed > 0) == (name in ("choose", "hedge"))
    assert moved["observe"] == moved["margin"] == 0
    assert moved["unguarded"] > moved["choose"] > 100 and moved["hedge"] > 100


def test_threads_share_a_client() -> None:
    def work(first: int) -> None:
        for k in range(500):
            read = client.choose([0, 1, 2], PAGE * (1 + k % 8), home=(first + k) % 3)
            attempt = read.sent(read.node)
            attempt.ended()
            read.answered(attempt)

    with Nodes(3) as client:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        stats = client.stats()
        assert stats.reads == stats.sent == stats.ended == 2000
        assert sum(client.node_stats(k).answered for k in range(3)) == 2000
        assert not client._in_flight


def test_forgotten_attempts_stay_allocated_for_the_library() -> None:
    with Nodes(3) as client:
        for _ in range(100):
            read = client.choose([0, 1, 2], PAGE, home=1)
            read.sent(1)
        del read
        gc.collect()
        # New objects would reuse their memory.
        _junk = [ctypes.create_string_buffer(b"\xff" * 64) for _ in range(1000)]
        # Its neighbours in the list are updated at its end.
        for attempt in list(client._in_flight)[::2]:
            attempt.ended()
        assert client.node_stats(1).in_flight == 50 == len(client._in_flight)
    assert not client._in_flight


def test_repeated_calls_and_foreign_attempts_are_refused() -> None:
    client = Nodes(3)
    read, other = (client.choose([0, 1], PAGE, home=0) for _ in range(2))
    attempt = read.sent(0)
    for wrong in ("slow", ""):
        with pytest.raises(ValueError, match=f"end is '{wrong}'; .* one of succeeded, failed"):
            attempt.ended(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=f"kind is '{wrong}'; .* one of primary, hedge, probe"):
            read.sent(0, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="node 2 is not a candidate .* are 0, 1"):
        read.sent(2)
    with pytest.raises(ValueError, match="the winner is an attempt of another read"):
        other.answered(attempt)
    attempt.ended()
    with pytest.raises(ValueError, match="the attempt has ended already"):
        attempt.ended()
    read.answered(attempt)
    for call in (
        lambda: read.answered(attempt), read.next, read.hedge, lambda: read.sent(0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="the read is answered already"):
            call()
    assert client.stats().sent == client.stats().ended == 1
    late = other.sent(0)
    client.close()
    client.close()
    for call in (
        *(
            late.ended,
            lambda: other.answered(late),
            other.next,
            client.stats,
            client.next_query_node,
        ),
        *(lambda: client.choose([0], 1), lambda: client.node_stats(0), lambda: other.sent(1)),
        *(lambda: client.build_query(0, 0, 1), lambda: client.receive_report(0, b"")),
        lambda: client.query_first([0], 0),
    ):
        with pytest.raises(ValueError, match="the client is closed"):
            call()


def test_invalid_arguments_are_named() -> None:
    for options, says in (
        ({"probe_after_ms": 0}, "probe_after_ms is 0; it must be between 1 and 250"),
        ({"hedge_percent": 99}, "hedge_percent is 99; it must be at least 100"),
        ({"probe_percent": 101}, "probe_percent is 101; it must be between 0 and 100"),
        ({"key": bytes(257)}, "key_bytes is 257; it must be between 0 and 256"),
    ):
        with pytest.raises(OSError, match=re.escape(says)):
            Nodes(3, **options)
    with pytest.raises(OSError, match="n_nodes is 0; it must be at least 1"):
        Nodes(0)
    for name in ("n_nodes", "report_ttl_ms", "seed"):
        for value in (-1, 1 << 64):
            with pytest.raises(ValueError, match=f"{name} is {value}[;:]"):
                Nodes(**{"n_nodes": 3, name: value})
    with pytest.raises(ValueError, match="mode is 'guess'; .* one of observe, choose, hedge"):
        Nodes(3, mode="guess")  # type: ignore[arg-type]
    with Nodes(3) as client:
        for candidates, says in (
            ([], "n_candidates is 0; it must be between 1 and 16"),
            ([0] * 17, "n_candidates is 17"),
            ([0, 3], "candidate 1 is node 3; it must be between 0 and 2"),
        ):
            with pytest.raises(OSError, match=says):
                client.choose(candidates, PAGE)
        # The lower 32 bits are those of node 0.
        with pytest.raises(ValueError, match="candidate is 4294967296; it must be"):
            client.choose([1 << 32], PAGE)
        with pytest.raises(ValueError, match="node 2 is not a candidate .* are 0, 1"):
            client.choose([0, 1], PAGE, home=2)
        with pytest.raises(ValueError, match="size is -1;"):
            client.choose([0, 1], -1)
        with pytest.raises(ValueError, match="now_ns is -1;"):
            client.choose([0, 1], 1, now_ns=-1)
        with pytest.raises(OSError, match="node is 3; it must be between 0 and 2"):
            client.node_stats(3)
        for node, size in ((3, PAGE), (0, 0)):
            with pytest.raises(ValueError, match=f"{size} bytes on node {node}: the client has"):
                client.build_query(node, 0, size)
        with pytest.raises(ValueError, match="drive is 65536; it must be between 0 and 65535"):
            client.build_query(0, 65536, PAGE)
        assert client.stats().reads == 0


def test_missing_or_incompatible_library_error_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LINNOS_CLUSTER_LIB", str(tmp_path / "none.so"))
    binding.library.cache_clear()
    with pytest.raises(LinnappError, match="none.so: .*make cluster.*LINNOS_CLUSTER_LIB"):
        Nodes(3)
    # All functions, in a version that may have other structures.
    version = (SOURCE / "liblinnos-cluster.map").read_text().replace("CLUSTER_1", "CLUSTER_2")
    (tmp_path / "next.map").write_text(version)
    subprocess.run(
        ["gcc", "-shared", f"-Wl,--version-script={tmp_path}/next.map", "-Wl,--whole-archive",
         BUILDS.out / "liblinnos-cluster.a", "-Wl,--no-whole-archive", "-lsodium", "-lm",
         "-o", tmp_path / "next.so"],
        check=True,
    )  # fmt: skip
    monkeypatch.setenv("LINNOS_CLUSTER_LIB", str(tmp_path / "next.so"))
    with pytest.raises(
        LinnappError, match=r"has no linnos_cluster_\w+ of LIBLINNOS_CLUSTER_1; run"
    ):
        Nodes(3)
    binding.library.cache_clear()


def test_unknown_option_is_named() -> None:
    with pytest.raises(
        TypeError, match=r"^Nodes\(\) got an unexpected keyword argument 'hedge_us'"
    ):
        Nodes(3, **{"hedge_us": 1})


def test_options_are_those_of_the_header() -> None:
    library = binding.library()
    members = {name for name, _ in library.ffi.typeof("struct linnos_cluster_options").fields}
    given = set(binding.Choosing.__annotations__)
    assert given - {"unguarded"} == members - {"size", "flags", "key_bytes"}
    defaults = library.defaults("linnos_cluster.h", "linnos_cluster_options")
    assert defaults["margin_percent"] == 5 and defaults["query_percent"] == 100


def test_every_function_of_the_header_is_used() -> None:
    source = Path(binding.__file__).read_text()
    names = set(
        re.findall(r"^\t(linnos_\w+);", (SOURCE / "liblinnos-cluster.map").read_text(), re.M)
    )
    assert names == set(re.findall(r"\.(linnos_cluster_\w+)\b", source))
