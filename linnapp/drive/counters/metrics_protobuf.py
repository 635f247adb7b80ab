# SPDX-License-Identifier: MIT
"""Metrics as Prometheus takes them in protobuf, the one form with native histograms in it.

prometheus_client writes text alone. Of protobuf five messages are needed, in three wire types: too
little for a library whose generated code is bound to its version. They are those of
``io/prometheus/client/metrics.proto`` of prometheus/client_model.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import Metric

from linnapp.drive.counters.latencies import MIDDLE_US, ZERO_US, native_bucket

#: what a scraper asks for, and how the answer is called
MEDIA_TYPE = "application/vnd.google.protobuf"
PARAMETERS = {"proto": "io.prometheus.client.MetricFamily", "encoding": "delimited"}
CONTENT_TYPE = "; ".join([MEDIA_TYPE, *(f"{name}={value}" for name, value in PARAMETERS.items())])

#: A native bucket is 2^(1/2^schema) times as wide as the one before, here 4.4 %: the coarsest
#: that adds little to the 12 % by which a read may be off the middle of the kernel's bucket.
SCHEMA = 4

# Wire types.
_VARINT, _FIXED64, _BYTES = 0, 1, 2
#: type: number in MetricFamily.type, field of Metric
_TYPES = {"counter": (0, 3), "gauge": (1, 2), "histogram": (4, 7)}


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _uint(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | _FIXED64) + struct.pack("<d", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value


def _native(counts: list[int]) -> bytes:
    """The fields of a Histogram that make it a native one."""
    found: dict[int, int] = {}
    for us, n in zip(MIDDLE_US[1:], counts[1:], strict=True):
        if n:
            found[native_bucket(us / 1e6, SCHEMA)] = n
    # Runs of populated buckets: how far from the end of the last one (the first: from 0), how long.
    spans: list[list[int]] = []
    end = 0
    for index in found:
        if spans and index == end:
            spans[-1][1] += 1
        else:
            spans.append([index - end, 1])
        end = index + 1
    deltas = [b - a for a, b in itertools.pairwise([0, *found.values()])]
    return b"".join(
        [
            _uint(5, _zigzag(SCHEMA)),
            _double(6, ZERO_US / 1e6),
            _uint(7, counts[0]),
            *(_bytes(12, _uint(1, _zigzag(offset)) + _uint(2, n)) for offset, n in spans),
            _bytes(13, b"".join(_varint(_zigzag(delta)) for delta in deltas)),
        ]
    )


def _histogram(below: dict[str, int], total: float) -> bytes:
    """A Histogram of reads in the kernel's buckets, counted up to the end of each."""
    counts = [b - a for a, b in itertools.pairwise([0, *below.values()])]
    buckets = (_bytes(3, _uint(1, n) + _double(2, float(le))) for le, n in below.items())
    return b"".join([_uint(1, sum(counts)), _double(2, total), *buckets, _native(counts)])


def _labels(labels: Mapping[str, str]) -> bytes:
    return b"".join(
        _bytes(1, _bytes(1, name.encode()) + _bytes(2, value.encode()))
        for name, value in labels.items()
    )


def _family(metric: Metric) -> bytes:
    number, field = _TYPES[metric.type]
    messages = []
    if metric.type == "histogram":
        below: dict[str, int] = {}
        for sample in metric.samples:
            labels: dict[str, Any] = dict(sample.labels)
            if "le" in labels:
                below[labels.pop("le")] = int(sample.value)
            elif sample.name.endswith("_sum"):
                # The last sample of its drive.
                messages.append(_labels(labels) + _bytes(field, _histogram(below, sample.value)))
                below = {}
    else:
        for sample in metric.samples:
            messages.append(_labels(sample.labels) + _bytes(field, _double(1, sample.value)))
    return b"".join(
        [
            _bytes(1, (metric.name + "_total" * (metric.type == "counter")).encode()),
            _bytes(2, metric.documentation.encode()),
            _uint(3, number),
            *(_bytes(4, message) for message in messages),
        ]
    )


def encoded(metrics: Iterable[Metric]) -> bytes:
    """Counters, gauges and histograms as MetricFamily messages, each after its length.

    A histogram is of reads by latency in seconds, in the kernel's buckets
    (:mod:`linnapp.drive.counters.latencies`), and is both classic and native.
    """
    families = map(_family, metrics)
    return b"".join(_varint(len(family)) + family for family in families)


def wanted(accept: str) -> bool:
    """Whether a request with this Accept header is best answered in protobuf.

    It must be named, in the form that is written here, and nothing else may be liked more.
    """
    liked = others = 0.0
    for each in accept.split(","):
        media, *words = (word.strip() for word in each.split(";"))
        found = {
            name.strip().lower(): value.strip().strip('"')
            for name, _, value in (word.partition("=") for word in words)
        }
        try:
            quality = float(found.pop("q", 1.0))
        except ValueError:
            continue
        if media.lower() == MEDIA_TYPE and PARAMETERS.items() <= found.items():
            liked = max(liked, quality)
        else:
            others = max(others, quality)
    return liked > 0 and liked >= others
