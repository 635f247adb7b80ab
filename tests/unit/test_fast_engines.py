# SPDX-License-Identifier: MIT
"""The kernel's fast engines, compiled as a library, against the reference engine.

Every model here is one that the engines take apart differently: narrow ones, whose sums fit 16
bits, up to the last value that does; ones that just do not; and ones with the largest weights
that can be packed.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from test_model_format import random_model

from linnapp.model import Model, engine
from linnapp.model.engine import _engine

N = 100_000


def _available() -> list[str]:
    available = _engine().linnos_engine_available
    available.argtypes = (ctypes.c_char_p,)
    available.restype = ctypes.c_bool
    return [name for name in ("scalar", "avx2") if available(name.encode())]


def _margins(name: str, model: Model, x: np.ndarray) -> np.ndarray:
    """Output of slow less output of fast for each row of `x`, by the engine of that name."""
    library = _engine()
    file = model.to_bytes()
    parsed = ctypes.create_string_buffer(library.linnos_model_sizeof())
    assert library.linnos_model_parse(parsed, file, len(file)) == 0
    margin = np.empty(len(x), np.int64)
    batch = library.linnos_margin_batch
    batch.argtypes = (
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_long,
        ctypes.c_void_p,
    )
    batch.restype = ctypes.c_long
    assert batch(name.encode(), parsed, x.ctypes.data, len(x), margin.ctypes.data) == len(x)
    return margin


def _digits(n: int) -> np.ndarray:
    """Random digits, half of them with as many zeros as real features have, and the extremes."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 10, (n, 31), dtype=np.uint8)
    x[::2] *= rng.integers(0, 3, (n // 2, 31), dtype=np.uint8) == 0
    x[0] = 0
    x[1] = 9
    x[2, :12] = 9
    x[3] = 9
    x[3, 12:15] = 0
    return x


def _uniform(weight: int, bias: int, margin: int) -> Model:
    """All units alike: every digit has `weight`, and the outputs differ by `margin` a unit."""
    output = np.zeros((256, 2), np.int32)
    output[:, 1] = margin
    return random_model(
        hidden_weights=np.full((31, 256), weight, np.int32),
        hidden_bias=np.full(256, bias, np.int32),
        output_weights=output,
    )


def _mixed(limit: int, output_limit: int, bias_limit: int) -> Model:
    rng = np.random.default_rng(limit)
    return random_model(
        hidden_weights=rng.integers(-limit, limit + 1, (31, 256), dtype=np.int32),
        hidden_bias=rng.integers(-bias_limit, bias_limit + 1, 256, dtype=np.int32),
        output_weights=rng.integers(-output_limit, output_limit + 1, (256, 2), dtype=np.int32),
    )


# 100 * 9 * 31 + 4867 is the largest number of 16 bits; 256 * 32767 * 256 is almost 2^31.
MODELS = {
    "narrow": _mixed(100, 60, 4867),
    "as trained": _mixed(250, 300, 200),
    "up to the last value": _uniform(100, 4867, 256),
    "down to the last value": _uniform(-100, -4868, 256),
    "slow to the last value": _uniform(100, 4867, -256),
    "one too high": _uniform(100, 4868, 100),
    "one too low": _uniform(-100, -4869, 256),
    "output too high": _uniform(100, 4867, 257),
    "wide": _mixed(2000, 2000, 2000),
    "as wide as it goes": _mixed(32767, 32767, 2**30 - 1),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_margins_are_the_references(model: Model) -> None:
    x = _digits(N if model is MODELS["as trained"] else N // 10)
    outputs = engine.infer(model, x, "numpy")
    names = _available()
    assert "scalar" in names
    for name in names:
        assert np.array_equal(_margins(name, model, x), outputs[:, 1] - outputs[:, 0]), name
