# SPDX-License-Identifier: MIT
"""Both kinds of model in the kernel, in the shared library and in numpy agree on random vectors."""

from __future__ import annotations

import re
import zlib

import numpy as np
import pytest

from linnapp.engine import infer, predict_us
from linnapp.lab.array import Array
from linnapp.model import N_FEATURES, N_LEAVES, N_SPLITS, LatencyModel, Model

pytestmark = pytest.mark.lab

N_VECTORS = 100_000
SEED = 0x4C494E4E


def _xorshift32(n: int, seed: int) -> np.ndarray:
    """Yield the random numbers from which the KUnit case draws its model and vectors."""
    out = np.empty(n, np.uint32)
    x = seed
    for i in range(n):
        x ^= (x << 13) & 0xFFFFFFFF
        x ^= x >> 17
        x ^= (x << 5) & 0xFFFFFFFF
        out[i] = x
    return out


@pytest.fixture(scope="module")
def vectors() -> tuple[Model, np.ndarray]:
    n_weights = 31 * 256 + 256 + 512 + 2
    stream = _xorshift32(n_weights + N_VECTORS * 31, SEED)
    parts = np.split(stream[:n_weights].astype(np.int64), np.cumsum([31 * 256, 256, 512]))
    hidden, output = (part % 201 - 100 for part in parts[::2])
    bias, output_bias = (part % 4001 - 2000 for part in parts[1::2])
    model = Model(
        hidden_weights=hidden.reshape(31, 256).astype(np.int32),
        hidden_bias=bias.astype(np.int32),
        output_weights=output.reshape(256, 2).astype(np.int32),
        output_bias=output_bias,
        threshold_us=100,
    )
    return model, (stream[n_weights:] % 10).astype(np.uint8).reshape(-1, 31)


def _sizes(x: np.ndarray) -> np.ndarray:
    """Return sizes as in the KUnit case: 24 bits, small and large ones equally often."""
    return x >> (8 + (x & 31) % 24)


@pytest.fixture(scope="module")
def latency_vectors() -> tuple[LatencyModel, np.ndarray]:
    n_trees = 32
    n_splits, n_leaves = n_trees * N_SPLITS, n_trees * N_LEAVES
    stream = _xorshift32(2 * n_splits + n_leaves + N_VECTORS * N_FEATURES, SEED)
    splits, leaves, features = np.split(stream, [2 * n_splits, 2 * n_splits + n_leaves])
    model = LatencyModel(
        splits=((splits[::2] % N_FEATURES) << 24 | _sizes(splits[1::2])).reshape(-1, N_SPLITS),
        leaves=((leaves % 401).astype(np.int64) - 200).reshape(-1, N_LEAVES),
        base=8 << 10,
        threshold_us=150,
        refuse_us=300,
        overdue_us=1000,
    )
    return model, _sizes(features).reshape(-1, N_FEATURES)


def test_kernel_library_and_numpy_agree(
    boot, vectors: tuple[Model, np.ndarray], latency_vectors: tuple[LatencyModel, np.ndarray]
) -> None:
    model, digits = vectors
    by_numpy = infer(model, digits, engine="numpy")
    by_library = infer(model, digits, engine="c")
    np.testing.assert_array_equal(by_library, by_numpy)

    result = boot(
        "true", Array(n_drives=0), kernel_args=("kunit.enable=1", "kunit.filter_glob=linnos*")
    )
    line = re.search(r"linnos_vectors: n=(\d+) crc32=([0-9a-f]{8}) slow=(\d+)", result.dmesg)
    assert line, "the KUnit case printed no result"
    assert int(line[1]) == N_VECTORS
    assert int(line[2], 16) == zlib.crc32(by_numpy.astype("<i8").tobytes())
    slow = by_numpy[:, 1] > by_numpy[:, 0]
    assert int(line[3]) == slow.sum() and slow.any() and not slow.all()

    trees, features = latency_vectors
    us = predict_us(trees, features, engine="numpy")
    np.testing.assert_array_equal(predict_us(trees, features, engine="c"), us)
    line = re.search(
        r"linnos_latency_vectors: n=(\d+) crc32=([0-9a-f]{8}) slow=(\d+)", result.dmesg
    )
    assert line, "the KUnit case of the trees printed no result"
    assert int(line[1]) == N_VECTORS
    assert int(line[2], 16) == zlib.crc32(us.astype("<u4").tobytes())
    assert int(line[3]) == np.count_nonzero(us > trees.refuse_us)


def test_kunit_suites_pass(boot) -> None:
    result = boot(
        "cat /sys/kernel/debug/kunit/*/results 2>/dev/null",
        Array(n_drives=0),
        kernel_args=("kunit.enable=1", "kunit.filter_glob=*"),
    )
    suites = re.findall(
        r"^# (linnos\S*|flashsim\S*): pass:(\d+) fail:(\d+) skip:(\d+)",
        result.dmesg + result.stdout,
        re.M,
    )
    lines = [line for line in result.dmesg.splitlines() if "not ok" in line]
    assert not lines, lines
    for ours in ("linnos", "flashsim"):
        assert any(name.startswith(ours) and int(passed) > 0 for name, passed, _, _ in suites), (
            result.dmesg[-3000:]
        )
