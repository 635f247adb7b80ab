# SPDX-License-Identifier: MIT
"""``linnapp completion``: the shell's completion script."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash: linnapp completion bash > /etc/bash_completion.d/linnapp
    zsh:  linnapp completion zsh > /usr/share/zsh/vendor-completions/_linnapp
    fish: linnapp completion fish > /etc/fish/completions/linnapp.fish
    """
    from click.shell_completion import get_completion_class

    assert ctx.parent is not None
    kind = get_completion_class(shell)
    assert kind is not None
    # The script calls linnapp, and passes its query in an environment variable.
    click.echo(kind(ctx.parent.command, {}, "linnapp", "_LINNAPP_COMPLETE").source())
