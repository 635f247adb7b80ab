# SPDX-License-Identifier: MIT
"""``linnapp upload``: give a drive its model."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.commands._options import mode_option, model_option


@click.command()
@model_option(required=False)
@click.option("--previous", is_flag=True, help="Upload the model that the last upload replaced.")
@click.option("--device", required=True, help="The drive, e.g. /dev/nvme0n1.")
@mode_option
def upload(model_path: Path | None, previous: bool, device: str, mode: str | None) -> None:
    """Upload a model to a drive, atomically, and check that the kernel has it.

    From a directory of several models, the one named after the drive is used. If the kernel refuses
    the model, the old one stays active. The previous model is saved, so that --previous can undo
    the upload, and a second --previous can undo that.
    """
    if previous == (model_path is not None):
        raise click.UsageError("give either --model or --previous")

    from linnapp.drive import state
    from linnapp.drive.deployment import upload as give
    from linnapp.drive.sysfs import Drive
    from linnapp.model import LatencyModel, find_model, load_model

    name = Drive(device).name
    path = state.previous_model(name) if model_path is None else find_model(model_path, name)
    model = load_model(path)
    drive = give(
        model,
        device,
        mode=mode,
        warn=lambda words: click.echo(f"linnapp: warning: {words}", err=True),
    )
    kind = "latency model" if isinstance(model, LatencyModel) else "model"
    click.echo(
        f"{drive.name}: {kind} {model.model_id} ({path}), threshold {model.threshold_us} us, "
        f"mode {drive.mode}"
    )
