# SPDX-License-Identifier: MIT
"""The replayer's percentiles: exact while it keeps values, within 1/2048 from its histogram."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

REPLAYER = Path(__file__).parents[2] / "replayer"
FRACTIONS = (0.0, 0.001, 0.5, 0.8, 0.95, 0.99, 0.999, 0.9999, 1.0)


class Latency(ctypes.Structure):
    """`struct latency` of replayer/results/latency.h."""

    _fields_ = (
        ("count", ctypes.c_uint64),
        ("sum_ns", ctypes.c_uint64),
        ("min_ns", ctypes.c_uint64),
        ("max_ns", ctypes.c_uint64),
        ("bits", ctypes.c_uint),  # of the struct histogram
        ("buckets", ctypes.c_void_p),
        ("chunks", ctypes.c_void_p),
        ("n_chunks", ctypes.c_uint32),
        ("exact_max", ctypes.c_uint32),
        ("exact", ctypes.c_bool),
        ("sorted", ctypes.c_void_p),
        ("n_sorted", ctypes.c_uint64),
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("lib") / "latency.so"
    shared = REPLAYER.parent / "liblinnos" / "predictor"
    sources = [REPLAYER / "results/latency.c", REPLAYER / "error.c", shared / "histogram.c"]
    subprocess.run(
        ["gcc", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", f"-I{shared}", f"-I{REPLAYER}", "-o",
         path, *sources, "-lm"],
        check=True,
    )  # fmt: skip
    library = ctypes.CDLL(str(path))
    library.latency_add.argtypes = (ctypes.POINTER(Latency), ctypes.c_uint64)
    library.latency_percentile.argtypes = (ctypes.POINTER(Latency), ctypes.c_double)
    library.latency_percentile.restype = ctypes.c_uint64
    library.latency_is_exact.restype = ctypes.c_bool
    return library


def measured(library: ctypes.CDLL, values: np.ndarray, exact_max: int) -> tuple[list[int], bool]:
    latency = Latency()
    library.latency_init(ctypes.byref(latency), exact_max)
    for value in values.tolist():
        library.latency_add(ctypes.byref(latency), value)
    assert latency.count == len(values) and latency.sum_ns == values.sum()
    found = [library.latency_percentile(ctypes.byref(latency), f) for f in FRACTIONS]
    exact = bool(library.latency_is_exact(ctypes.byref(latency)))
    library.latency_free(ctypes.byref(latency))
    return found, exact


def samples(largest: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    values = rng.lognormal(12, 2, 20_000).clip(0, largest).astype(np.int64)
    values[:50] = np.arange(50)
    return values


def nearest_rank(values: np.ndarray) -> list[int]:
    return [int(v) for v in np.quantile(values, FRACTIONS, method="inverted_cdf")]


def test_kept_values_give_exact_percentiles(library: ctypes.CDLL) -> None:
    values = samples(2**32 - 1)
    assert measured(library, values, 1 << 20) == (nearest_rank(values), True)


@pytest.mark.parametrize("exact_max", [0, 5000])
def test_the_histogram_is_within_its_bound(library: ctypes.CDLL, exact_max: int) -> None:
    values = samples(2**32 - 1)
    found, exact = measured(library, values, exact_max)
    assert not exact
    for got, wanted in zip(found, nearest_rank(values), strict=True):
        assert abs(got - wanted) <= wanted / 2048


def test_adding_a_value_takes_constant_time(library: ctypes.CDLL) -> None:
    """The first value too many copies nothing: the histogram has all; memory grows in steps."""
    chunk, n_chunks = 65536, 4
    latency = Latency()
    library.latency_init(ctypes.byref(latency), n_chunks * chunk)
    for _ in range(n_chunks * chunk):
        library.latency_add(ctypes.byref(latency), 1000)
    buckets = ctypes.cast(latency.buckets, ctypes.POINTER(ctypes.c_uint64))
    assert buckets[1000] == n_chunks * chunk
    assert latency.n_chunks == n_chunks and library.latency_is_exact(ctypes.byref(latency))
    for left in range(n_chunks - 1, -1, -1):
        library.latency_add(ctypes.byref(latency), 1000)
        assert latency.n_chunks == left
    assert not library.latency_is_exact(ctypes.byref(latency))
    assert library.latency_percentile(ctypes.byref(latency), 0.5) == 1000
    library.latency_free(ctypes.byref(latency))


def test_a_value_beyond_32_bits_moves_to_the_histogram(library: ctypes.CDLL) -> None:
    values = np.append(samples(10**9), 2**40)
    found, exact = measured(library, values, 1 << 20)
    assert not exact
    assert found[-1] == 2**40
