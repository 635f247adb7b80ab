# SPDX-License-Identifier: MIT
"""``linnapp dashboard``: dashboards for what others draw, to be imported there."""

from __future__ import annotations

import importlib.resources
from pathlib import Path

import click


@click.command()
@click.argument("tool", type=click.Choice(["kibana", "grafana"]))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write; else it is printed.",
)
def dashboard(tool: str, output: Path | None) -> None:
    """Write a dashboard, to be imported into Kibana or Grafana.

    \b
    linnapp dashboard kibana -o linnapp.ndjson     of what `linnapp watch --elasticsearch` sends:
                                                   Stack Management, Saved Objects, Import
    linnapp dashboard grafana -o linnos.json       of what `linnapp exporter` serves to Prometheus:
                                                   Dashboards, New, Import
    """
    from linnapp.files import replace_text

    if tool == "kibana":
        from linnapp.commands.screens.kibana_dashboard import dashboard as kibana

        text = kibana()
    else:
        place = importlib.resources.files("linnapp") / "monitoring" / "linnos-dashboard.json"
        text = place.read_text()
    if output is None:
        click.echo(text, nl=False)
    else:
        replace_text(output, text)
