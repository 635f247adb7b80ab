# SPDX-License-Identifier: MIT
"""The library's functions refuse invalid arguments and name them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from running import run
from test_latency_log import random_log

import linnapp
from linnapp.arguments import options_in
from linnapp.errors import TraceError
from linnapp.learn.labels import LabellingOptions
from linnapp.learn.network import TrainingOptions
from linnapp.learn.options import Recipe
from linnapp.model import LatencyModel
from linnapp.model.engine import predict_us
from linnapp.model.file import N_FEATURES

MODEL = LatencyModel.mean_of_last(500, 1000, 300)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Recipe(kind="latencies"), ValueError, "kind='latencies': .*'network', 'latency'"),
        (lambda: Recipe(labels="papr"), ValueError, "labels='papr': .*'avoidable', 'paper'"),
        (lambda: Recipe(max_refused=7), ValueError, "max_refused=7: .*at most 1"),
        (lambda: LabellingOptions(search="Paper"), ValueError, "search='Paper': .*'wide', 'paper'"),
        (lambda: LabellingOptions(failover_us=-100), ValueError, "failover_us=-100: .*at least 0"),
        (lambda: LabellingOptions(failover_us=float("nan")), ValueError, "failover_us=nan"),
        (lambda: LabellingOptions(replicas=1), ValueError, "replicas=1: .*at least 2"),
        (lambda: LabellingOptions(threshold_us=0), ValueError, "threshold_us=0: .*at least 1"),
        (lambda: TrainingOptions(test_share=-1), ValueError, "test_share=-1: .*above 0, below 1"),
        (lambda: TrainingOptions(validation_share=1), ValueError, "validation_share=1: "),
        (
            lambda: TrainingOptions(validation_share=0.5, test_share=0.5),
            ValueError,
            r"validation_share \+ test_share=1.0: .*below 1",
        ),
        (lambda: TrainingOptions(seed="1"), TypeError, "seed='1': expected an integer, not str"),
        (lambda: TrainingOptions(bias=True), TypeError, "bias=True: expected a number, not bool"),
        (lambda: TrainingOptions(max_epochs=0), ValueError, "max_epochs=0: "),
        (lambda: TrainingOptions(burst_share=1), ValueError, "burst_share=1: .*below 1"),
        (
            lambda: TrainingOptions(learning_rate=float("inf")),
            ValueError,
            "learning_rate=inf: accepted is above 0, and no infinity",
        ),
        (lambda: TrainingOptions(seed=10**400), ValueError, "seed=1000.*at most 4.29497e"),
        (
            lambda: Recipe(labelling="x"),
            TypeError,
            "labelling='x': expected LabellingOptions, not str",
        ),
        (lambda: Recipe(training=None), TypeError, "training=None: expected TrainingOptions"),
        (lambda: Recipe(reader=5), TypeError, "reader=5: expected dict, not int"),
        (lambda: Recipe(reader={"devcie": "8:0"}), TypeError, "'devcie'; did you mean 'device'"),
        (lambda: Recipe(reader={"device": 8}), TypeError, "device=8: expected str, not int"),
        (lambda: Recipe(reader={"max_age_s": 0}), ValueError, "max_age_s=0: .*above 0"),
        (
            lambda: Recipe(reader={"allow_truncated": "no"}),
            TypeError,
            "allow_truncated='no': expected True or False",
        ),
        (lambda: linnapp.fit_latency("az", observer=5), TypeError, "observer=5: expected Observer"),
        (
            lambda: linnapp.upload(MODEL, "none", mode="enforced"),
            ValueError,
            "mode='enforced': accepted are 'off', 'observe', 'enforce'",
        ),
        (
            lambda: predict_us(MODEL, np.zeros((1, N_FEATURES), np.uint32), "gpu"),
            ValueError,
            "engine='gpu': accepted are 'numpy', 'c'",
        ),
    ],
)
def test_invalid_option_values_are_refused(
    make: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_numpy_numbers_are_numbers() -> None:
    options = TrainingOptions(seed=np.int64(3), test_share=np.float32(0.25))
    assert (options.seed, options.test_share) == (3, 0.25)


@pytest.mark.parametrize("in_memory", [False, True])
def test_invalid_recording_options_are_refused(tmp_path: Path, in_memory: bool) -> None:
    path = tmp_path / "az.trace"
    random_log(path, n=200)
    trace = linnapp.load(path) if in_memory else path
    with pytest.raises(
        TypeError, match=r"'devcie'; did you mean 'device'\? Accepted are text_format, device"
    ):
        linnapp.evaluate(MODEL, trace, devcie="8:16")
    with pytest.raises(TraceError, match="8:16|`device=`"):
        linnapp.evaluate(MODEL, trace, device="8:16")
    with pytest.raises(TypeError, match=r"model='az': .*load_model\(\)"):
        linnapp.evaluate("az", trace)
    with pytest.raises(TypeError, match=r"text_format='csv': expected TextFormat, one of .*, not"):
        linnapp.load(path, text_format="csv")
    with pytest.raises(TypeError, match="no argument 'chunk'"):
        linnapp.load(path, chunk=5)
    with pytest.raises(ValueError, match="chunk_ios=0: .*at least 1"):
        linnapp.load(path, chunk_ios=0)


def test_option_declares_its_check_and_its_flag() -> None:
    """Check that the library and the command refuse values outside the declared limits."""
    for owner in (LabellingOptions, TrainingOptions, Recipe):
        for name, (declared, default) in options_in(owner).items():
            wrong = "nonsense" if declared.choices else "yes" if declared.low is None else -1
            with pytest.raises((TypeError, ValueError), match=f"{name}="):
                owner(**{name: wrong})
            assert owner(**{name: default}) == owner()
    for command in ("train", "label"):
        for flag, value in (("--replicas", "1"), ("--failover-us", "-1"), ("--threshold-us", "0")):
            result = run(command, "--trace", "x.blk", flag, value)
            assert result.exit_code == 2 and flag in result.stderr
