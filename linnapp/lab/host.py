# SPDX-License-Identifier: MIT
"""Run `linnapp` commands on the host, each in a process of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from linnapp.lab.guest import REPOSITORY
from linnapp.lab.work import StepError, tail

#: Prefixes of variables with which TensorFlow, numpy and their libraries change their results.
_CHANGES_RESULTS = (
    "TF_", "XLA_", "KERAS_", "CUDA_", "ONEDNN_", "DNNL_", "MKL_", "KMP_", "OMP_", "GOMP_",
    "OPENBLAS_", "GOTO_", "BLIS_", "NPY_", "EIGEN_", "GLIBC_TUNABLES", "MALLOC_", "PYTHONHASHSEED",
)  # fmt: skip


def linnapp(*arguments: str) -> str:
    """Run a linnapp command and return its output; a failure raises StepError with its message."""
    command = _linnapp_command(*arguments)
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise StepError(f"linnapp {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout


def _linnapp_command(*arguments: str) -> list[str]:
    """Return a command line that runs the code of this process from any working folder."""
    start = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from linnapp.cli import main; main()"
    )
    return [sys.executable, "-P", "-c", start, *arguments]


def training_environment() -> dict[str, str]:
    """Return the environment of this process without variables that would change a training."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_CHANGES_RESULTS)}
    # The path cannot exist, so no settings are read from the user's home folder.
    return {**kept, "PYTHONHASHSEED": "0", "KERAS_HOME": "/dev/null/keras"}


def train_arguments(traces: Sequence[Path], model_dir: Path, *options: str) -> list[str]:
    """Return the arguments of `linnapp train` for one model per trace, a network by default."""
    named = (argument for trace in traces for argument in ("--trace", str(trace)))
    return ["-o", str(model_dir), "--kind", "network", *options, *named]


def models_of(traces: Sequence[Path], model_dir: Path) -> list[Path]:
    """Return the models that `linnapp train` writes, in the order of the traces."""
    return [model_dir / f"{trace.stem}.linnos" for trace in traces]


def train(traces: Sequence[Path], model_dir: Path, log: Path, *options: str) -> list[Path]:
    """Train one model per trace with `linnapp train`, and return the models."""
    arguments = train_arguments(traces, model_dir, *options)
    command = _linnapp_command("train", *arguments)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        status = subprocess.run(
            command, stdout=output, stderr=output, env=training_environment(), check=False
        ).returncode
    if status:
        raise StepError(f"exit status {status} of {shlex.join(command)}\n{tail(log)}")
    return models_of(traces, model_dir)
