# SPDX-License-Identifier: MIT
"""The model file: layout, checksum, and refusal of all files that the kernel would refuse."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from linnapp.errors import LinnappError, ModelError
from linnapp.learn.network import quantise
from linnapp.model import Model, find_model
from linnapp.model.engine import check_kernel_accepts


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


def test_round_trip(tmp_path: Path) -> None:
    model = random_model()
    path = tmp_path / "m.linnos"
    model.save(path)
    again = Model.load(path)
    assert again.to_bytes() == model.to_bytes() == path.read_bytes()
    assert again.threshold_us == 421
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.linnos"]


def test_layout_is_the_documented_one() -> None:
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


def test_the_kernels_parser_accepts_it() -> None:
    check_kernel_accepts(random_model().to_bytes())


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0, b"X", "not a LinnOS model"),
        (8, b"\x02", "version 2"),
        (12, b"\x00", "truncated or padded"),
        (16, b"\x00\x00\x00\x00", "checksum"),
        (5000, b"\xaa\xbb", "checksum"),
    ],
)
def test_damage_is_named(tmp_path: Path, offset: int, value: bytes, message: str) -> None:
    data = bytearray(random_model().to_bytes())
    data[offset : offset + len(value)] = value
    path = tmp_path / "bad.linnos"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=message) as caught:
        Model.load(path)
    assert str(path) in str(caught.value)
    with pytest.raises(ModelError, match="kernel rejects"):
        check_kernel_accepts(bytes(data))


@pytest.mark.parametrize(
    ("offset", "format_", "value", "message"),
    [
        (20, "<H", 30, "needs .* bytes"),
        (24, "<H", 3, "3 outputs"),
        (26, "<B", 5, "5 past reads, only 4"),
        (27, "<B", 2, "2 digits of pending pages, only 3"),
        (28, "<B", 5, "5 digits of a latency, only 4"),
        (29, "<B", 1, "reserved"),
        (40, "<I", 1, "reserved"),
        (32, "<I", 0, "scale is 0"),
    ],
)
def test_wrong_fields_with_a_right_checksum(
    offset: int, format_: str, value: int, message: str
) -> None:
    data = bytearray(random_model().to_bytes())
    struct.pack_into(format_, data, offset, value)
    damaged = with_checksum(data)
    with pytest.raises(ModelError, match=message):
        Model.from_bytes(damaged)
    with pytest.raises(ModelError, match="kernel rejects"):
        check_kernel_accepts(damaged)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    data = random_model().to_bytes()
    for size in [*range(0, 80), 5000, len(data) - 1]:
        with pytest.raises(ModelError):
            Model.from_bytes(data[:size])
    with pytest.raises(ModelError, match="truncated or padded"):
        Model.from_bytes(data + b"\0")


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
    check_kernel_accepts(of_units(*last).to_bytes())
    with pytest.raises(ModelError, match=f"{message}.*smaller scale"):
        of_units(*first)


def test_margin_must_not_overflow_its_lower_half() -> None:
    # The first two units of each four reach 20000, the weights of the last two say 838 or 839.
    bias = np.tile(np.array([20000, 20000, 0, 0], np.int32), 64)
    margins = np.tile(np.array([0, 0, 838, 838]), 64)
    check_kernel_accepts(of_units(0, bias, margins).to_bytes())
    with pytest.raises(ModelError, match="outside 32 bits"):
        of_units(0, bias, margins + (margins > 0))


def test_output_biases_have_a_bound() -> None:
    check_kernel_accepts(random_model(output_bias=np.array([1 - 2**61, 2**61 - 1])).to_bytes())
    for bias in (2**61, -(2**61)):
        with pytest.raises(ModelError, match="output bias"):
            random_model(output_bias=np.array([0, bias]))


def test_the_kernel_refuses_what_is_not_narrow_with_a_remedy() -> None:
    data = bytearray(random_model().to_bytes())
    struct.pack_into("<i", data, 64, 40000)
    with pytest.raises(ModelError, match=r"kernel rejects it: .*16 bits.*smaller scale"):
        check_kernel_accepts(with_checksum(data))
    with pytest.raises(ModelError, match=r"a hidden weight is 40000.*smaller scale"):
        Model.from_bytes(with_checksum(data))


def test_quantise_uses_the_largest_valid_scale() -> None:
    rng = np.random.default_rng(3)
    weights = {
        "hidden_weights": rng.normal(0, 0.4, (31, 256)),
        "hidden_bias": rng.normal(size=256),
        "output_weights": rng.normal(0, 0.2, (256, 2)),
        "output_bias": rng.normal(size=2),
    }
    model = quantise(weights, 99)
    assert 100 < model.scale < 1000
    check_kernel_accepts(model.to_bytes())
    assert np.array_equal(model.hidden_weights, np.rint(weights["hidden_weights"] * model.scale))
    assert quantise(weights, 99, scale=model.scale).to_bytes() == model.to_bytes()
    with pytest.raises(ModelError, match="smaller scale"):
        quantise(weights, 99, scale=model.scale + 50)
    with pytest.raises(ModelError, match="train it again"):
        quantise(weights | {"hidden_bias": np.full(256, 1e4)}, 99)


def test_quantise_rounds_at_the_scales() -> None:
    rng = np.random.default_rng(3)
    weights = {
        "hidden_weights": rng.normal(0, 0.1, (31, 256)).astype(np.float32),
        "hidden_bias": rng.normal(size=256).astype(np.float32),
        "output_weights": rng.normal(0, 0.2, (256, 2)).astype(np.float32),
        "output_bias": rng.normal(size=2).astype(np.float32),
    }
    model = quantise(weights, 99)
    w1 = weights["hidden_weights"].astype(np.float64)
    assert np.array_equal(model.hidden_weights, np.rint(w1 * 1000))
    assert np.array_equal(
        model.output_bias, np.rint(weights["output_bias"].astype(np.float64) * 1e6)
    )
    integers = {
        name: getattr(model, name)
        for name in ("hidden_weights", "hidden_bias", "output_weights", "output_bias")
    }
    assert quantise(integers, 99).to_bytes() == model.to_bytes()
    with pytest.raises(ModelError, match="output_bias missing"):
        quantise({k: v for k, v in weights.items() if k != "output_bias"}, 99)
    with pytest.raises(ModelError, match="all arrays must be float"):
        quantise(weights | {"output_bias": np.zeros(2, np.int64)}, 99)
    with pytest.raises(ModelError, match="not finite"):
        quantise(weights | {"hidden_bias": np.full(256, np.nan, np.float32)}, 99)


def test_other_hidden_layers_round_trip_but_the_kernel_refuses_them() -> None:
    rng = np.random.default_rng(1)
    model = quantise(
        {
            "hidden_weights": rng.normal(0, 0.1, (31, 16)),
            "hidden_bias": rng.normal(size=16),
            "output_weights": rng.normal(size=(16, 2)),
            "output_bias": rng.normal(size=2),
        },
        50,
    )
    assert Model.from_bytes(model.to_bytes()).n_hidden == 16
    with pytest.raises(ModelError, match="shape"):
        check_kernel_accepts(model.to_bytes())


def test_a_full_disk_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.linnos"
    old = random_model(1)
    old.save(path)

    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(LinnappError, match="No space left"):
        random_model(2).save(path)
    assert path.read_bytes() == old.to_bytes()
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.linnos"]


def test_find_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such model"):
        find_model(tmp_path / "none")
    with pytest.raises(ModelError, match="holds no"):
        find_model(tmp_path)
    random_model().save(tmp_path / "sda.linnos")
    assert find_model(tmp_path, "sdb") == tmp_path / "sda.linnos"
    random_model().save(tmp_path / "sdb.linnos")
    assert find_model(tmp_path, "sdb") == tmp_path / "sdb.linnos"
    with pytest.raises(ModelError, match="several models"):
        find_model(tmp_path, "sdc")
