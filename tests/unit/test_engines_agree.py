# SPDX-License-Identifier: MIT
"""Models computed by numpy, by the kernel's C code, by plain Python, and networks by TensorFlow.

They agree on every one of 100,000 random vectors of inputs. (The lab tests compare the kernel
itself with them.)
"""

from __future__ import annotations

import dataclasses
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from test_model_format import of_units, random_model
from trees_by_hand import one_tree, random_features, random_trees

from linnapp import engine
from linnapp.engine import digits, parse_latency_in_c, power, predict_hinted_us, predict_us
from linnapp.errors import LinnappError, ModelError
from linnapp.learn.network import quantise
from linnapp.model import (
    CAP,
    FEATURES,
    FRACTION_BITS,
    N_FEATURES,
    N_LEAVES,
    N_SPLITS,
    LatencyModel,
    Model,
)
from linnapp.native import N_FEATURES_MIN
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


def test_tensorflow_agrees_with_the_rounded_network() -> None:
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


def test_digit_inputs_are_the_decimal_digits_of_the_features() -> None:
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
def test_numpy_and_c_agree_on_trees(n_trees: int) -> None:
    model = random_trees(n_trees, n_trees)
    x = random_features()
    ours = predict_us(model, x, "numpy")
    assert np.array_equal(ours, predict_us(model, x, "c"))
    assert len(np.unique(ours)) > 100
    assert ours[:200].tolist() == [one_by_one(model, row) for row in x[:200].tolist()]


@pytest.mark.parametrize("name", engine.ENGINES)
def test_predictions_of_extreme_models_stay_within_their_range(name: engine.Engine) -> None:
    x = np.array([[0] * N_FEATURES, [CAP] * N_FEATURES], np.uint32)
    least = random_trees(n_trees=256)
    for leaf, us in ((-(2**15), 1), (2**15 - 1, CAP)):
        model = LatencyModel(
            least.splits, np.full_like(least.leaves, leaf), 0, 1, 1, overdue_us=CAP
        )
        assert predict_us(model, x, name).tolist() == [us, us]
    # A split at CAP, the largest value, sends no read to the right.
    none = LatencyModel(
        np.full((16, 15), CAP, np.uint32), np.array([[0] + [64] * 15] * 16, np.int16), 0, 1, 1, CAP
    )
    assert predict_us(none, x, name).tolist() == [1, 1]
    # The prediction is at least the time by which the oldest read is overdue.
    late = LatencyModel(none.splits, none.leaves, 0, 1, 1, overdue_us=CAP - 5)
    assert predict_us(late, x, name).tolist() == [1, 5]


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


def test_model_with_fewer_features_keeps_its_predictions() -> None:
    model = random_trees(3)
    old = dataclasses.replace(
        model, splits=model.splits % (N_FEATURES_MIN << 24), n_features=N_FEATURES_MIN
    )
    data = old.to_bytes()
    assert struct.unpack_from("<H", data, 20) == (22,)
    assert LatencyModel.from_bytes(data).to_bytes() == data
    parse_latency_in_c(data)
    x = random_features(1000, 4)
    for name in engine.ENGINES:
        known = predict_us(old, x[:, :N_FEATURES_MIN], name)
        assert np.array_equal(known, predict_us(old, x, name))
        assert not np.array_equal(known, predict_us(model, x, name))
        with pytest.raises(LinnappError, match=r"takes \(n, 23\)"):
            predict_us(model, x[:, :N_FEATURES_MIN], name)
    assert old.without_trees().n_features == N_FEATURES_MIN
    assert old.times(model).n_features == N_FEATURES
    for few in (21, 24):
        with pytest.raises(ModelError, match=f"n_features is {few}"):
            dataclasses.replace(old, n_features=few)


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


#: Inputs of each kind of model, and the error.
BAD_INPUTS = [
    ("network", np.zeros((3, 30), np.uint8), "shape"),
    ("network", np.full((3, 31), 10, np.uint8), "expected 0 to 9"),
    ("network", np.full((3, 31), -1, np.int8), "expected 0 to 9"),
    ("network", np.zeros((3, 31)), "expected integers"),
    ("trees", np.zeros((3, 31), np.uint8), "shape"),
    ("trees", np.full((3, N_FEATURES), CAP + 1, np.uint32), "expected 0 to"),
    ("trees", np.full((3, N_FEATURES), -1), "expected 0 to"),
    ("trees", np.zeros((3, N_FEATURES)), "expected integers"),
]


@pytest.mark.parametrize("name", engine.ENGINES)
@pytest.mark.parametrize(("kind", "bad", "message"), BAD_INPUTS)
def test_bad_features_are_refused(
    kind: str, bad: np.ndarray, message: str, name: engine.Engine
) -> None:
    def compute(inputs: np.ndarray) -> np.ndarray:
        if kind == "network":
            return engine.infer(MODELS["random"], inputs, name)
        return predict_us(random_trees(), inputs, name)

    with pytest.raises(LinnappError, match=message):
        compute(bad)
    assert len(compute(np.zeros((0, 31 if kind == "network" else N_FEATURES), np.uint8))) == 0


ROOT = Path(__file__).parents[2]
#: The number of the recording's I/Os, and the checksums of predicted latencies, and of outputs and
#: margins of the network.
ANSWERS = {"fio": (18898, 1880649727, 3285270640), "pgbench": (34020, 1531306246, 2438889571)}


@pytest.mark.parametrize("name", ANSWERS)
def test_outputs_have_the_recorded_checksums(name: str) -> None:
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
