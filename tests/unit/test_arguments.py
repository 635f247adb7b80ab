# SPDX-License-Identifier: MIT
"""The library's functions refuse invalid arguments and name them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import run
from test_latency_log import random_log

import linnapp
from linnapp.arguments import options_in
from linnapp.engine import predict_us
from linnapp.errors import TraceError
from linnapp.learn.options import LabellingOptions, Recipe, TrainingOptions
from linnapp.model import N_FEATURES, LatencyModel

MODEL = LatencyModel.mean_of_last(500, 1000, 300)


NAN, INF = float("nan"), float("inf")
NO_FILE = "there is no such file"
#: Each row has the called function, its arguments, and the error.
INVALID = [
    (Recipe, {"kind": "latencies"}, ValueError, "kind='latencies': .*'network', 'latency'"),
    (Recipe, {"max_refused": 7}, ValueError, "max_refused=7: .*at most 1"),
    (Recipe, {"labelling": "x"}, TypeError, "labelling='x': expected LabellingOptions, not str"),
    (Recipe, {"reader": 5}, TypeError, "reader=5: expected dict, not int"),
    (Recipe, {"reader": {"devcie": "8:0"}}, TypeError, "'devcie'; did you mean 'device'"),
    (Recipe, {"reader": {"device": 8}}, TypeError, "device=8: expected str, not int"),
    (Recipe, {"reader": {"max_age_s": 0}}, ValueError, "max_age_s=0: .*above 0"),
    (LabellingOptions, {"search": "Paper"}, ValueError, "search='Paper': .*'wide', 'paper'"),
    (LabellingOptions, {"failover_us": NAN}, ValueError, "failover_us=nan"),
    (LabellingOptions, {"replicas": 1}, ValueError, "replicas=1: .*at least 2"),
    (TrainingOptions, {"validation_share": 0.5, "test_share": 0.5}, ValueError,
     r"validation_share \+ test_share=1.0: .*below 1"),
    (TrainingOptions, {"seed": "1"}, TypeError, "seed='1': expected an integer, not str"),
    (TrainingOptions, {"bias": True}, TypeError, "bias=True: expected a number, not bool"),
    (TrainingOptions, {"learning_rate": INF}, ValueError, "accepted is above 0, and no infinity"),
    (TrainingOptions, {"seed": 10**400}, ValueError, "seed=1000.*at most 4.29497e"),
    (partial(linnapp.upload, MODEL, "none"), {"mode": "enforced"}, ValueError,
     "mode='enforced': accepted are 'off', 'observe', 'enforce'"),
    (partial(predict_us, MODEL, np.zeros((1, N_FEATURES), np.uint32)), {"engine": "gpu"},
     ValueError, "engine='gpu': accepted are 'numpy', 'c'"),
    (partial(linnapp.fit_latency, NO_FILE), {"observer": 5}, TypeError, "expected Observer"),
    (partial(linnapp.fit_latency, NO_FILE), {"max_refusde": 1}, TypeError,
     "did you mean 'max_refused'"),
    (partial(linnapp.fit_latency, NO_FILE), {"bias": 2}, TypeError,
     r"fit_latency\(\) has no argument 'bias'; accepted"),
    (partial(linnapp.fit_network, NO_FILE), {"even_if_worse": 1}, TypeError,
     "even_if_worse=1: expected True or False"),
    (partial(linnapp.fit_network, NO_FILE), {"labels": "papr"}, ValueError,
     "labels='papr': accepted are 'avoidable'"),
    (partial(linnapp.inflection_point, NO_FILE), {"serch": "wide"}, TypeError,
     r"'serch'; did you mean 'search'\?"),
    (partial(linnapp.inflection_point, np.zeros(3)), {}, TypeError,
     r"table that linnapp\.load\(\) returned, not ndarray"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "arguments", "error", "message"), INVALID)
def test_invalid_argument_is_named_before_anything_is_done(
    call: Callable[..., object], arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(**arguments)


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


def test_options_accept_numbers_of_numpy() -> None:
    options = TrainingOptions(seed=np.int64(3), test_share=np.float32(0.25))
    assert (options.seed, options.test_share) == (3, 0.25)
