# SPDX-License-Identifier: MIT
"""The latency model's file and its two engines: both refuse and predict the same."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from test_model_format import random_model, with_checksum
from trees_by_hand import one_tree

from linnapp.errors import LinnappError, ModelError
from linnapp.model import LatencyModel, Model, load_model
from linnapp.model.engine import (
    ENGINES,
    check_kernel_accepts,
    parse_in_c,
    power,
    predict_hinted_us,
    predict_us,
)
from linnapp.model.file import (
    CAP,
    FEATURES,
    FRACTION_BITS,
    MIN_TREES,
    N_FEATURES,
    N_LEAVES,
    N_SPLITS,
)
from linnapp.native import N_FEATURES_MIN

N = 100_000


def random_trees(seed: int = 1, n_trees: int = 32, **changes: int) -> LatencyModel:
    rng = np.random.default_rng(seed)
    place = rng.integers(0, N_FEATURES, (n_trees, 15)).astype(np.uint32)
    threshold = rng.choice([0, 1, 3, 100, 900, CAP - 1, CAP], place.shape).astype(np.uint32)
    fields = {"base": 7 << FRACTION_BITS, "threshold_us": 421, "refuse_us": 500, "overdue_us": 900}
    return LatencyModel(
        splits=place << np.uint32(24) | threshold,
        leaves=rng.integers(-900, 900, (n_trees, 16)).astype(np.int16),
        **(fields | changes),
    )


def random_features(n: int = N, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    top = rng.choice([2, 200, 2000, CAP], (n, N_FEATURES))
    return (rng.random((n, N_FEATURES)) * (top + 1)).astype(np.uint32)


def one_by_one(model: LatencyModel, row: list[int]) -> int:
    """Compute a prediction with Python integers."""
    if not model.n_trees:
        us = max(1, sum(row[FEATURES.index(f"latency_us_{ago}")] for ago in (1, 2, 3, 4)) // 4)
    else:
        log = model.base
        for splits, leaves in zip(model.splits.tolist(), model.leaves.tolist(), strict=True):
            node = 0
            for _ in range(4):
                node = 2 * node + (2 if row[splits[node] >> 24] > splits[node] % 2**24 else 1)
            log += leaves[node - len(splits)]
        us = int(power(np.array([log]))[0])
    return max(us, row[FEATURES.index("oldest_us")] - model.overdue_us)


@pytest.mark.parametrize("n_trees", [16, 32, 256])
def test_numpy_and_c_agree(n_trees: int) -> None:
    model = random_trees(n_trees, n_trees)
    x = random_features()
    ours = predict_us(model, x, "numpy")
    assert np.array_equal(ours, predict_us(model, x, "c"))
    assert len(np.unique(ours)) > 100
    assert ours[:200].tolist() == [one_by_one(model, row) for row in x[:200].tolist()]


@pytest.mark.parametrize("engine", ENGINES)
def test_predictions_of_extreme_models_stay_within_their_range(engine: str) -> None:
    x = np.array([[0] * N_FEATURES, [CAP] * N_FEATURES], np.uint32)
    least = random_trees(n_trees=256)
    for leaf, us in ((-(2**15), 1), (2**15 - 1, CAP)):
        model = LatencyModel(
            least.splits, np.full_like(least.leaves, leaf), 0, 1, 1, overdue_us=CAP
        )
        assert predict_us(model, x, engine).tolist() == [us, us]
    # A split at CAP, the largest value, sends no read to the right.
    none = LatencyModel(
        np.full((16, 15), CAP, np.uint32), np.array([[0] + [64] * 15] * 16, np.int16), 0, 1, 1, CAP
    )
    assert predict_us(none, x, engine).tolist() == [1, 1]
    # The prediction is at least the time by which the oldest read is overdue.
    late = LatencyModel(none.splits, none.leaves, 0, 1, 1, overdue_us=CAP - 5)
    assert predict_us(late, x, engine).tolist() == [1, 5]


def test_model_without_trees_predicts_the_mean_of_the_last_reads() -> None:
    model = LatencyModel.mean_of_last(100, 200, overdue_us=CAP)
    x = random_features(1000)
    assert predict_us(model, x).tolist() == [one_by_one(model, row) for row in x.tolist()]
    assert predict_us(model, np.zeros((1, N_FEATURES), int)).tolist() == [1]


def test_power_of_two_is_monotone_and_within_its_error() -> None:
    log = np.arange(-5, 24 << FRACTION_BITS)
    exact = 2.0 ** (np.maximum(log, 0) / 2**FRACTION_BITS)
    got = power(log)
    assert np.all(np.diff(got) >= 0)
    assert np.all(np.abs(got - exact) <= 0.5 + exact * 1e-4)
    assert power(np.array([24 << FRACTION_BITS, 10**6])).tolist() == [CAP, CAP]


@pytest.mark.parametrize("engine", ENGINES)
def test_bad_features_are_refused(engine: str) -> None:
    model = random_trees()
    for bad, message in (
        (np.zeros((3, 31), np.uint8), "shape"),
        (np.full((3, N_FEATURES), CAP + 1, np.uint32), "expected 0 to"),
        (np.full((3, N_FEATURES), -1), "expected 0 to"),
        (np.zeros((3, N_FEATURES)), "expected integers"),
    ):
        with pytest.raises(LinnappError, match=message):
            predict_us(model, bad, engine)
    assert len(predict_us(model, np.zeros((0, N_FEATURES), np.uint32), engine)) == 0


def test_model_with_fewer_features_keeps_its_predictions() -> None:
    model = random_trees(3)
    old = dataclasses.replace(
        model, splits=model.splits % (N_FEATURES_MIN << 24), n_features=N_FEATURES_MIN
    )
    data = old.to_bytes()
    assert struct.unpack_from("<H", data, 20) == (22,)
    assert LatencyModel.from_bytes(data).to_bytes() == data
    parse_in_c(data)
    x = random_features(1000, 4)
    for engine in ENGINES:
        known = predict_us(old, x[:, :N_FEATURES_MIN], engine)
        assert np.array_equal(known, predict_us(old, x, engine))
        assert not np.array_equal(known, predict_us(model, x, engine))
        with pytest.raises(LinnappError, match=r"takes \(n, 23\)"):
            predict_us(model, x[:, :N_FEATURES_MIN], engine)
    assert old.without_trees().n_features == N_FEATURES_MIN
    assert old.times(model).n_features == N_FEATURES
    for few in (21, 24):
        with pytest.raises(ModelError, match=f"n_features is {few}"):
            dataclasses.replace(old, n_features=few)


def test_model_with_fewer_features_splits_only_by_those() -> None:
    splits = np.full((MIN_TREES, N_SPLITS), N_FEATURES_MIN << 24, np.uint32)
    leaves = np.zeros((MIN_TREES, N_LEAVES), np.int16)
    knows = LatencyModel(splits, leaves, 0, 1, 1, 1)
    data = bytearray(knows.to_bytes())
    struct.pack_into("<H", data, 20, N_FEATURES_MIN)
    damaged = with_checksum(data)
    with pytest.raises(ModelError, match="a split uses feature 22; it must be 0 to 21"):
        LatencyModel.from_bytes(damaged)
    with pytest.raises(ModelError, match="kernel rejects"):
        parse_in_c(damaged)


def test_layout_is_the_documented_one() -> None:
    model = random_trees(n_trees=32)
    data = model.to_bytes()
    assert data[:8] == b"LINNOSMD"
    assert struct.unpack_from("<II", data, 8) == (2, 64 + 32 * (15 * 4 + 16 * 2))
    assert struct.unpack_from("<HH", data, 20) == (23, 32)
    assert tuple(data[24:28]) == (4, 4, 10, 0)
    assert struct.unpack_from("<IIIi", data, 28) == (900, 500, 421, 7 << 10)
    assert struct.unpack_from("<I", data, 64)[0] == model.splits[0, 0]
    assert struct.unpack_from("<h", data, 64 + 32 * 60)[0] == model.leaves[0, 0]


@pytest.mark.parametrize("n_trees", [16, 32, 256])
def test_saved_latency_model_loads_unchanged(tmp_path: Path, n_trees: int) -> None:
    model = random_trees(2, n_trees)
    path = tmp_path / "m.linnos"
    model.save(path)
    loaded = load_model(path)
    assert isinstance(loaded, LatencyModel) and loaded.to_bytes() == path.read_bytes()
    assert (loaded.n_trees, loaded.base) == (n_trees, model.base)
    assert (loaded.threshold_us, loaded.refuse_us, loaded.overdue_us) == (421, 500, 900)
    parse_in_c(model.to_bytes())


#: Changes to a file with 32 trees: the place, the new bytes, and what the error says.
DAMAGED = {
    "network": [
        (0, b"X", "not a LinnOS model"),
        (8, b"\x02", "version 2"),
        (12, b"\x00", "truncated or padded"),
        (16, bytes(4), "checksum"),
        (5000, b"\xaa\xbb", "checksum"),
    ],
    "trees": [
        (0, b"X", "not a LinnOS model"),
        (8, b"\x03", r"version 3, only 1 \(network\) and 2 \(latency model\) .*`linnapp train`"),
        (8, b"\x01", "a network; expected a latency model"),
        (12, b"\x00", "truncated or padded"),
        (16, bytes(4), "checksum"),
        (1000, b"\xaa\xbb", "checksum"),
    ],
}
#: The same with a right checksum: the format and the value in place of the bytes.
WRONG_FIELDS = {
    "network": [
        (20, "<H", 30, "needs .* bytes"),
        (24, "<H", 3, "3 outputs"),
        (26, "<B", 5, "5 past reads, only 4"),
        (27, "<B", 2, "2 digits of pending pages, only 3"),
        (28, "<B", 5, "5 digits of a latency, only 4"),
        (29, "<B", 1, "reserved"),
        (40, "<I", 1, "reserved"),
        (32, "<I", 0, "scale is 0"),
        (64, "<i", 40000, "a hidden weight is 40000.*smaller scale"),
    ],
    "trees": [
        (20, "<H", 21, "21 features.*`linnapp train`"),
        (22, "<H", 31, "31 trees need .* bytes"),
        (22, "<H", 255, "255 trees need .* bytes"),
        (24, "<B", 3, "3 splits to a leaf.*`linnapp train`"),
        (25, "<B", 5, "5 past reads"),
        (26, "<B", 9, "9 fractional bits"),
        (27, "<B", 1, "reserved"),
        (28, "<I", 0, "overdue_us is 0"),
        (28, "<I", CAP + 1, "overdue_us is 16777216"),
        (32, "<I", 0, "refuse_us is 0"),
        (36, "<I", 0, "threshold_us is 0"),
        (40, "<i", 2**15, "base is 32768"),
        (40, "<i", -(2**15) - 1, "base is -32769"),
        (44, "<I", 1, "reserved"),
        (60, "<I", 1 << 24, "reserved"),
        (64 + 4 * 400, "<I", 23 << 24, "a split uses feature 23; it must be 0 to 22"),
    ],
}


class Kind(NamedTuple):
    """A kind of model: its class, an example, and the kernel's parser."""

    cls: type[Model] | type[LatencyModel]
    data: bytes
    parse: Callable[[bytes], object]


