# SPDX-License-Identifier: MIT
"""`linnapp lab`: run a command in a guest: with a flash array, in a cluster, or in QEMU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from linnapp.lab import qemu as qemu_guest
from linnapp.lab import uml
from linnapp.lab.array import Array
from linnapp.lab.cluster import AGENT, CLUSTER_KERNEL, ENGINES, Cluster, installed_by, missing
from linnapp.lab.command import guest_environment, guest_options, run_and_exit
from linnapp.lab.guest import Guest

_PROFILE = click.option(
    "--profile",
    default="enterprise",
    help="flashsim profile of the drives, or one per drive, separated by commas.",
)
_SEED = click.option("--seed", default=1, help="Drive k is seeded with seed + k.")
_COMMAND = {"ignore_unknown_options": True}


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


@lab.command("run", context_settings=_COMMAND)
@click.option("--drives", default=3, help="Number of drives: /dev/flash0 and so on.")
@_PROFILE
@_SEED
@click.option("--fresh", is_flag=True, help="Start from empty drives, not from a steady state.")
@click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_parameters,
    help="Value of another flashsim attribute of every drive; repeatable.",
)
@guest_options(uml.DEFAULT_KERNEL, "make kernel", memory_mb=3072)
def run_command(
    drives: int,
    profile: str,
    seed: int,
    fresh: bool,
    parameters: dict[str, str],
    size_mb: int,
    dmesg: Path | None,
    command: tuple[str, ...],
    **guest: Any,
) -> None:
    """Boot the patched kernel, bring the drives up and run CMD there.

    CMD sees this machine's files read-only; its output and exit status are
    passed on. $LINNOS_DRIVES has the drives' paths, separated by commas, and
    $LINNOS_OUT the folder given with --out. If the output is a terminal, CMD has
    one of the same size and reads the typed keys; ctrl-C ends the lab. The only
    network is the guest's own 127.0.0.1. CMD has PATH, LANG and TERM of the
    environment and an empty home folder; the host name is `linnos`. The clock
    starts at the same time in every run and stands still while a program computes.
    A program that spins without waiting therefore blocks all others, and only
    --timeout ends it.

    \b
    linnapp lab run -- fio --name=r --filename=/dev/flash0 --rw=randread \\
        --direct=1 --clocksource=clock_gettime --runtime=1 --time_based
    linnapp lab run --out out/t -- linnapp trace /dev/flash0 -o out/t --duration 5
    """
    array = Array(drives, profile, size_mb, seed, not fresh, parameters)
    guest["environment"] = guest_environment(array.devices, guest["out_dir"])
    run_and_exit(lambda: uml.run(command, Guest(setup=array.setup_script(), **guest)), dmesg)


@lab.command("cluster", context_settings=_COMMAND)
@click.option(
    "--nodes", type=click.IntRange(1, 16), default=3, help="Number of nodes, each with a drive."
)
@click.option(
    "--engine",
    type=click.Choice(list(ENGINES)),
    default="gluster",
    help="Storage engine with a replica on each node.",
)
@click.option(
    "--one-way-us",
    type=click.IntRange(0, 1_000_000),
    default=50,
    help="Network latency in us between the client and a node, in each direction.",
)
@click.option(
    "--osd-us",
    type=click.IntRange(0, 1_000_000),
    default=0,
    help="With `ceph`: time in us that an OSD's thread sleeps for a read; 0 for none.",
)
@_PROFILE
@_SEED
@guest_options(CLUSTER_KERNEL, "make kernel-cluster", memory_mb=4096)
def cluster(
    nodes: int,
    engine: str,
    one_way_us: int,
    osd_us: int,
    profile: str,
    seed: int,
    size_mb: int,
    dmesg: Path | None,
    command: tuple[str, ...],
    **guest: Any,
) -> None:
    """Run CMD on the client of a cluster whose nodes have an emulated drive each.

    Nodes are network namespaces of one kernel, in virtual time; --one-way-us is the latency of
    their links. Each node runs linnos-agent on port 7316. With `gluster` it also runs a GlusterFS
    server with a brick on its drive, with `ceph` an OSD with BlueStore, and the first node a
    monitor.

    $LINNOS_NODES has the nodes' addresses, $LINNOS_DRIVES their drives, and $LINNOS_BESIDE half of
    each drive, for other load. Everything else is as in `linnapp lab run`.

    With `gluster`, $LINNOS_CLUSTER has volume files for clients: read-nodeK.vol reads from one
    node, and read-hash-modeN.vol lets the engine choose.

    With `ceph`, $CEPH_CONF is ceph.conf, the pool is `data`, and node K is host `nodeK` of root
    `default`. $LINNOS_CRUSH_LOCATIONS has a crush_location for each node, separated by semicolons;
    a handle with this location reads from that node with LIBRADOS_OPERATION_LOCALIZE_READS. The two
    objects of a placement group that were written last are always read from their primary.

    \b
    linnapp lab cluster --engine ceph -- rados -p data bench 1 write
    linnapp lab cluster -- sh -c 'mkdir /run/v && \\
      glusterfs -f $LINNOS_CLUSTER/read-node2.vol /run/v && dd if=/dev/zero of=/run/v/x count=1'
    """
    if osd_us and engine != "ceph":
        raise click.UsageError(f"--osd-us needs --engine ceph: {engine} has no OSDs")
    nodes_lab = Cluster(Array(nodes, profile, size_mb, seed), engine, one_way_us, osd_us=osd_us)
    environment = {
        **guest_environment(nodes_lab.devices, guest["out_dir"]),
        **nodes_lab.environment,
    }
    if absent := missing(engine, environment["PATH"]):
        raise click.ClickException(
            f"not installed: {', '.join(absent)}; `{installed_by(engine)}` installs them"
        )
    if not AGENT.exists():
        raise click.ClickException(f"{AGENT} does not exist; `make agent` builds it")
    guest["environment"] = environment
    run_and_exit(lambda: uml.run(command, Guest(setup=nodes_lab.setup_script(), **guest)), dmesg)


@lab.command("qemu", context_settings=_COMMAND)
@click.option("--drives", default=3, help="Number of NVMe drives: /dev/nvme0n1 and so on.")
@click.option("--cpus", default=2, help="Number of CPUs of the guest.")
@click.option(
    "--accel",
    type=click.Choice(["auto", "kvm", "tcg"]),
    default="auto",
    help="auto: KVM if it works, otherwise TCG.",
)
@click.option(
    "--modules",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Module folder of another --kernel, like /lib/modules/VERSION.",
)
@click.option(
    "--count-instructions",
    is_flag=True,
    help="Time in the guest is its number of instructions, in ns. With --cpus 1.",
)
@guest_options(qemu_guest.DEFAULT_KERNEL, "make kernel-x86", memory_mb=2048)
def qemu(
    drives: int,
    cpus: int,
    accel: str,
    modules: Path | None,
    count_instructions: bool,
    size_mb: int,
    dmesg: Path | None,
    command: tuple[str, ...],
    **of_guest: Any,
) -> None:
    """Boot the patched x86-64 kernel under QEMU and run CMD there, in real time.

    CMD sees this machine's files read-only; its output and exit status are
    passed on. $LINNOS_DRIVES has the drives' paths, separated by commas, and
    $LINNOS_OUT the folder given with --out. This is for tests with the real nvme
    driver and several CPUs, not for latencies.

    \b
    linnapp lab qemu -- sh -c 'ls /sys/block/nvme0n1/mq; nproc'
    """
    guest = qemu_guest.QemuGuest(
        n_cpus=cpus,
        n_drives=drives,
        drive_mb=size_mb,
        accel=accel,
        modules=modules,
        counts_instructions=count_instructions,
        **of_guest,
    )
    guest.environment = guest_environment(guest.devices, guest.out_dir)
    run_and_exit(lambda: qemu_guest.run(command, guest), dmesg)
