# SPDX-License-Identifier: MIT
"""The model file: layout, checksum, and refusal of all files that the kernel would refuse."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from linnapp.errors import ModelError
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


def test_saved_network_loads_unchanged(tmp_path: Path) -> None:
    model = random_model()
    path = tmp_path / "m.linnos"
    model.save(path)
    again = Model.load(path)
    assert again.to_bytes() == model.to_bytes() == path.read_bytes()
    assert again.threshold_us == 421
    check_kernel_accepts(again.to_bytes())
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
    # The first two units of each four reach 20000; the weights of the last two make it 838 or 839.
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


WEIGHTS = {
    "hidden_weights": np.random.default_rng(3).normal(0, 0.4, (31, 256)),
    "hidden_bias": np.random.default_rng(4).normal(size=256),
    "output_weights": np.random.default_rng(5).normal(0, 0.2, (256, 2)),
    "output_bias": np.random.default_rng(6).normal(size=2),
}


def test_quantise_uses_the_largest_valid_scale() -> None:
    model = quantise(WEIGHTS, 99)
    assert 100 < model.scale < 1000
    check_kernel_accepts(model.to_bytes())
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
    given = {name: each for name, each in (WEIGHTS | changed).items() if each is not None}
    with pytest.raises(ModelError, match=message):
        quantise(given, 99)


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