KINDS = {
    "network": Kind(Model, random_model().to_bytes(), check_kernel_accepts),
    "trees": Kind(LatencyModel, random_trees().to_bytes(), parse_in_c),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def refused(kind: str, data: bytes, message: str = "", kernel: str = "kernel rejects") -> None:
    """Check that Python refuses the file with a message, and that the kernel refuses it."""
    with pytest.raises(ModelError, match=message):
        KINDS[kind].cls.from_bytes(data)
    with pytest.raises(ModelError, match=kernel):
        KINDS[kind].parse(data)


@EACH_KIND
def test_damaged_file_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bad.linnos"
    for offset, value, message in DAMAGED[kind]:
        data = bytearray(KINDS[kind].data)
        data[offset : offset + len(value)] = value
        path.write_bytes(data)
        refused(kind, bytes(data), message)
        with pytest.raises(ModelError, match=str(path)):
            KINDS[kind].cls.load(path)


@EACH_KIND
def test_wrong_field_is_refused_although_the_checksum_is_right(kind: str) -> None:
    for offset, format_, value, message in WRONG_FIELDS[kind]:
        data = bytearray(KINDS[kind].data)
        struct.pack_into(format_, data, offset, value)
        refused(kind, with_checksum(data), message)


@EACH_KIND
def test_truncated_and_padded_files_are_refused(kind: str) -> None:
    data = KINDS[kind].data
    for size in [*range(0, 80), 2000, len(data) - 1]:
        refused(kind, data[:size], kernel="")
    refused(kind, data + b"\0", "truncated or padded", "wrong size")


@pytest.mark.parametrize("n_trees", [15, 257])
def test_too_few_and_too_many_trees_are_refused(n_trees: int) -> None:
    with pytest.raises(ModelError, match=f"n_trees is {n_trees}"):
        random_trees(n_trees=n_trees).to_bytes()
    data = bytearray(KINDS["trees"].data)
    splits, leaves = data[64 : 64 + 60] * n_trees, data[-32:] * n_trees
    data[64:] = splits + leaves
    struct.pack_into("<I", data, 12, len(data))
    struct.pack_into("<H", data, 22, n_trees)
    refused(
        "trees", with_checksum(data), f"n_trees is {n_trees}, expected 16 to 256", "wrong shape"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"leaves": np.zeros((2, 8), np.int16)}, "splits have shape"),
        ({"leaves": np.zeros(2, np.int16)}, "two dimensions"),
        ({"leaves": np.zeros((2, 16))}, "integers of int16"),
        ({"splits": np.full((2, 15), -1)}, "integers of uint32"),
    ],
)
def test_arrays_of_a_wrong_shape_or_type_are_refused(
    changes: dict[str, np.ndarray], message: str
) -> None:
    arrays = {"splits": np.zeros((2, 15), np.uint32), "leaves": np.zeros((2, 16), np.int16)}
    with pytest.raises(ModelError, match=message):
        LatencyModel(**(arrays | changes), base=0, threshold_us=1, refuse_us=1, overdue_us=1)


def test_predict_hinted_us_is_the_same_wherever_the_read_is() -> None:
    rng = np.random.default_rng(5)
    splits = [("in_region", int(limit)) for limit in rng.integers(0, 8, N_SPLITS)]
    leaves_us = rng.integers(10, 1000, N_LEAVES).astype(float).tolist()
    model = one_tree(splits, leaves_us, threshold_us=150, refuse_us=100, overdue_us=CAP)
    x = np.repeat(random_features(1, 4), 10, axis=0)
    x[:, FEATURES.index("in_region")] = [*range(9), CAP]
    before = x.copy()
    assert len(set(predict_us(model, x).tolist())) > 1
    assert predict_hinted_us(model, x).tolist() == [int(predict_us(model, x[-1:])[0])] * 10
    assert np.array_equal(x, before)
    # Older models and features do not have it.
    new = random_trees(3, 20)
    old = dataclasses.replace(
        new, splits=new.splits % (N_FEATURES_MIN << 24), n_features=N_FEATURES_MIN
    )
    known = x[:, :N_FEATURES_MIN]
    assert np.array_equal(predict_hinted_us(old, known), predict_us(old, known))
