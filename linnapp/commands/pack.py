# SPDX-License-Identifier: MIT
"""``linnapp pack``: build a model file from weights trained elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.option_types import FILE


@click.command()
@click.argument("weights", type=FILE, metavar="WEIGHTS.npz")
@click.option("-o", "--output", type=FILE, required=True, help="The model file, .linnos.")
@click.option(
    "--threshold-us",
    type=click.IntRange(1, 2**32 - 1),
    help="Inflection point in us, instead of that in WEIGHTS.npz.",
)
@click.option(
    "--scale",
    type=click.IntRange(1, 2**32 - 1),
    help="Factor of float weights before rounding.  [default: 1000, or the largest "
    "below it at which the kernel's sums fit 16 bits]",
)
def pack(weights: Path, output: Path, threshold_us: int | None, scale: int | None) -> None:
    """Make a model file from WEIGHTS.npz.

    The file contains the arrays hidden_weights [31, H], hidden_bias [H], output_weights [H, 2],
    output_bias [2] and threshold_us. Arrays of floats are quantised. Arrays of integers must
    already be scaled: the first three by the scale s, and output_bias by s squared.
    """
    from linnapp.commands._arrays import load
    from linnapp.errors import ModelError, errors_about
    from linnapp.learn.network import quantise

    arrays = load(weights, several=True)
    if threshold_us is None:
        if "threshold_us" not in arrays or arrays["threshold_us"].size != 1:
            raise ModelError(f"{weights}: no threshold_us in it; give --threshold-us")
        number = arrays["threshold_us"]
        # Not astype(): it would accept text, and cut off decimals.
        if number.dtype.kind not in "iuf" or not float(number.item()).is_integer():
            raise ModelError(
                f"{weights}: threshold_us is {number.item()!r}; expected a whole number of us, or "
                "give --threshold-us"
            )
        threshold_us = int(number.item())
    with errors_about(weights):
        model = quantise(arrays, threshold_us, scale=scale)
    model.save(output)
    click.echo(
        f"{output}: model {model.model_id}, {model.n_inputs} x {model.n_hidden} x 2, "
        f"scale {model.scale}, threshold {model.threshold_us} us"
    )
