# SPDX-License-Identifier: MIT
"""A native histogram in Prometheus has what the kernel counted, both of them in the lab."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from linnapp.drive.counters.latencies import LOWEST_US
from linnapp.lab.array import Array

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        shutil.which("prometheus") is None or shutil.which("curl") is None,
        reason="prometheus (debian-packages-prometheus.txt) or curl is not installed",
    ),
]

HERE = Path(__file__).parent

#: Reads one at a time, every fifth 3 ms slower; then two scrapes, and nothing moves.
RUN = """
export LINNAPP_STATE=/run/tmp/state GOMAXPROCS=1
python -c 'import fcntl, socket, struct
up_running = struct.pack("16sH14x", b"lo", 1 | 64)
fcntl.ioctl(socket.socket(), 0x8914, up_running)  # SIOCSIFFLAGS'
linnapp upload --model {model} --device /dev/flash0 --mode enforce
cd /sys/kernel/config/flashsim/flash0/inject
echo interval >pattern && echo 5 >interval && echo 3000 >latency_us && echo read >op
echo 1 >arm
cd /
linnapp exporter --listen 9870 --no-page flash0 &
cat >/run/tmp/prometheus.yaml <<'END'
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: linnos
    static_configs: [{{targets: ["127.0.0.1:9870"]}}]
END
prometheus --config.file=/run/tmp/prometheus.yaml --storage.tsdb.path=/run/tmp/data \\
    --web.listen-address=127.0.0.1:9090 --enable-feature=native-histograms 2>$OUT/prometheus.log &
python {here}/hinted_reads.py /dev/flash0 2000
sleep 3
cat /sys/block/flash0/linnos/latency_us_histogram >$OUT/histogram.txt
ask() {{
    curl -sG http://127.0.0.1:9090/api/v1/query --data-urlencode "query=$2" >$OUT/$1.json
}}
name=linnos_read_latency_seconds
ask count "histogram_count($name)"
ask p50 "histogram_quantile(0.5, $name)"
ask p99 "histogram_quantile(0.99, $name)"
ask reads linnos_reads_total
"""


def test_prometheus_has_what_the_kernel_counted(boot, tmp_path: Path, queue_model: Path) -> None:
    boot(RUN.format(model=queue_model, here=HERE), Array(n_drives=1, size_mb=64))

    def value(name: str) -> float:
        (result,) = json.loads((tmp_path / f"{name}.json").read_text())["data"]["result"]
        assert result["metric"]["drive"] == "flash0"
        return float(result["value"][1])

    counts = [int(word) for word in (tmp_path / "histogram.txt").read_text().split()]
    assert value("count") == value("reads") == sum(counts) == 2000
    # One in five: more than 3 ms, and not as much as 4; all else is sooner done than 1 ms.
    p50_us, p99_us = value("p50") * 1e6, value("p99") * 1e6
    assert p50_us < 1000
    assert 3000 / 1.135 < p99_us < 4000 * 1.135
    for us, rank in ((p50_us, 1000), (p99_us, 1980)):
        bucket = next(k for k in range(len(counts)) if sum(counts[: k + 1]) >= rank)
        assert LOWEST_US[bucket] < us < LOWEST_US[bucket + 1]
