# SPDX-License-Identifier: MIT
"""`linnapp` on the host, each time in a process of its own; `workers` trains without one."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from linnapp.lab.guest import REPOSITORY
from linnapp.lab.work import StepError, tail

#: Variables that TensorFlow, numpy and the libraries below them look at.
_STEERS_NUMBERS = (
    "TF_", "XLA_", "KERAS_", "CUDA_", "ONEDNN_", "DNNL_", "MKL_", "KMP_", "OMP_", "GOMP_",
    "OPENBLAS_", "GOTO_", "BLIS_", "NPY_", "EIGEN_", "GLIBC_TUNABLES", "MALLOC_", "PYTHONHASHSEED",
)  # fmt: skip


def linnapp(*arguments: str) -> str:
    """Run a linnapp command and return its output; what it says where it fails is StepError's."""
    command = _linnapp_command(*arguments)
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise StepError(f"linnapp {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout


def _linnapp_command(*arguments: str) -> list[str]:
    """Return a command line that runs the code of this process, in whatever folder it is called."""
    start = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from linnapp.cli import main; main()"
    )
    return [sys.executable, "-P", "-c", start, *arguments]


def training_environment() -> dict[str, str]:
    """This process's environment without what would change a training's numbers."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_STEERS_NUMBERS)}
    # Below a file nothing can be read or made: no settings from the user's home folder.
    return {**kept, "PYTHONHASHSEED": "0", "KERAS_HOME": "/dev/null/keras"}


def train_arguments(traces: Sequence[Path], model_dir: Path, *options: str) -> list[str]:
    """Return the arguments of `linnapp train` for one model per trace, a network by default."""
    named = (argument for trace in traces for argument in ("--trace", str(trace)))
    return ["-o", str(model_dir), "--kind", "network", *options, *named]


def models_of(traces: Sequence[Path], model_dir: Path) -> list[Path]:
    """The models that it leaves, in the order of the traces."""
    return [model_dir / f"{trace.stem}.linnos" for trace in traces]


def train(traces: Sequence[Path], model_dir: Path, log: Path, *options: str) -> list[Path]:
    """Train one model a trace with `linnapp train`."""
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
