# SPDX-License-Identifier: MIT
"""``linnapp predict``: run a model on feature vectors."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from linnapp.commands._options import model_option
from linnapp.option_types import FILE


@click.command()
@model_option(required=True)
@click.option(
    "--features",
    type=FILE,
    required=True,
    help="An .npy file: digits of shape [n, 31] for a network, features of shape [n, 23] for a "
    "latency model (or [n, 22] for an older one).",
)
@click.option(
    "--engine",
    type=click.Choice(["numpy", "c"]),
    default="numpy",
    help="c runs the kernel's code, numpy an independent implementation.",
)
def predict(model_path: Path, features: Path, engine: str) -> None:
    """Print a line for each feature vector: 0 (fast) or 1 (slow), or the predicted us."""
    import numpy as np

    from linnapp.commands._arrays import load
    from linnapp.engine import predict as predict_slow
    from linnapp.engine import predict_us
    from linnapp.errors import LinnappError, errors_about
    from linnapp.model import Model, find_model, load_model

    model = load_model(find_model(model_path))
    n_inputs = model.n_inputs if isinstance(model, Model) else model.n_features
    digits = load(features, several=False)
    if digits.ndim != 2:
        raise LinnappError(f"{features}: shape {digits.shape}, expected (n, {n_inputs})")
    for start in range(0, len(digits), 1 << 18):
        part = np.asarray(digits[start : start + (1 << 18)])
        with errors_about(features):
            if isinstance(model, Model):
                answers = predict_slow(model, part, engine).astype(int)  # type: ignore[arg-type]
            else:
                answers = predict_us(model, part, engine)  # type: ignore[arg-type]
        sys.stdout.write("".join(f"{answer}\n" for answer in answers.tolist()))
