# SPDX-License-Identifier: MIT
"""``linnapp dashboard``: print dashboards for Kibana and Grafana."""

from __future__ import annotations

import importlib.resources
from pathlib import Path

import click

from linnapp.option_types import FILE

#: files in the tools' export formats; Kibana's is that of 7.10, which later versions convert
_FILES = {"kibana": "linnapp-watch.ndjson", "grafana": "linnos-dashboard.json"}


@click.command()
@click.argument("tool", type=click.Choice(list(_FILES)))
@click.option("-o", "--output", type=FILE, help="File to write; the default is standard output.")
def dashboard(tool: str, output: Path | None) -> None:
    """Write a dashboard for import into Kibana or Grafana.

    \b
    linnapp dashboard kibana -o linnapp.ndjson     for data of `linnapp watch --elasticsearch`:
                                                   Stack Management, Saved Objects, Import
    linnapp dashboard grafana -o linnos.json       for metrics of `linnapp exporter`:
                                                   Dashboards, New, Import
    """
    from linnapp.files import replace_text

    place = importlib.resources.files("linnapp") / "monitoring" / _FILES[tool]
    text = place.read_text()
    if output is None:
        click.echo(text, nl=False)
    else:
        replace_text(output, text)
