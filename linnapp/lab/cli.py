# SPDX-License-Identifier: MIT
"""`linnapp lab`: run a command on the patched kernel with a flash array up."""

from __future__ import annotations

import click

from linnapp.lab.array import Array
from linnapp.lab.cluster_cli import cluster
from linnapp.lab.command import Asked, guest_environment, guest_options, run_and_exit
from linnapp.lab.guest import Guest, Result
from linnapp.lab.qemu_cli import qemu
from linnapp.lab.uml import DEFAULT_KERNEL, run


@click.group()
def lab() -> None:
    """Run commands on the patched kernel, in virtual time, on this machine.

    No root rights, no KVM and no spare drive are needed: the kernel runs as
    an ordinary process (user-mode Linux) with this machine's files as its
    read-only root, and the drives are emulated.
    """


def _parameters(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    parameters = {}
    for value in values:
        name, equals, setting = value.partition("=")
        if not equals:
            raise click.BadParameter(f"{value}: expected NAME=VALUE")
        parameters[name] = setting
    return parameters


@lab.command("run", context_settings={"ignore_unknown_options": True})
@click.option("--drives", default=3, help="Drives, /dev/flash0 and on.")
@click.option(
    "--profile", default="enterprise", help="flashsim profile; several with commas, one a drive."
)
@click.option("--seed", default=1, help="Drive k is seeded with seed + k.")
@click.option("--fresh", is_flag=True, help="Start from empty drives, not from a steady state.")
@click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_parameters,
    help="Another flashsim attribute, for every drive.",
)
@guest_options(DEFAULT_KERNEL, "make kernel", memory_mb=3072)
def run_command(
    asked: Asked, drives: int, profile: str, seed: int, fresh: bool, parameters: dict[str, str]
) -> None:
    """Boot the patched kernel, bring the drives up and run CMD there.

    CMD sees this machine's files read-only, its output and exit status come
    back. $LINNOS_DRIVES holds the drives' paths, separated by commas, $LINNOS_OUT
    the folder given with --out. From a terminal CMD has one of its size, and reads
    what is typed; ctrl-C ends the lab. Of the network it has 127.0.0.1, its own.
    Of the environment CMD has PATH, LANG and TERM; its home folder is empty, the host
    name is `linnos`, and the clock starts at the same moment in every run. It stands
    still while anything computes: a program that spins and waits for nothing, in the
    background too, lets nobody else run, and --timeout alone ends it.

    \b
    linnapp lab run -- fio --name=r --filename=/dev/flash0 --rw=randread \\
        --direct=1 --clocksource=clock_gettime --runtime=1 --time_based
    linnapp lab run --out out/t -- linnapp trace /dev/flash0 -o out/t --duration 5
    """
    array = Array(drives, profile, asked.size_mb, seed, not fresh, parameters)

    def boot() -> Result:
        environment = guest_environment(array, asked.out_dir)
        setup = array.setup_script()
        guest = Guest(setup=setup, environment=environment, **asked.of_guest)
        return run(asked.command, guest)

    run_and_exit(boot, asked.dmesg)


lab.add_command(cluster)
lab.add_command(qemu)
