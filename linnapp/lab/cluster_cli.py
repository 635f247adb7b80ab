# SPDX-License-Identifier: MIT
"""``linnapp lab cluster``: run a command as the client of a cluster."""

from __future__ import annotations

import click

from linnapp.lab.array import Array
from linnapp.lab.cluster import AGENT, CLUSTER_KERNEL, ENGINES, Cluster, installed_by, missing
from linnapp.lab.command import Asked, guest_environment, guest_options, run_and_exit
from linnapp.lab.guest import Guest, Result
from linnapp.lab.uml import run


@click.command("cluster", context_settings={"ignore_unknown_options": True})
@click.option("--nodes", type=click.IntRange(1, 16), default=3, help="A drive each.")
@click.option(
    "--engine",
    type=click.Choice(list(ENGINES)),
    default="gluster",
    help="What keeps a replica on each node.",
)
@click.option(
    "--one-way-us",
    type=click.IntRange(0, 1_000_000),
    default=50,
    help="What the network takes from the client to a node, and back.",
)
@click.option(
    "--osd-us",
    type=click.IntRange(0, 1_000_000),
    default=0,
    help="With `ceph`: so long an OSD's threads sleep for a read; 0: it is free, as all else.",
)
@click.option(
    "--profile", default="enterprise", help="flashsim profile; several with commas, one a node."
)
@click.option("--seed", default=1, help="Drive k is seeded with seed + k.")
@guest_options(CLUSTER_KERNEL, "make kernel-cluster", memory_mb=4096)
def cluster(
    asked: Asked,
    nodes: int,
    engine: str,
    one_way_us: int,
    osd_us: int,
    profile: str,
    seed: int,
) -> None:
    """Run CMD on the client of a cluster whose nodes have an emulated drive each.

    Nodes are network namespaces of one kernel, in virtual time, and the wires to them take
    --one-way-us. Each runs linnos-agent on port 7316, and with `gluster` a GlusterFS server with a
    brick on its drive, with `ceph` an OSD with BlueStore on it, and the first node a monitor.

    CMD finds the nodes' addresses in $LINNOS_NODES, their drives in $LINNOS_DRIVES, half of each
    drive, for other work, in $LINNOS_BESIDE. Everything else is as in `linnapp lab run`.

    With `gluster`, $LINNOS_CLUSTER has volume files for clients: read-nodeK.vol reads from one
    node, read-hash-modeN.vol by the engine's own rule.

    With `ceph`, $CEPH_CONF is ceph.conf, the pool is `data`, and node K is host `nodeK` of root
    `default`: a handle whose crush_location is in $LINNOS_CRUSH_LOCATIONS, which has one for each
    node with ; between, reads from that node with LIBRADOS_OPERATION_LOCALIZE_READS. The two
    objects of a placement group that were written last are read from their primary all the same.

    \b
    linnapp lab cluster --engine ceph -- rados -p data bench 1 write
    linnapp lab cluster -- sh -c 'mkdir /run/v && \\
      glusterfs -f $LINNOS_CLUSTER/read-node2.vol /run/v && dd if=/dev/zero of=/run/v/x count=1'
    """
    if osd_us and engine != "ceph":
        raise click.UsageError(f"--osd-us is with --engine ceph: {engine} has no OSDs")
    lab = Cluster(Array(nodes, profile, asked.size_mb, seed), engine, one_way_us, osd_us=osd_us)
    environment = {**guest_environment(lab, asked.out_dir), **lab.environment}
    absent = missing(engine, environment["PATH"])
    if absent:
        raise click.ClickException(
            f"not installed: {', '.join(absent)}; `{installed_by(engine)}` installs them"
        )
    if not AGENT.exists():
        raise click.ClickException(f"{AGENT}: not there; `make agent` builds it")

    def boot() -> Result:
        setup = lab.setup_script()
        guest = Guest(setup=setup, environment=environment, **asked.of_guest)
        return run(asked.command, guest)

    run_and_exit(boot, asked.dmesg)
