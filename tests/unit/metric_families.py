# SPDX-License-Identifier: MIT
"""Prometheus's messages, read by Google's protobuf (which TensorFlow brings along).

The fields are written down once more from ``io/prometheus/client/metrics.proto`` of
prometheus/client_model: its types, as declared there, and all fields that a scrape may have.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_MESSAGES = {
    "LabelPair": "optional string name 1, optional string value 2",
    "Gauge": "optional double value 1",
    "Counter": "optional double value 1",
    "Bucket": "optional uint64 cumulative_count 1, optional double upper_bound 2, "
    "optional double cumulative_count_float 4",
    "BucketSpan": "optional sint32 offset 1, optional uint32 length 2",
    "Histogram": "optional uint64 sample_count 1, optional double sample_sum 2, "
    "repeated Bucket bucket 3, optional double sample_count_float 4, optional sint32 schema 5, "
    "optional double zero_threshold 6, optional uint64 zero_count 7, "
    "optional double zero_count_float 8, repeated BucketSpan negative_span 9, "
    "repeated sint64 negative_delta 10, repeated double negative_count 11, "
    "repeated BucketSpan positive_span 12, repeated sint64 positive_delta 13, "
    "repeated double positive_count 14",
    "Metric": "repeated LabelPair label 1, optional Gauge gauge 2, optional Counter counter 3, "
    "optional int64 timestamp_ms 6, optional Histogram histogram 7",
    "MetricFamily": "optional string name 1, optional string help 2, optional MetricType type 3, "
    "repeated Metric metric 4, optional string unit 5",
}
_TYPES = ("COUNTER", "GAUGE", "SUMMARY", "UNTYPED", "HISTOGRAM", "GAUGE_HISTOGRAM")


def _message_class() -> Any:
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="metrics.proto", package="io.prometheus.client", syntax="proto2"
    )
    types = file.enum_type.add(name="MetricType")
    for number, name in enumerate(_TYPES):
        types.value.add(name=name, number=number)
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for field in fields.split(", "):
            label, kind, name, number = field.split()
            added = described.field.add(
                name=name, number=int(number), label=getattr(field_type, f"LABEL_{label.upper()}")
            )
            if kind in (*_MESSAGES, "MetricType"):
                added.type_name = f".io.prometheus.client.{kind}"
            else:
                added.type = getattr(field_type, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("io.prometheus.client.MetricFamily")
    return message_factory.GetMessageClass(found)


_MetricFamily = _message_class()


def _length(data: bytes) -> tuple[int, int]:
    """A length at the beginning, and how many bytes it takes."""
    value = 0
    for k, byte in enumerate(data):
        value |= (byte & 0x7F) << 7 * k
        if byte < 0x80:
            return value, k + 1
    raise ValueError("a length without an end")


def unknown(message: Any) -> list[int]:
    """Fields, of the message or of one in it, that nobody has declared."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = [field.field_number for field in UnknownFieldSet(message)]
    for described, value in message.ListFields():
        if described.message_type is not None:
            for each in value if described.is_repeated else [value]:
                found += unknown(each)
    return found


def families(data: bytes) -> list[Any]:
    """The MetricFamily messages of an answer, each after its length."""
    found = []
    while data:
        length, size = _length(data)
        assert len(data) >= size + length
        found.append(_MetricFamily.FromString(data[size : size + length]))
        assert not unknown(found[-1]), found[-1]
        data = data[size + length :]
    return found


def samples(data: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Name and labels: value, with the classic form of histograms, as the text format has them."""
    found = {}
    for family in families(data):
        kind = _TYPES[family.type].lower()
        for metric in family.metric:
            labels = {pair.name: pair.value for pair in metric.label}

            def add(name: str, value: float, labels: dict[str, str] = labels) -> None:
                key = (name, tuple(sorted(labels.items())))
                assert key not in found
                found[key] = value

            if kind != "histogram":
                add(family.name, getattr(metric, kind).value)
                continue
            histogram = metric.histogram
            add(f"{family.name}_count", histogram.sample_count)
            add(f"{family.name}_sum", histogram.sample_sum)
            for bucket in histogram.bucket:
                le = "+Inf" if bucket.upper_bound == float("inf") else repr(bucket.upper_bound)
                add(f"{family.name}_bucket", bucket.cumulative_count, {**labels, "le": le})
    return found


def native_buckets(histogram: Any) -> dict[int, int]:
    """Index: count, of the positive buckets."""
    found = {}
    index = count = 0
    deltas = iter(histogram.positive_delta)
    for span in histogram.positive_span:
        index += span.offset
        for _ in range(span.length):
            count += next(deltas)
            found[index] = count
            index += 1
    assert not list(deltas)
    return found
