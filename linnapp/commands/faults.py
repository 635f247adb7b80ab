# SPDX-License-Identifier: MIT
"""``linnapp faults``: fault rules of emulated drives, and of any block device."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.option_types import FILE


@click.group()
def faults() -> None:
    """Inject faults into requests of disks, by rules and reproducibly."""


@faults.command("attach")
@click.argument("device", metavar="DEVICE")
@click.option("--name", required=True, help="Name of the new device in /dev/mapper.")
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True,
    help="Seed of the bits that rules do not name.",
)  # fmt: skip
def attach_command(device: str, name: str, seed: int) -> None:
    """Put a target that can damage data on a block device that is not in use.

    It needs the module dm-linnos-faults of the package linnos-dkms. Emulated drives need no
    target.
    """
    from linnapp.lab.fault_rules import attach

    click.echo(attach(device, name, seed))


@faults.command("detach")
@click.argument("name", metavar="NAME")
def detach_command(name: str) -> None:
    """Remove a device that `attach` has made, and its rules."""
    from linnapp.lab.fault_rules import detach

    detach(name)


@faults.command("install")
@click.argument("rule_file", type=FILE, metavar="RULES.json")
@click.option("--member", metavar="DISK", help="The raid1 mirror that gets the rules.")
def install_command(rule_file: Path, member: str | None) -> None:
    """Convert a FISPDK rule file to rules of the disks that contain its files."""
    from linnapp.lab.faults import install, load_rules

    mirror = None if member is None else _disk(member)
    for disk, rule in install(load_rules(rule_file), mirror):
        click.echo(f"{disk} {rule}")


@faults.command("show")
@click.argument("disks", nargs=-1, required=True, metavar="DISK...")
def show_command(disks: tuple[str, ...]) -> None:
    """Show the rules of disks and how many requests or blocks they matched."""
    from linnapp.lab.fault_rules import rules_of

    for disk in disks:
        for rule, words in rules_of(_disk(disk)).rules().items():
            click.echo(
                f"{_disk(disk)} {rule}: {words['op']} {words['fault']}"
                f" {words['frequency']} n={words['n']} count={words['count']}"
                f" matched={words['matched']} injected={words['injected']}"
            )


@faults.command("remove")
@click.argument("disks", nargs=-1, required=True, metavar="DISK...")
def remove_command(disks: tuple[str, ...]) -> None:
    """Remove all rules of disks."""
    from linnapp.lab.fault_rules import remove_rules

    for disk in disks:
        click.echo(f"{_disk(disk)}: {remove_rules(_disk(disk))} rules removed")


def _disk(name: str) -> str:
    """Return the kernel's name of a disk, which can be given as a path such as /dev/mapper/bad."""
    from linnapp.lab.fault_rules import disk_of

    return disk_of(name)
