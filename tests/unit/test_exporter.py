# SPDX-License-Identifier: MIT
"""Test `linnapp exporter`, and the alert rules and dashboard with Prometheus."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_sysfs import make_tree, replaced
from test_cli import ROOT, fails
from test_model_format import random_model

from linnapp import __version__
from linnapp.cli import cli
from linnapp.drive import state, switches
from linnapp.drive.latencies import N_BUCKETS
from linnapp.drive.snapshots import WatchedArray
from linnapp.drive.sysfs import Drive
from linnapp.errors import LinnappError
from linnapp.insight import exporter
from linnapp.insight.hour_page import Hour, render

MONITORING = ROOT / "linnapp" / "monitoring"
RULES = MONITORING / "linnos-rules.yaml"
DASHBOARD = MONITORING / "linnos-dashboard.json"

COUNTERS = (
    *("reads", "latency_critical", "admitted", "revoked", "probes", "slow"),
    *("false_submits", "false_revokes", "inferences", "inference_ns"),
)
#: 70 reads of 96 to 112 us, 30 of slightly more than a second.
LATENCY_COUNTS = [70 if k == 19 else 30 if k == 72 else 0 for k in range(N_BUCKETS)]
STAT = "1000 0 8000 250 500 0 4000 125 3 300 375 0 0 0 0 0 0\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make two drives with counters of 100, 200, ... in the order above; the first has a model."""
    make_tree(tmp_path, monkeypatch)
    monkeypatch.setenv("LINNAPP_STATE", str(tmp_path / "state"))
    for disk in "sda", "sdb":
        (tmp_path / "block" / disk / "stat").write_text(STAT)
        for number, name in enumerate(COUNTERS, 1):
            path = tmp_path / "block" / disk / "linnos" / "stats" / name
            path.write_text(f"{number * 100}\n")
        histogram = tmp_path / "block" / disk / "linnos" / "latency_us_histogram"
        histogram.write_text(" ".join(map(str, LATENCY_COUNTS)) + "\n")
    model = random_model()
    linnos = tmp_path / "block" / "sda" / "linnos"
    (linnos / "model_id").write_text(f"{model.model_id}\n")
    (linnos / "threshold_us").write_text("421\n")
    (linnos / "mode").write_text("enforce\n")
    state.save_upload("sda", model.model_id)
    switches.add_reset("sdb", "refused too many")
    return tmp_path


