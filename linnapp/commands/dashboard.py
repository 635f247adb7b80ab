# SPDX-License-Identifier: MIT
"""``linnapp dashboard``: dashboards for what others draw, to be imported there."""

from __future__ import annotations

import importlib.resources
from pathlib import Path

import click

from linnapp.option_types import FILE

#: As each of them exports it. Kibana's is of 7.10; later versions bring it up to date on import.
_FILES = {"kibana": "linnapp-watch.ndjson", "grafana": "linnos-dashboard.json"}


@click.command()
@click.argument("tool", type=click.Choice(list(_FILES)))
@click.option("-o", "--output", type=FILE, help="File to write; else it is printed.")
def dashboard(tool: str, output: Path | None) -> None:
    """Write a dashboard, to be imported into Kibana or Grafana.

    \b
    linnapp dashboard kibana -o linnapp.ndjson     of what `linnapp watch --elasticsearch` sends:
                                                   Stack Management, Saved Objects, Import
    linnapp dashboard grafana -o linnos.json       of what `linnapp exporter` serves to Prometheus:
                                                   Dashboards, New, Import
    """
    from linnapp.files import replace_text

    place = importlib.resources.files("linnapp") / "monitoring" / _FILES[tool]
    text = place.read_text()
    if output is None:
        click.echo(text, nl=False)
    else:
        replace_text(output, text)
