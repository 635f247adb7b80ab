# SPDX-License-Identifier: MIT
"""``linnapp upload``: give a drive its model."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.commands._options import model_option


@click.command()
@model_option(required=False)
@click.option("--previous", is_flag=True, help="The model that the last upload replaced.")
@click.option("--device", required=True, help="The drive, e.g. /dev/nvme0n1.")
@click.option("--mode", type=click.Choice(["off", "observe", "enforce"]), help="Then switch to it.")
@click.option(
    "--peers",
    metavar="DEV,...",
    help="Drives with the same data: a read is refused only if one of them would serve it sooner, "
    "by the latency models of both. '' for none; left as they are unless given.",
)
def upload(
    model_path: Path | None, previous: bool, device: str, mode: str | None, peers: str | None
) -> None:
    """Give a drive its model, atomically, and check that the kernel has it.

    In a directory of several models, the one named after the drive is meant. A model that the
    kernel refuses leaves the active one as it is. The model that was active is kept, so that
    --previous can undo the upload, and undo that.
    """
    if previous == (model_path is not None):
        raise click.UsageError("give either --model or --previous")

    from linnapp.drive import state
    from linnapp.drive.sysfs import Drive
    from linnapp.drive.uploading import upload as give
    from linnapp.model import LatencyModel, find_model, load_model

    name = Drive(device).name
    path = state.previous_model(name) if model_path is None else find_model(model_path, name)
    model = load_model(path)
    drive = give(
        model,
        device,
        mode=mode,
        peers=None if peers is None else [name for name in peers.split(",") if name],
        warn=lambda words: click.echo(f"linnapp: warning: {words}", err=True),
    )
    kind = "latency model" if isinstance(model, LatencyModel) else "model"
    click.echo(
        f"{drive.name}: {kind} {model.model_id} ({path}), threshold {model.threshold_us} us, "
        f"mode {drive.mode}" + (f", peers {' '.join(drive.peers)}" if drive.peers else "")
    )
    if drive.peers and kind != "latency model":
        click.echo(f"linnapp: warning: {drive.name} asks no peers: a network tells no us", err=True)
