# SPDX-License-Identifier: MIT
"""Views of a drive under load show what the kernel did."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from guest_runs import GuestResult

from linnapp.lab.array import Array
from linnapp.model import Model

pytestmark = pytest.mark.lab

HERE = Path(__file__).parent

#: Reads one at a time, every fifth 3 ms slower.
RUN = """
export LINNAPP_STATE=/run/tmp/state
linnapp upload --model {model} --device /dev/flash0 --mode enforce
inject flash0 pattern=interval interval=5 latency_us=3000 op=read
python {here}/hinted_reads.py /dev/flash0 100000 &
reader=$!
sleep 0.5
linnapp explain flash0 --last 20 --json >$OUT/last.json
linnapp explain /dev/flash0 --slow --duration 0.5 --last 5 --json >$OUT/slow.json
linnapp top flash0 --once --json >$OUT/top.json
kill $reader
wait $reader || :
linnapp exporter --once flash0 >$OUT/metrics.txt
for file in stats/revoked stats/reads stats/slow stats/false_submits stats/inference_ns; do
    echo $(basename $file) $(cat /sys/block/flash0/linnos/$file)
done >$OUT/counters.txt
cat /sys/block/flash0/stat >$OUT/stat.txt
cat /sys/block/flash0/linnos/latency_us_histogram >$OUT/histogram.txt
ls -d /sys/kernel/debug/tracing/instances/* >$OUT/instances.txt 2>/dev/null || :
"""


def test_views_show_the_decisions_of_the_kernel(boot, queue_model: Path) -> None:
    result = boot(RUN.format(model=queue_model, here=HERE), Array(n_drives=1, size_mb=64))
    decisions: list[dict[str, Any]] = result.json("last.json")["decisions"]
    assert len(decisions) == 20
    for each in decisions:
        assert each["saw"]["pending"] == 1
    # One read at a time, so its latency is the newest latency in the history of the next.
    for each, following in itertools.pairwise(decisions):
        assert abs(each["latency_us"] - following["saw"]["hist_latency_us"][3]) <= 1
    slow = [each for each in decisions if each["latency_us"] > 3000]
    assert len(slow) == 4
    assert all(each["outcome"].endswith("slow: a slow read admitted") for each in slow)

    slowest = result.json("slow.json")["decisions"]
    assert len(slowest) == 5
    assert all(3000 < each["latency_us"] < 4000 for each in slowest)
    assert result.text("instances.txt") == ""  # no trace instance remains
    (row,) = result.json("top.json")["drives"]
    seen = row["read_us_percentiles"]
    # Within 12 %, as the kernel counts them in buckets.
    assert 0 < seen["p50"] < 1000 and 0.88 * 3000 < seen["p99"] < 1.12 * 4000
    assert seen["p50"] < row["read_us_mean"] < seen["p99"]
    assert row["reads_per_s"] == pytest.approx(row["per_second"]["reads"], abs=5)
    assert seen["reads"] == pytest.approx(row["reads_per_s"] * row["interval_s"], abs=5)
    assert row["per_second"]["slow"] == pytest.approx(row["reads_per_s"] / 5, rel=0.1)
    _check_metrics(result, Model.load(queue_model))


def _check_metrics(result: GuestResult, model: Model) -> None:
    """Compare the exporter's values with the kernel's counters; no read came in between."""
    metrics = {}
    for line in result.text("metrics.txt").splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            metrics[name] = float(value)
    words = result.words("counters.txt")
    counters = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    drive = '{drive="flash0"}'
    assert metrics["linnos_drives"] == 1
    assert metrics[f"linnos_reads_total{drive}"] == counters["reads"] > 100
    assert metrics[f"linnos_revoked_total{drive}"] == counters["revoked"] == 0
    assert metrics[f"linnos_slow_reads_total{drive}"] == counters["slow"] > 20
    assert metrics[f"linnos_false_submits_total{drive}"] == counters["false_submits"] > 20
    assert metrics[f"linnos_inference_seconds_total{drive}"] == counters["inference_ns"] / 1e9
    counts = result.numbers("histogram.txt")
    name = "linnos_read_latency_seconds"
    assert metrics[f"{name}_count{drive}"] == sum(counts) == counters["reads"]
    assert metrics[f'{name}_bucket{{drive="flash0",le="+Inf"}}'] == counters["reads"]
    # No read takes from 1 to 3 ms: delayed reads take longer, all others less.
    faster = metrics[f'{name}_bucket{{drive="flash0",le="0.001024"}}']
    assert metrics[f'{name}_bucket{{drive="flash0",le="0.00256"}}'] == faster
    assert counters["reads"] - faster == pytest.approx(counters["reads"] / 5, abs=1)
    read_ios, _, sectors, read_ms = result.numbers("stat.txt")[:4]
    assert metrics[f"linnos_disk_reads_total{drive}"] == read_ios
    assert metrics[f"linnos_disk_read_bytes_total{drive}"] == sectors * 512
    assert metrics[f"linnos_disk_read_seconds_total{drive}"] == pytest.approx(read_ms / 1e3)
    assert metrics['linnos_mode{drive="flash0",mode="enforce"}'] == 1
    assert metrics['linnos_mode{drive="flash0",mode="off"}'] == 0
    named = f'{{drive="flash0",model_id="{model.model_id}"}}'
    assert metrics[f"linnos_model_info{named}"] == 1
    assert metrics[f"linnos_threshold_seconds{drive}"] == model.threshold_us / 1e6
    assert metrics[f"linnos_model_uploaded_timestamp_seconds{drive}"] > 1.5e9
