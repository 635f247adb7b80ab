# SPDX-License-Identifier: MIT
"""``linnapp faults``: fault rules of flashsim drives."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.option_types import FILE


@click.group()
def faults() -> None:
    """Inject faults into requests of emulated drives, by rules and reproducibly."""


@faults.command("install")
@click.argument("rule_file", type=FILE, metavar="RULES.json")
def install_command(rule_file: Path) -> None:
    """Convert a FISPDK rule file to rules of the drives that contain its files."""
    from linnapp.lab.faults import install, load_rules

    for directory in install(load_rules(rule_file)):
        click.echo(directory)


@faults.command("show")
@click.argument("disks", nargs=-1, required=True, metavar="DRIVE...")
def show_command(disks: tuple[str, ...]) -> None:
    """Show the rules of drives and how many requests they matched."""
    from linnapp.lab.faults import installed

    for disk in disks:
        for rule in installed(Path(disk).name):
            words = {path.name: path.read_text().strip() for path in rule.iterdir()}
            click.echo(
                f"{Path(disk).name} {rule.name}: {words['op']} {words['fault']}"
                f" {words['frequency']} n={words['n']} count={words['count']}"
                f" matched={words['matched']} injected={words['injected']}"
            )


@faults.command("remove")
@click.argument("disks", nargs=-1, required=True, metavar="DRIVE...")
def remove_command(disks: tuple[str, ...]) -> None:
    """Remove all rules of drives."""
    from linnapp.lab.faults import remove

    for disk in disks:
        click.echo(f"{Path(disk).name}: {remove(Path(disk).name)} rules removed")
