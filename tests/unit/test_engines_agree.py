# SPDX-License-Identifier: MIT
"""Four implementations of one network: numpy, the kernel's C code, TensorFlow, and plain Python.

They agree on every one of 100,000 random vectors of digits. (The lab tests compare the kernel
itself with them.)
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from test_model_format import of_units, random_model

from linnapp.errors import LinnappError
from linnapp.learn.examples import digits
from linnapp.learn.network import quantise
from linnapp.model import Model, engine
from linnapp.model.file import LatencyModel
from linnapp.trace.reads import open_recording

N = 100_000


def trained_like_model() -> tuple[Model, dict[str, np.ndarray]]:
    """Return weights of the size that training gives; their boundary splits random digits."""
    rng = np.random.default_rng(7)
    weights = {
        "hidden_weights": rng.normal(0, 0.12, (31, 256)).astype(np.float32),
        "hidden_bias": rng.normal(0, 0.2, 256).astype(np.float32),
        "output_weights": rng.normal(0, 0.2, (256, 2)).astype(np.float32),
        "output_bias": np.array([0.3, -0.2], np.float32),
    }
    return quantise(weights, 100), weights


def random_digits() -> np.ndarray:
    return np.random.default_rng(11).integers(0, 10, (N, 31), dtype=np.uint8)


def plainly(model: Model, x: np.ndarray) -> np.ndarray:
    """Compute the network from its definition, in 64-bit integers; slow on purpose."""
    out = np.tile(model.output_bias, (len(x), 1))
    for unit in range(model.n_hidden):
        hidden = np.full(len(x), model.hidden_bias[unit], np.int64)
        for digit in range(model.n_inputs):
            hidden += x[:, digit] * np.int64(model.hidden_weights[digit, unit])
        out += np.outer(np.maximum(hidden, 0), model.output_weights[unit])
    return out


def _digits(n: int) -> np.ndarray:
    """Return random digits, half of them with as many zeros as real features, and the extremes."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 10, (n, 31), dtype=np.uint8)
    x[::2] *= rng.integers(0, 3, (n // 2, 31), dtype=np.uint8) == 0
    x[0] = 0
    x[1] = 9
    x[2, :12] = 9
    x[3] = 9
    x[3, 12:15] = 0
    return x


def _mixed(limit: int, output_limit: int, bias_limit: int) -> Model:
    rng = np.random.default_rng(limit)
    return random_model(
        hidden_weights=rng.integers(-limit, limit + 1, (31, 256), dtype=np.int32),
        hidden_bias=rng.integers(-bias_limit, bias_limit + 1, 256, dtype=np.int32),
        output_weights=rng.integers(-output_limit, output_limit + 1, (256, 2), dtype=np.int32),
    )


# 100 * 9 * 31 + 4867 is the largest number of 16 bits; 256 * 32767 * 256 is almost 2^31.
MODELS = {
    "random": random_model(1),
    "up to the limits": _mixed(100, 128, 4867),
    "as trained": trained_like_model()[0],
    "up to the last value": of_units(100, 4867, 256),
    "down to the last value": of_units(-100, -4868, 256),
    "slow to the last value": of_units(100, 4867, -256),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_c_and_numpy_compute_the_network(model: Model) -> None:
    x = _digits(N if model is MODELS["as trained"] else N // 10)
    outputs, margins = engine.outputs_and_margins(model, x)
    expected = plainly(model, x)
    assert np.array_equal(outputs, expected)
    assert np.array_equal(margins, expected[:, 1] - expected[:, 0])
    assert np.array_equal(engine.infer(model, x, "numpy"), expected)
    assert np.array_equal(engine.predict(model, x, "c"), margins > 0)


def test_rounded_float_network_of_tensorflow() -> None:
    from linnapp.learn.network import import_tensorflow

    tf = import_tensorflow()
    model, weights = trained_like_model()
    x = random_digits()
    # Weights are rounded and kept in units of the scales. Doubles then hold every sum exactly, as
    # the integers do, so that even ties must agree.
    w1 = tf.round(tf.constant(weights["hidden_weights"], tf.float64) * 1000)
    b1 = tf.round(tf.constant(weights["hidden_bias"], tf.float64) * 1000)
    w2 = tf.round(tf.constant(weights["output_weights"], tf.float64) * 1000)
    b2 = tf.round(tf.constant(weights["output_bias"], tf.float64) * 1e6)
    hidden = tf.nn.relu(tf.constant(x, tf.float64) @ w1 + b1)
    outputs = (hidden @ w2 + b2).numpy()
    assert np.array_equal(outputs, engine.infer(model, x, "c"))
    assert np.array_equal(outputs, engine.infer(model, x, "numpy"))
    slow = outputs[:, 1] > outputs[:, 0]
    assert N // 10 < np.count_nonzero(slow) < N - N // 10
    # The same network in floats, as trained, makes almost the same decisions.
    floats = tf.nn.relu(tf.cast(x, tf.float32) @ weights["hidden_weights"] + weights["hidden_bias"])
    out = (floats @ weights["output_weights"] + weights["output_bias"]).numpy()
    assert np.mean((out[:, 1] > out[:, 0]) != slow) < 0.01


def test_digits_are_the_numbers_written_out() -> None:
    rng = np.random.default_rng(5)
    n = 2000
    pending = rng.integers(0, 1200, n).astype(np.uint32)
    hist_pending = rng.integers(0, 1200, (n, 4)).astype(np.uint32)
    hist_latency = rng.integers(0, 12000, (n, 4)).astype(np.uint32)
    hist_latency[0] = [0, 9999, 10000, 2**32 - 1]
    for row, got in enumerate(digits(pending, hist_pending, hist_latency).tolist()):
        text = [f"{min(v, 999):03}" for v in [*hist_pending[row], pending[row]]]
        text += [f"{min(v, 9999):04}" for v in hist_latency[row]]
        assert "".join(map(str, got)) == "".join(text)
    with pytest.raises(ValueError, match="hist_pending has shape"):
        digits(pending, hist_pending[:, :3], hist_latency)


@pytest.mark.parametrize("name", engine.ENGINES)
def test_bad_features_are_refused(name: engine.Engine) -> None:
    model = random_model()
    for bad, message in (
        (np.zeros((3, 30), np.uint8), "shape"),
        (np.full((3, 31), 10, np.uint8), "expected 0 to 9"),
        (np.full((3, 31), -1, np.int8), "expected 0 to 9"),
        (np.zeros((3, 31)), "expected integers"),
    ):
        with pytest.raises(LinnappError, match=message):
            engine.infer(model, bad, name)
    assert engine.infer(model, np.zeros((0, 31), np.uint8), name).shape == (0, 2)


ROOT = Path(__file__).parents[2]
#: The number of the recording's I/Os, and the checksums of predicted latencies, and of outputs and
#: margins of the network.
ANSWERS = {"fio": (18898, 1880649727, 3285270640), "pgbench": (34020, 1531306246, 2438889571)}


@pytest.mark.parametrize("name", ANSWERS)
def test_decisions_stay_the_same(name: str) -> None:
    trees = LatencyModel.load(ROOT / "models" / "example" / "latency" / "flash0.linnos")
    network = Model.load(ROOT / "models" / "example" / "flash0.linnos")
    recording = open_recording(
        ROOT / "traces" / "recorded" / f"{name}.blk.xz", overdue_us=trees.overdue_us
    )
    n_ios, us_crc, outputs_crc = 0, 0, 0
    for chunk in recording:
        assert chunk.features is not None
        n_ios += len(chunk.features)
        us_crc = zlib.crc32(engine.predict_us(trees, chunk.features, "c").tobytes(), us_crc)
        x = digits(chunk.pending, chunk.hist_pending, chunk.hist_latency_us)
        outputs, margins = engine.outputs_and_margins(network, x)
        assert np.array_equal(margins, outputs[:, 1] - outputs[:, 0])
        outputs_crc = zlib.crc32(outputs.tobytes(), outputs_crc)
    assert (n_ios, us_crc, outputs_crc) == ANSWERS[name]
