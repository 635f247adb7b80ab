# SPDX-License-Identifier: MIT
"""linnapp.1 documents exactly the existing commands and options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from linnapp.cli import cli

PAGE = Path(__file__).parents[2] / "docs" / "linnapp.1"


def commands(command: click.Command = cli, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Return every command by its words; a group stands for its subcommands."""
    if isinstance(command, click.Group):
        for word in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), word)
            assert below is not None
            yield from commands(below, f"{name} {word}".strip())
    else:
        yield name, command


COMMANDS = dict(commands())


def sections() -> dict[str, str]:
    """Return the page's text for each command, by its first words, without markup."""
    text = PAGE.read_text().split(".SH COMMANDS\n")[1].split("\n.PP\n")[0]
    text = re.sub(r'^\.[A-Z]+ |"', "", text.replace("\\-", "-"), flags=re.MULTILINE)
    found = [section.strip() for section in text.split(".TP\n")[1:]]
    return {
        name: section
        for section in found
        for name in COMMANDS
        if section.startswith(name) or (section.startswith("faults") and name[:6] == "faults")
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_s_options_are_those_that_it_takes(name: str) -> None:
    said = sections()[name]
    options = [each for each in COMMANDS[name].params if isinstance(each, click.Option)]
    for option in options:
        named = any(re.search(rf"(?<![\w-]){each}(?![\w-])", said) for each in option.opts)
        assert named or option.hidden, f"{name}: {option.opts} is missing"
    # Other options in the text are accepted by some command.
    taken = {each for c in COMMANDS.values() for p in c.params for each in p.opts}
    for long in re.findall(r"--[a-z][\w-]*", said):
        assert long in taken, f"{name}: no command takes {long}"
