# SPDX-License-Identifier: MIT
"""Manual pages and help: each program's options are those that it takes."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from replaying import REPLAYER
from test_cli import run

from linnapp import cli
from linnapp.trace.convert import input_formats

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff not installed")
def test_the_manual_pages_are_well_formed() -> None:
    for page in DOCS.glob("*.[138]"):
        command = ["groff", "-ww", "-man", "-Tutf8", "-z", page]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        assert result.stderr == "", page


@pytest.mark.parametrize(
    ("folder", "program", "page"),
    [
        ("cluster/agent", "agent/linnos-agent", "linnos-agent.8"),
        ("liblinnos/ublk", "ublk/linnos-ublk", "linnos-ublk.8"),
        ("replayer", "replayer/replayer", "replayer.1"),
    ],
)
def test_man_page_has_the_options_of_help(folder: str, program: str, page: str) -> None:
    built = REPLAYER.parents[1] / program
    make = ["make", "-s", "-C", ROOT / folder, f"OUT={built.parent}"]
    subprocess.run(make, check=True, capture_output=True)
    shown = subprocess.run([built, "--help"], capture_output=True, text=True, check=True).stdout
    text = (DOCS / page).read_text().replace(r"\-", "-")
    headings = "".join(re.findall(r"^\.T[PQ]\n\.(?:B|BI|BR) .*$", text, re.M))
    options = set(re.findall(r"^  (--[a-z-]+)", shown, re.M))
    assert len(options) > 2 and options == set(re.findall(r"--[a-z][a-z-]+", headings))


def commands(
    command: click.Command = cli.cli, name: str = ""
) -> Iterator[tuple[str, click.Command]]:
    """Return every command by its words; a group stands for its subcommands."""
    if isinstance(command, click.Group):
        for word in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), word)
            assert below is not None and below.help, word
            yield from commands(below, f"{name} {word}".strip())
    else:
        yield name, command


COMMANDS = dict(commands())


def sections() -> dict[str, str]:
    """Return the page's text for each command, by its first words, without markup."""
    text = (DOCS / "linnapp.1").read_text().split(".SH COMMANDS\n")[1].split("\n.PP\n")[0]
    text = re.sub(r'^\.[A-Z]+ |"', "", text.replace("\\-", "-"), flags=re.MULTILINE)
    return {
        name: section.strip()
        for section in text.split(".TP\n")[1:]
        for name in COMMANDS
        if section.strip().startswith((name, "faults" if name[:6] == "faults" else name))
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_s_options_are_those_that_it_takes_and_have_help(name: str) -> None:
    section = sections()[name]
    for option in COMMANDS[name].params:
        if isinstance(option, click.Option):
            named = any(re.search(rf"(?<![\w-]){each}(?![\w-])", section) for each in option.opts)
            assert option.help and (named or option.hidden), f"{name}: {option.opts}"
    # Other options in the text are accepted by some command.
    taken = {each for c in COMMANDS.values() for p in c.params for each in p.opts}
    assert set(re.findall(r"--[a-z][\w-]*", section)) <= taken


@pytest.mark.parametrize(("title", "example"), cli._EXAMPLES.items())
def test_examples_of_help_are_parsed(title: str, example: str) -> None:
    """Check that the example uses a command of its group, with existing options."""
    program, command, *arguments = example.removeprefix("sudo ").split()
    assert program == "linnapp" and command in cli._GROUPS[title]
    while arguments and f"{command} {arguments[0]}" in COMMANDS:
        command += f" {arguments.pop(0)}"
    COMMANDS[command].make_context(command, arguments, parent=click.Context(cli.cli))


def test_help_has_its_topics_and_lists_all_formats() -> None:
    listed = run("help").stdout
    for topic in ("traces", "formats", "labelling", "training", "drives", "environment"):
        assert topic in listed and run("help", topic).stdout.startswith(topic.upper())
    formats = run("help", "formats").stdout
    assert all(f"\n  {name} " in formats for name in input_formats())
