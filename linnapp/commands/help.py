# SPDX-License-Identifier: MIT
"""``linnapp help``: topics and the help of every command."""

from __future__ import annotations

import sys
from pathlib import Path

import click

_TOPICS = Path(__file__).resolve().parents[1] / "topics"


@click.command("help")
@click.argument("topic", required=False)
@click.pass_context
def help_(ctx: click.Context, topic: str | None) -> None:
    """Show a topic, or the help of a command; without TOPIC, list all of them."""
    parent = ctx.parent
    assert parent is not None
    group = parent.command
    assert isinstance(group, click.Group)
    topics = {path.stem: path for path in sorted(_TOPICS.glob("*.txt"))}
    if topic is None:
        click.echo(f"Topics: {', '.join(topics)}")
        click.echo(f"Commands: {', '.join(group.list_commands(parent))}")
    elif topic in topics:
        _licence, text = topics[topic].read_text().split("\n", 1)
        # Use a pager only on a terminal.
        if sys.stdout.isatty():
            click.echo_via_pager(text)
        else:
            click.echo(text, nl=False)
    else:
        command = group.get_command(parent, topic)
        if command is None:
            from linnapp.arguments import did_you_mean

            meant = did_you_mean(topic, [*group.list_commands(parent), *topics])
            raise click.UsageError(
                f"{topic!r} is neither a topic ({', '.join(topics)}) nor a command"
                + (f". {meant}" if meant else "")
            )
        with click.Context(command, info_name=topic, parent=parent) as about:
            click.echo(command.get_help(about))
