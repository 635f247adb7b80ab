# SPDX-License-Identifier: MIT
"""What commands that send to Elasticsearch have in common: the option, and what is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from linnapp.terminal import printable

if TYPE_CHECKING:
    from linnapp.insight.elastic import Outcome, Server

_Command = TypeVar("_Command", bound=Callable[..., Any])
#: of reasons why documents were refused
_SHOWN = 3


def elasticsearch_option(words: str) -> Callable[[_Command], _Command]:
    """``--elasticsearch URL``."""
    return click.option("--elasticsearch", "url", metavar="URL", help=words)


def ready(url: str) -> Server:
    """A server that is there and knows the fields."""
    from linnapp.insight.elastic import Server, prepare

    server = Server(url)
    if server.is_overheard:
        click.echo(
            f"linnapp: warning: {server.name}: the password goes there as it stands; "
            "https:// hides it",
            err=True,
        )
    prepare(server)
    return server


def tell(outcome: Outcome, server: Server, rest: str, *, is_quiet: bool = False) -> None:
    """Say what was sent, and what was not, which is all if quiet; `rest`: what to do about that."""
    if outcome.why is not None:
        click.echo(
            f"linnapp: error: {outcome.left} documents were not sent: {outcome.why}; {rest}",
            err=True,
        )
    if is_quiet:
        return
    sent = outcome.sent
    there = f", {sent.there_already} were there already" if sent.there_already else ""
    click.echo(f"{server.name}: {sent.created} documents sent{there}")
    for reason, n in sent.refused.most_common(_SHOWN):
        click.echo(f"{n} documents were refused: {printable(reason)}")
    if len(sent.refused) > _SHOWN:
        others = sum(n for _, n in sent.refused.most_common()[_SHOWN:])
        click.echo(f"{others} documents were refused for other reasons")


def status(outcome: Outcome) -> int:
    """1 if not all of it is there."""
    return int(outcome.why is not None or bool(outcome.sent.refused))
