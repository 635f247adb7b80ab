# SPDX-License-Identifier: MIT
"""``linnapp upload``: give a drive its model."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--model",
    "model_path",
    type=click.Path(path_type=Path),
    required=True,
    help="A .linnos file, or the directory that training wrote.",
)
@click.option("--device", required=True, help="The drive, e.g. /dev/nvme0n1.")
@click.option("--mode", type=click.Choice(["off", "observe", "enforce"]), help="Then switch to it.")
def upload(model_path: Path, device: str, mode: str | None) -> None:
    """Give a drive its model, atomically, and check that the kernel has it.

    In a directory of several models, the one named after the drive is meant. A model that the
    kernel refuses leaves the active one as it is.
    """
    from linnapp.model import Model, find_model
    from linnapp.sysfs import Drive

    drive = Drive(device)
    path = find_model(model_path, drive.name)
    model = Model.load(path)
    drive.upload(model)
    if mode is not None:
        drive.set_mode(mode)
    click.echo(
        f"{drive.name}: model {model.model_id} ({path}), threshold {model.threshold_us} us, "
        f"mode {drive.mode}"
    )
