# SPDX-License-Identifier: MIT
"""The exporter's answer in protobuf: all that the text has, and native histograms."""

from __future__ import annotations

import bisect
import gzip
import itertools
import random
import re
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from metric_families import families, native_buckets, samples
from prometheus_client.parser import text_string_to_metric_families
from test_exporter import (
    LATENCY_COUNTS,
    a_prometheus,
    answered,
    asked,
    exporter,
    needs_prometheus,
    replaced,
    tree,
)

from linnapp.drive.counters import metrics_protobuf
from linnapp.drive.counters.latencies import LOWEST_US, MIDDLE_US, N_BUCKETS
from linnapp.drive.counters.metrics import _histogram

__all__ = ["exporter", "tree"]

_PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily"
#: what Prometheus 2.42, 2.53 and 3.5 send when native histograms are switched on ...
PROMETHEUS_ACCEPTS, *LATER_ACCEPT = (
    f"{_PROTOBUF};encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,"
    "application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    f"{_PROTOBUF};encoding=delimited;q=0.5,application/openmetrics-text;version=1.0.0;q=0.4,"
    "application/openmetrics-text;version=0.0.1;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
    f"{_PROTOBUF};encoding=delimited;q=0.6,"
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
)
#: ... and 3.5 when they are not
PLAIN_ACCEPT = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def answer(address: str, **headers: str) -> tuple[str, bytes]:
    request = urllib.request.Request(f"http://{address}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=600) as found:
        body = found.read()
        if found.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        return str(found.headers["Content-Type"]), body


def native(counts: list[int]) -> Any:
    """The histogram of a drive with such counts, decoded."""
    (family,) = families(metrics_protobuf.encoded([_histogram({"sda": counts})]))
    (metric,) = family.metric
    return metric.histogram


def test_protobuf_has_all_that_the_text_has(exporter: str, tree: Path) -> None:
    """Names, types, help, labels, values."""
    # Counters beyond what fits one byte, and one that is beyond a double's digits.
    big = 2**53 + 3
    counts = [big, *LATENCY_COUNTS[1:]]
    replaced(tree / "block/sdb/linnos/latency_us_histogram", " ".join(map(str, counts)) + "\n")
    kind, protobuf = answer(exporter, Accept=PROMETHEUS_ACCEPTS)
    assert kind == metrics_protobuf.CONTENT_TYPE
    kind, text = answer(exporter)
    assert kind.startswith("text/plain")
    expected = {}
    described = {}
    for family in text_string_to_metric_families(text.decode()):
        name = family.name + "_total" * (family.type == "counter")
        described[name] = (family.type, family.documentation)
        for sample in family.samples:
            expected[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    assert len(expected) > 200
    assert samples(protobuf).keys() == expected.keys()
    found = {key: float(value) for key, value in samples(protobuf).items()}
    assert found == expected
    types = ("counter", "gauge", "summary", "untyped", "histogram")
    assert described == {
        family.name: (types[family.type], family.help) for family in families(protobuf)
    }
    (latencies,) = (f for f in families(protobuf) if f.name == "linnos_read_latency_seconds")
    by_drive = {metric.label[0].value: metric.histogram for metric in latencies.metric}
    assert by_drive["sda"].sample_count == 100
    assert by_drive["sdb"].sample_count == by_drive["sdb"].zero_count + 100 == big + 100


def test_each_kernel_bucket_has_a_native_one() -> None:
    """And it is no further from the reads in it than the documentation says (13.5 %)."""
    counts = [k + 1 for k in range(N_BUCKETS)]
    histogram = native(counts)
    assert histogram.schema == 4
    assert histogram.zero_threshold == 4e-6 and histogram.zero_count == counts[0]
    found = native_buckets(histogram)
    # Each count is there once, and in the same order.
    assert list(found.values()) == counts[1:]
    assert list(found) == sorted(found)
    assert histogram.sample_count == sum(counts)
    base = 2 ** (1 / 16)
    ends = itertools.pairwise(LOWEST_US[1:])
    for index, middle_us, (lowest_us, end_us) in zip(found, MIDDLE_US[1:], ends, strict=False):
        low_us, high_us = base ** (index - 1) * 1e6, base**index * 1e6
        assert lowest_us < low_us < middle_us <= high_us < end_us
        assert high_us < lowest_us * 1.135 and low_us > end_us * (1 - 0.135)
    # The last has no end: as in the classic form, its reads count as the shortest of them.
    last = list(found)[-1]
    assert base ** (last - 1) < LOWEST_US[-1] / 1e6 <= base**last


@pytest.mark.parametrize(
    "populated", [{}, {0: 3}, {1: 1}, {19: 70, 72: 30}, {86: 2**40, 87: 1}, {40: 5, 41: 2, 42: 9}]
)
def test_what_is_empty_is_left_out(populated: dict[int, int]) -> None:
    histogram = native([populated.get(k, 0) for k in range(N_BUCKETS)])
    found = native_buckets(histogram)
    assert list(found.values()) == [n for k, n in populated.items() if k]
    assert histogram.zero_count == populated.get(0, 0)
    # It is a native histogram to Prometheus without a read, too.
    assert histogram.zero_threshold > 0
    assert all(span.length for span in histogram.positive_span)


def test_counts_only_grow() -> None:
    """Or Prometheus takes it for a restart: more reads never take one from a native bucket."""
    before = native_buckets(native([n + 1 for n in LATENCY_COUNTS]))
    for k in range(1, N_BUCKETS):
        counts = [n + 1 + (7 if j == k else 0) for j, n in enumerate(LATENCY_COUNTS)]
        after = native_buckets(native(counts))
        grown = {index: n - before[index] for index, n in after.items() if n != before[index]}
        assert list(grown.values()) == [7]


@pytest.mark.parametrize(
    ("accept", "protobuf"),
    [
        (PROMETHEUS_ACCEPTS, True),
        *((accept, True) for accept in LATER_ACCEPT),
        (PLAIN_ACCEPT, False),
        (f"{_PROTOBUF};encoding=delimited", True),
        (f'{_PROTOBUF.replace("=io", "=" + chr(34) + "io")}"; Encoding=delimited; q=1', True),
        (f"{_PROTOBUF};encoding=delimited;escaping=allow-utf-8;q=0.6,text/plain;q=0.5", True),
        (f"text/plain;q=0.6,{_PROTOBUF};encoding=delimited;q=0.5", False),
        (f"{_PROTOBUF};encoding=delimited;q=0", False),
        (f"{_PROTOBUF};encoding=delimited;q=much", False),
        (f"{_PROTOBUF};encoding=text", False),
        ("application/vnd.google.protobuf", False),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", False),
        ("*/*", False),
        ("", False),
        (",;;=,", False),
    ],
)
def test_it_is_sent_to_who_asks_for_it(accept: str, protobuf: bool) -> None:
    assert metrics_protobuf.wanted(accept) is protobuf


def test_what_is_asked_for_is_answered(exporter: str) -> None:
    kind, body = answer(exporter, Accept=PROMETHEUS_ACCEPTS, **{"Accept-Encoding": "br, gzip;q=1"})
    assert kind == metrics_protobuf.CONTENT_TYPE and families(body)
    for accept in ("*/*", "application/openmetrics-text; version=1.0.0"):
        kind, body = answer(exporter, Accept=accept)
        assert "protobuf" not in kind
        assert re.search(r'linnos_reads_total\{drive="sda"\} 100', body.decode())
    # Some by name are prometheus_client's, and text.
    request = urllib.request.Request(
        f"http://{exporter}/metrics?name[]=linnos_drives", headers={"Accept": PROMETHEUS_ACCEPTS}
    )
    with urllib.request.urlopen(request, timeout=600) as found:
        assert "protobuf" not in found.headers["Content-Type"]


def drawn(seed: int) -> list[float]:
    """Latencies in us of 20,000 reads: most near 100 us, one in 25 as long as a collection."""
    dice = random.Random(seed)
    return [
        dice.lognormvariate(4.6, 0.35) + (dice.uniform(500, 9000) if dice.random() < 0.04 else 0)
        for _ in range(20_000)
    ]


def values(address: str, query: str) -> dict[tuple[tuple[str, str], ...], float]:
    """What a server answers, by labels."""
    return {
        tuple(sorted(each["metric"].items())): float(each["value"][1])
        for each in asked(address, query)
    }


QUANTILES = (0.5, 0.9, 0.99, 0.999)


@needs_prometheus
def test_prometheus_makes_of_it_what_the_kernel_counted(
    exporter: str, tree: Path, tmp_path: Path
) -> None:
    """One server takes the native form, the other the classic one; both against the latencies."""
    latencies_us = {"sda": sorted(drawn(1)), "sdb": sorted(drawn(2))}
    # As the kernel does: whole microseconds.
    counted = {
        drive: Counter(bisect.bisect_right(LOWEST_US, int(us)) - 1 for us in found)
        for drive, found in latencies_us.items()
    }
    counts = {drive: [counted[drive][k] for k in range(N_BUCKETS)] for drive in counted}
    number = 0

    def move() -> None:
        nonlocal number
        number += 1
        for drive, each in counts.items():
            line = " ".join(str(n * number) for n in each)
            replaced(tree / "block" / drive / "linnos" / "latency_us_histogram", f"{line}\n")

    (tmp_path / "classic").mkdir()
    (tmp_path / "native").mkdir()
    move()
    with (
        a_prometheus(exporter, tmp_path / "classic") as classic,
        a_prometheus(exporter, tmp_path / "native", "native-histograms") as native,
    ):
        name = "linnos_read_latency_seconds"
        end = time.monotonic() + 600
        while not (
            asked(native, f"rate({name}[1h])") and asked(classic, f"rate({name}_bucket[1h])")
        ):
            assert time.monotonic() < end
            move()
            time.sleep(0.2)
        for drive, reads_us in latencies_us.items():
            for quantile in QUANTILES:
                found_us = {}
                for form, server, suffix in (
                    ("classic", classic, "_bucket"),
                    ("native", native, ""),
                ):
                    rates = f'rate({name}{suffix}{{drive="{drive}"}}[1h])'
                    result = answered(server, f"histogram_quantile({quantile}, {rates})")
                    found_us[form] = float(result["value"][1]) * 1e6
                truth_us = reads_us[int(quantile * len(reads_us))]
                print(drive, quantile, f"{truth_us:.1f} us", found_us)
                assert found_us["native"] == pytest.approx(truth_us, rel=0.135)
                assert found_us["classic"] == pytest.approx(truth_us, rel=0.25)
        # What stands still is the same in both before long, and it is the kernel's.
        counted_reads = {drive: sum(each) * number for drive, each in counts.items()}
        others = f'{{job="linnos", __name__=~"linnos_.*", __name__!~"{name}.*"}}'
        for of_native, of_classic in (
            (f"histogram_count({name})", f"sum without (__name__) ({name}_count)"),
            (f"histogram_sum({name})", f"sum without (__name__) ({name}_sum)"),
            (others, others),
        ):
            while (found := values(native, of_native)) != values(classic, of_classic) or not found:
                assert time.monotonic() < end, (found, values(classic, of_classic))
                time.sleep(0.1)
            if "count" in of_native:
                assert {dict(labels)["drive"]: n for labels, n in found.items()} == counted_reads
        assert len(found) > 50
