# SPDX-License-Identifier: MIT
"""Model files of both kinds: layout, checksum, and refusal of files that the kernel refuses."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from trees_by_hand import random_trees

from linnapp.engine import parse_latency_in_c, parse_network_in_c
from linnapp.errors import ModelError
from linnapp.learn.network import quantise
from linnapp.model import (
    CAP,
    MIN_TREES,
    N_LEAVES,
    N_SPLITS,
    LatencyModel,
    Model,
    find_model,
    load_model,
)
from linnapp.native import N_FEATURES_MIN


def random_model(seed: int = 1, n_hidden: int = 256, **changes: object) -> Model:
    rng = np.random.default_rng(seed)
    fields: dict[str, object] = {
        "hidden_weights": rng.integers(-100, 101, (31, n_hidden)).astype(np.int32),
        "hidden_bias": rng.integers(-2000, 2001, n_hidden).astype(np.int32),
        "output_weights": rng.integers(-100, 101, (n_hidden, 2)).astype(np.int32),
        "output_bias": rng.integers(-(10**6), 10**6, 2).astype(np.int64),
        "threshold_us": 421,
    }
    return Model(**(fields | changes))  # type: ignore[arg-type]


def with_checksum(data: bytearray) -> bytes:
    struct.pack_into("<I", data, 16, 0)
    struct.pack_into("<I", data, 16, zlib.crc32(data))
    return bytes(data)


def test_layout_of_a_network_is_the_documented_one() -> None:
    model = random_model()
    data = model.to_bytes()
    assert data[:8] == b"LINNOSMD"
    assert struct.unpack_from("<II", data, 8) == (1, len(data))
    assert struct.unpack_from("<HHH", data, 20) == (31, 256, 2)
    assert tuple(data[26:29]) == (4, 3, 4)
    assert struct.unpack_from("<II", data, 32) == (1000, 421)
    assert struct.unpack_from("<i", data, 64 + 4 * 256)[0] == model.hidden_weights[1, 0]
    assert struct.unpack_from("<2q", data, len(data) - 16) == tuple(model.output_bias.tolist())
    zeroed = bytearray(data)
    struct.pack_into("<I", zeroed, 16, 0)
    assert model.model_id == f"{zlib.crc32(zeroed):08x}"


def of_units(weight: int, bias: int | np.ndarray, margins: int | np.ndarray) -> Model:
    """Return a model: each digit has `weight` in all hidden units; outputs differ by `margins`."""
    output = np.zeros((256, 2), np.int32)
    output[:, 1] = margins
    return random_model(
        hidden_weights=np.full((31, 256), weight, np.int32),
        hidden_bias=np.full(256, bias, np.int32),
        output_weights=output,
    )


# 31 digits of 9 times 100 are 27900; 256 * 32767 * 256 is just less than 2^31.
@pytest.mark.parametrize(
    ("last", "first", "message"),
    [
        ((100, 32767 - 27900, 256), (100, 32768 - 27900, 256), "hidden sum can reach 32768"),
        ((-100, 27900 - 32768, 256), (-100, 27900 - 32769, 256), "hidden sum can reach -32769"),
        ((100, 32767 - 27900, 256), (100, 32767 - 27900, 257), "outputs can differ by"),
        ((0, 0, 32767), (0, 0, 32768), "an output weight is 32768"),
    ],
)
def test_wide_sums_are_refused_at_their_exact_bound(
    last: tuple[int, int, int], first: tuple[int, int, int], message: str
) -> None:
    parse_network_in_c(of_units(*last).to_bytes())
    with pytest.raises(ModelError, match=f"{message}.*smaller scale"):
        of_units(*first)


def test_margin_must_not_overflow_its_lower_half() -> None:
    # The first two units of each four reach 20000; the weights of the last two make it 838 or 839.
    bias = np.tile(np.array([20000, 20000, 0, 0], np.int32), 64)
    margins = np.tile(np.array([0, 0, 838, 838]), 64)
    parse_network_in_c(of_units(0, bias, margins).to_bytes())
    with pytest.raises(ModelError, match="outside 32 bits"):
        of_units(0, bias, margins + (margins > 0))


def test_output_biases_have_a_bound() -> None:
    parse_network_in_c(random_model(output_bias=np.array([1 - 2**61, 2**61 - 1])).to_bytes())
    for bias in (2**61, -(2**61)):
        with pytest.raises(ModelError, match="output bias"):
            random_model(output_bias=np.array([0, bias]))


WEIGHTS = {
    "hidden_weights": np.random.default_rng(3).normal(0, 0.4, (31, 256)),
    "hidden_bias": np.random.default_rng(4).normal(size=256),
    "output_weights": np.random.default_rng(5).normal(0, 0.2, (256, 2)),
    "output_bias": np.random.default_rng(6).normal(size=2),
}


def test_quantise_uses_the_largest_valid_scale() -> None:
    model = quantise(WEIGHTS, 99)
    assert 100 < model.scale < 1000
    parse_network_in_c(model.to_bytes())
    assert np.array_equal(model.hidden_weights, np.rint(WEIGHTS["hidden_weights"] * model.scale))
    assert np.array_equal(model.output_bias, np.rint(WEIGHTS["output_bias"] * model.scale**2))
    assert quantise(WEIGHTS, 99, scale=model.scale).to_bytes() == model.to_bytes()
    with pytest.raises(ModelError, match="smaller scale"):
        quantise(WEIGHTS, 99, scale=model.scale + 50)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hidden_bias": np.full(256, 1e4)}, "train it again"),
        ({"hidden_bias": np.full(256, np.nan)}, "not finite"),
        ({"output_bias": np.zeros(2, np.int64)}, "all arrays must be float"),
        ({"output_bias": None}, "output_bias missing"),
    ],
)
def test_quantise_names_what_is_wrong(changed: dict[str, np.ndarray | None], message: str) -> None:
    weights = {name: each for name, each in (WEIGHTS | changed).items() if each is not None}
    with pytest.raises(ModelError, match=message):
        quantise(weights, 99)


def test_find_model_takes_the_drives_model_and_prefers_its_latency_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such model"):
        find_model(tmp_path / "none")
    with pytest.raises(ModelError, match="holds no"):
        find_model(tmp_path)
    random_model().save(tmp_path / "sda.linnos")
    assert find_model(tmp_path, "sdb") == tmp_path / "sda.linnos"
    random_model().save(tmp_path / "sda.latency.linnos")
    assert find_model(tmp_path) == find_model(tmp_path, "sda") == tmp_path / "sda.latency.linnos"
    random_model().save(tmp_path / "sdb.linnos")
    assert find_model(tmp_path, "sdb") == tmp_path / "sdb.linnos"
    with pytest.raises(ModelError, match="several models"):
        find_model(tmp_path, "sdc")


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
        parse_latency_in_c(damaged)


def test_layout_of_trees_is_the_documented_one() -> None:
    model = random_trees(n_trees=32)
    data = model.to_bytes()
    assert data[:8] == b"LINNOSMD"
    assert struct.unpack_from("<II", data, 8) == (2, 64 + 32 * (15 * 4 + 16 * 2))
    assert struct.unpack_from("<HH", data, 20) == (23, 32)
    assert tuple(data[24:28]) == (4, 4, 10, 0)
    assert struct.unpack_from("<IIIi", data, 28) == (900, 500, 421, 7 << 10)
    assert struct.unpack_from("<I", data, 64)[0] == model.splits[0, 0]
    assert struct.unpack_from("<h", data, 64 + 32 * 60)[0] == model.leaves[0, 0]


@pytest.mark.parametrize("model", [random_model(), *map(random_trees, (2, 3, 4), (16, 32, 256))])
def test_saved_model_loads_unchanged(tmp_path: Path, model: Model | LatencyModel) -> None:
    path = tmp_path / "m.linnos"
    model.save(path)
    loaded = load_model(path)
    assert type(loaded) is type(model) and loaded.to_bytes() == model.to_bytes()
    assert path.read_bytes() == model.to_bytes()
    for name, value in vars(model).items():
        assert np.array_equal(getattr(loaded, name), value), name
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.linnos"]


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
        (20, "<H", 21, "n_features is 21, accepted are 22 to 23"),
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
    "network": Kind(Model, random_model().to_bytes(), parse_network_in_c),
    "trees": Kind(LatencyModel, random_trees().to_bytes(), parse_latency_in_c),
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
        "trees", with_checksum(data), f"n_trees is {n_trees}, accepted are 16 to 256", "wrong shape"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"leaves": np.zeros((2, 8), np.int16)}, "splits have shape"),
        ({"leaves": np.zeros(2, np.int16)}, r"leaves \(2,\)"),
        ({"leaves": np.zeros((2, 16))}, "not integer"),
        ({"splits": np.full((2, 15), -1)}, "outside uint32"),
    ],
)
def test_arrays_of_a_wrong_shape_or_type_are_refused(
    changes: dict[str, np.ndarray], message: str
) -> None:
    arrays = {"splits": np.zeros((2, 15), np.uint32), "leaves": np.zeros((2, 16), np.int16)}
    with pytest.raises(ModelError, match=message):
        LatencyModel(**(arrays | changes), base=0, threshold_us=1, refuse_us=1, overdue_us=1)