def once(capsys: pytest.CaptureFixture[str], *devices: str) -> dict[str, float]:
    cli.main(["exporter", "--once", *devices], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def test_metrics_equal_the_kernels_values(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = once(capsys)
    model_id = Drive("sda").model_id
    assert found["linnos_drives"] == 2
    assert (
        found[f'linnapp_build_info{{kernel="{os.uname().release}",version="{__version__}"}}'] == 1
    )
    assert not any("linnos_array_asks{" in name for name in found)
    for name, value in {
        'linnos_reads_total{drive="sda"}': 100,
        'linnos_revoked_total{drive="sdb"}': 400,
        'linnos_slow_reads_total{drive="sda"}': 600,
        'linnos_inference_seconds_total{drive="sda"}': 1000e-9,
        'linnos_disk_reads_total{drive="sda"}': 1000,
        'linnos_disk_read_seconds_total{drive="sda"}': 0.25,
        'linnos_disk_read_bytes_total{drive="sda"}': 8000 * 512,
        'linnos_disk_busy_seconds_total{drive="sda"}': 0.3,
        'linnos_disk_in_flight{drive="sdb"}': 3,
        'linnos_mode{drive="sda",mode="enforce"}': 1,
        'linnos_mode{drive="sda",mode="observe"}': 0,
        'linnos_model_loaded{drive="sda"}': 1,
        'linnos_model_loaded{drive="sdb"}': 0,
        f'linnos_model_info{{drive="sda",model_id="{model_id}"}}': 1,
        'linnos_threshold_seconds{drive="sda"}': 421e-6,
        'linnos_switched_back_timestamp_seconds{device="sdb"}': switches.current_resets()[0].time_s,
    }.items():
        assert found[name] == pytest.approx(value), name
    age = time.time() - found['linnos_model_uploaded_timestamp_seconds{drive="sda"}']
    assert 0 <= age < 1000
    assert 'linnos_threshold_seconds{drive="sdb"}' not in found
    only = once(capsys, "sdb")
    assert only["linnos_drives"] == 1
    assert not any('drive="sda"' in name for name in only)


def test_metrics_of_md_arrays_that_query_linnos(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, setting in (("md0", "on"), ("md1", "off"), ("md2", "unguarded"), ("md3", None)):
        md = tree / "block" / name / "md"
        md.mkdir(parents=True)
        if setting is not None:  # a kernel that can query
            (md / "linnos").write_text(setting + "\n")
    asks = {
        match[1]: value
        for name, value in once(capsys).items()
        if (match := re.fullmatch(r'linnos_array_asks{array="(\w+)"}', name))
    }
    assert asks == {"md0": 1, "md1": 0, "md2": 1}


def test_latencies_are_a_histogram(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = once(capsys)
    name = "linnos_read_latency_seconds"
    ends = {
        float(match[1]): value
        for series, value in found.items()
        if (match := re.fullmatch(rf'{name}_bucket{{drive="sda",le="(.*)"}}', series))
    }
    assert len(ends) == N_BUCKETS
    # A read is in the first bucket whose `le` exceeds it.
    assert [ends[le] for le in (9.6e-5, 1.12e-4, 0.917504, 1.048576, float("inf"))] == [
        *(0, 70, 70, 100, 100)
    ]
    assert found[f'{name}_count{{drive="sda"}}'] == 100
    assert found[f'{name}_sum{{drive="sda"}}'] == pytest.approx(70 * 104e-6 + 30 * 0.98, rel=0.01)


def test_a_drive_that_goes_away_and_a_missing_counter_are_left_out(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "block" / "sda" / "linnos" / "stats" / "probes").unlink()
    found = once(capsys)
    assert 'linnos_probes_total{drive="sda"}' not in found
    assert 'linnos_probes_total{drive="sdb"}' in found
    # While a drive is removed, its files exist but are empty.
    (tree / "block" / "sda" / "linnos" / "threshold_us").write_text("")
    (tree / "block" / "sda" / "stat").write_text("")
    assert once(capsys)["linnos_drives"] == 1
    shutil.rmtree(tree / "block" / "sda" / "linnos" / "stats")
    found = once(capsys)
    assert found["linnos_drives"] == 1
    assert not any('drive="sda"' in name for name in found)


def test_exporter_refuses_wrong_addresses(tree: Path) -> None:
    fails("expected [HOST:]PORT", "exporter", "--listen", "nowhere")
    with pytest.raises(LinnappError, match=r"--listen 192\.0\.2\.1:1: .*choose another"):
        cli.main(["exporter", "--listen", "192.0.2.1:1"], standalone_mode=False)
    shutil.rmtree(tree / "block")
    with pytest.raises(LinnappError, match="no disk has LinnOS"):
        cli.main(["exporter", "--once"], standalone_mode=False)


def dashboard_queries() -> list[str]:
    """Return every expression of the dashboard, with variables replaced as in Grafana."""
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [
        target["expr"]
        .replace("$__rate_interval", "10s")
        .replace("$drive", ".*")
        .replace("$instance", ".*")
        for asks in (
            *(panel["targets"] for panel in dashboard["panels"]),
            dashboard["annotations"]["list"],
        )
        for target in asks
    ]
    assert len(queries) > 15
    assert not any("$" in query for query in queries)
    return queries


def test_rules_and_dashboard_use_existing_metrics(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "block" / "md0" / "md").mkdir(parents=True)
    (tree / "block" / "md0" / "md" / "linnos").write_text("on\n")
    has = {name.partition("{")[0] for name in once(capsys)}
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    recorded = {rule["record"] for rule in group["rules"] if "record" in rule}
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    names = set()
    for query in [
        *dashboard_queries(),
        *(rule["expr"] for rule in group["rules"]),
        *(str(variable["query"]) for variable in variables),
    ]:
        names |= set(re.findall(r"\blinnos[_:][\w:]+", query))
    assert len(names) > 15
    assert names <= has | recorded, names - has - recorded
    for rule in group["rules"]:
        if "alert" in rule:
            page, _, anchor = rule["annotations"]["runbook"].partition("#")
            assert anchor == rule["alert"].lower()
            assert f"\n### {rule['alert']}\n" in (ROOT / page).read_text()
    assert {rule["alert"] for rule in group["rules"] if "alert" in rule} == {
        *("LinnosAdmittedSlowUp", "LinnosDriveFailSlow", "LinnosModelStale", "LinnosNoModel"),
        *("LinnosOff", "LinnosExporterDown", "LinnosSwitchedBack"),
    }


needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="Debian's prometheus is not installed (packaging/apt/prometheus.txt)",
)


def check_rules(tmp_path: Path, case: str) -> None:
    """Play time series with promtool, and check the resulting alerts.

    A case gives the length of a step, a line for each series with its values, and the
    alerts, of one name or any, that must fire at some time.
    """
    interval, *lines = case.split("\n")[1:-1]
    series: list[dict[str, str]] = []
    looks: list[dict[str, Any]] = []
    for line in lines:
        if look := re.fullmatch(r"at (\w+)(?: of (\w+))?:", line):
            name = f',alertname="{look[2]}"' if look[2] else ""
            expr = f'ALERTS{{alertstate="firing"{name}}}'
            looks.append({"eval_time": look[1], "expr": expr, "exp_samples": []})
        elif alert := re.fullmatch(r"  (\w+)\{(.*)\}", line):
            labels = f'ALERTS{{alertname="{alert[1]}",alertstate="firing",{alert[2]}}}'
            looks[-1]["exp_samples"].append({"labels": labels, "value": 1})
        else:
            name, _, values = line.partition(" ")
            series.append({"series": name, "values": values})
    test = {"interval": interval, "input_series": series, "promql_expr_test": looks}
    rules = {"rule_files": [str(RULES)], "evaluation_interval": interval, "tests": [test]}
    path = tmp_path / "rules.yaml"
    path.write_text(json.dumps(rules))
    result = subprocess.run(
        ["promtool", "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


#: Series, and the alerts that fire. In `reboot` and `arrays` all devices were on yesterday. The
#: exporter misses three minutes at a reboot. After that `a` is off without a model, `b` is on
#: again, `c` is absent because the kernel has no LinnOS, and `d` is off as always; md0 to md3 are
#: the same. On host `two` everything stays on, except during a recording.
RULE_CASES = {
    "admitted slow": """
1m
linnos_admitted_total{drive="a",instance="i"} 0+1000x1500
linnos_false_submits_total{drive="a",instance="i"} 0+15x1440 21600+40x60
linnos_admitted_total{drive="b",instance="i"} 0+1000x1500
linnos_false_submits_total{drive="b",instance="i"} 0+40x1500
at 1435m of LinnosAdmittedSlowUp:
at 1480m of LinnosAdmittedSlowUp:
  LinnosAdmittedSlowUp{drive="a",instance="i",severity="warning"}
""",
    "fail slow": """
1m
linnos_disk_reads_total{drive="a",instance="i"} 0+1000x60
linnos_disk_read_seconds_total{drive="a",instance="i"} 0+0.1x60
linnos_disk_reads_total{drive="b",instance="i"} 0+1000x60
linnos_disk_read_seconds_total{drive="b",instance="i"} 0+0.4x60
linnos_disk_reads_total{drive="c",instance="i"} 0+1000x60
linnos_disk_read_seconds_total{drive="c",instance="i"} 0+0.12x60
linnos_disk_reads_total{drive="a",instance="two"} 0+1000x60
linnos_disk_read_seconds_total{drive="a",instance="two"} 0+0.1x60
linnos_disk_reads_total{drive="b",instance="two"} 0+1000x60
linnos_disk_read_seconds_total{drive="b",instance="two"} 0+0.28x60
at 30m of LinnosDriveFailSlow:
  LinnosDriveFailSlow{drive="b",instance="i",severity="warning"}
""",
    "no model": """
1m
linnos_mode{drive="a",instance="i",mode="enforce"} 1x60
linnos_mode{drive="b",instance="i",mode="observe"} 1x60
linnos_model_loaded{drive="a",instance="i"} 1x60
linnos_model_loaded{drive="b",instance="i"} 0x60
at 30m of LinnosNoModel:
  LinnosNoModel{drive="b",instance="i",mode="observe",severity="warning"}
""",
    "stale": """
1h
linnos_model_uploaded_timestamp_seconds{drive="a",instance="i"} 0x800
at 29d of LinnosModelStale:
at 31d of LinnosModelStale:
  LinnosModelStale{drive="a",instance="i",severity="info"}
""",
    "reboot": """
1m
up{instance="i",job="linn"} 1x1440 0x2 1x200
linnos_drives{instance="i",job="linn"} 4x1440 stale _x2 3x200
linnos_mode{drive="a",instance="i",job="linn",mode="enforce"} 1x1440 stale _x2 0x200
linnos_mode{drive="a",instance="i",job="linn",mode="off"} 0x1440 stale _x2 1x200
linnos_model_loaded{drive="a",instance="i",job="linn"} 1x1440 stale _x2 0x200
linnos_mode{drive="b",instance="i",job="linn",mode="enforce"} 1x1440 stale _x2 0x5 1x200
linnos_mode{drive="b",instance="i",job="linn",mode="off"} 0x1440 stale _x2 1x5 0x200
linnos_mode{drive="c",instance="i",job="linn",mode="observe"} 1x1440 stale
linnos_mode{drive="d",instance="i",job="linn",mode="enforce"} 0x1440 stale _x2 0x200
linnos_mode{drive="d",instance="i",job="linn",mode="off"} 1x1440 stale _x2 1x200
linnos_drives{instance="two",job="linn"} 1x1700
linnos_mode{drive="a",instance="two",job="linn",mode="enforce"} 1x1700
at 1440m:
at 1470m:
  LinnosOff{drive="a",instance="i",severity="warning"}
  LinnosOff{drive="c",instance="i",severity="warning"}
""",
    "arrays": """
1m
linnos_drives{instance="i",job="linn"} 2x1440 stale _x2 2x200
linnos_mode{drive="a",instance="i",job="linn",mode="observe"} 1x1440 stale _x2 1x200
linnos_array_asks{array="md0",instance="i",job="linn"} 1x1440 stale _x2 0x200
linnos_array_asks{array="md1",instance="i",job="linn"} 1x1440 stale _x2 0x5 1x200
linnos_array_asks{array="md2",instance="i",job="linn"} 1x1440 stale
linnos_array_asks{array="md3",instance="i",job="linn"} 0x1440 stale _x2 0x200
linnos_drives{instance="two",job="linn"} 2x1700
linnos_array_asks{array="md0",instance="two",job="linn"} 1x1424 0x15 1x260
at 1440m of LinnosOff:
at 1500m of LinnosOff:
  LinnosOff{array="md0",instance="i",severity="warning"}
  LinnosOff{array="md2",instance="i",severity="warning"}
""",
    "exporter down": """
1m
up{instance="i",job="linn"} 1x100 0x200
linnos_drives{instance="i",job="linn"} 3x100 stale
linnos_mode{drive="a",instance="i",job="linn",mode="enforce"} 1x100 stale
up{instance="i",job="node"} 1x100 0x200
at 100m:
at 130m:
  LinnosExporterDown{instance="i",job="linn",severity="warning"}
""",
}


@needs_prometheus
@pytest.mark.parametrize("case", RULE_CASES)
def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path, case: str) -> None:
    check_rules(tmp_path, RULE_CASES[case])


@contextlib.contextmanager
def an_exporter(*options: str) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "linnapp", "exporter", "--listen", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        match = re.fullmatch(r"listening on http://(127\.0\.0\.1:\d+)/metrics\n", line)
        assert match, line
        assert process.stderr.readline() == f"the last hour is on http://{match[1]}/\n"
        yield match[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 130
        assert process.stderr.read().strip() == ""
        process.stderr.close()
    finally:
        process.kill()


def ask(address: str, request: bytes) -> tuple[bytes, bytes]:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=600) as client:
        client.sendall(request)
        head, _, body = client.makefile("rb").read().partition(b"\r\n\r\n")
        return head, body


def get(address: str, path: str = "/", method: str = "GET") -> tuple[int, bytes, str]:
    """Return the status, the headers and the body."""
    head, body = ask(address, f"{method} {path} HTTP/1.0\r\n\r\n".encode())
    return int(head.split()[1]), head, body.decode()


def test_exporter_serves_current_values_its_page_and_its_health(tree: Path) -> None:
    stats = tree / "block" / "sda" / "linnos" / "stats"
    with an_exporter("--every", "0.1") as address:
        assert 'linnos_reads_total{drive="sda"} 100.0' in get(address, "/metrics")[2]
        replaced(stats / "reads", "101\n")
        assert 'linnos_reads_total{drive="sda"} 101.0' in get(address, "/metrics")[2]
        # The kernel's counter increases between two snapshots.
        deadline = time.monotonic() + 600
        for number in itertools.count():
            replaced(stats / "revoked", f"{1000 + number}\n")
            page = get(address)[2]
            found = re.search(r'aria-label="sda, [^"]*; (\d+) reads refused', page)
            if (found and int(found[1]) > 10) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        assert found and int(found[1]) > 10
        assert "<h2>sda</h2>" in page and Drive("sda").model_id in page
        assert get(address, "/-/healthy")[2] == "healthy\n"
        assert get(address, "/hour.html")[0] == 404
        for path in ("/", "/nothing"):
            _, head, body = get(address, path, "HEAD")
            assert not body and re.search(rb"Content-Length: [1-9]", head), path
        status, head, _ = get(address, method="DELETE")
        assert status == 405 and b"Allow: GET, HEAD" in head
        # A client that disconnects in the middle; the end of the exporter checks stderr.
        host, port = address.rsplit(":", 1)
        client = socket.create_connection((host, int(port)))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"GET / HT")
        client.close()
        assert get(address)[0] == 200


def test_page_reports_an_error_once_and_shows_how_old_its_values_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hour, error = Hour(), RuntimeError("no luck")
    looks = iter([[], error, error, [], KeyboardInterrupt()])

    def take_snapshot(self: WatchedArray) -> list[Any]:
        if isinstance(found := next(looks), BaseException):
            raise found
        return found

    monkeypatch.setattr(WatchedArray, "take_snapshot", take_snapshot)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(KeyboardInterrupt):
        exporter._take_snapshots(hour, [], 5.0)
    assert capsys.readouterr().err.count("cannot read the drives: RuntimeError: no luck") == 1
    assert hour.last_snapshot_s is not None
    assert "The last snapshot was" not in render(hour, 5.0, hour.last_snapshot_s + 14)
    assert "The last snapshot was taken 5 min ago" in render(hour, 5.0, hour.last_snapshot_s + 300)


def test_exporter_says_what_it_requires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(LinnappError, match=r"pip install 'linnapp\[exporter\]'"):
        cli.main(["exporter", "--listen", "0"], standalone_mode=False)
