# SPDX-License-Identifier: MIT
"""The option and the messages of the commands that send to Elasticsearch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from linnapp.terminal import printable

if TYPE_CHECKING:
    from linnapp.insight.elastic import Outcome, Server

_Command = TypeVar("_Command", bound=Callable[..., Any])
#: number of different reasons for refused documents that are shown
_MAX_REASONS = 3


def elasticsearch_option(help_text: str) -> Callable[[_Command], _Command]:
    """Return the option ``--elasticsearch URL``."""
    return click.option("--elasticsearch", "url", metavar="URL", help=help_text)


def prepared_server(url: str) -> Server:
    """Connect to a server and define the indices. Warn if the password is not encrypted."""
    from linnapp.insight.documents import prepare
    from linnapp.insight.elastic import Server

    server = Server(url)
    if server.sends_plain_password:
        click.echo(
            f"linnapp: warning: {server.name}: the password is sent without encryption; "
            "https:// encrypts it",
            err=True,
        )
    prepare(server)
    return server


def print_outcome(outcome: Outcome, server: Server, remedy: str, *, is_quiet: bool = False) -> None:
    """Print what was sent and refused, or with `is_quiet` only the error.

    `remedy` completes the error message: what to do about documents that were not sent.
    """
    if outcome.why is not None:
        click.echo(
            f"linnapp: error: {outcome.left} documents were not sent: {outcome.why}; {remedy}",
            err=True,
        )
    if is_quiet:
        return
    there = f", {outcome.there_already} were there already" if outcome.there_already else ""
    late = ""
    if delay_ms := outcome.delay_ms:
        late = ", " + ", ".join(f"{name} {ms / 1000:.2f}" for name, ms in delay_ms.items())
        late += " s after the calls"
    click.echo(f"{server.name}: {outcome.created} documents sent{there}{late}")
    for reason, n in outcome.refused.most_common(_MAX_REASONS):
        click.echo(f"{n} documents were refused: {printable(reason)}")
    if len(outcome.refused) > _MAX_REASONS:
        others = sum(n for _, n in outcome.refused.most_common()[_MAX_REASONS:])
        click.echo(f"{others} documents were refused for other reasons")


def exit_status(outcome: Outcome) -> int:
    """Return 1 if any document is missing on the server, else 0."""
    return int(outcome.why is not None or bool(outcome.refused))
