# SPDX-License-Identifier: MIT
"""A cluster in one guest: a network namespace and a drive per node, and links with latency.

LinnOS keeps its state per disk, so nodes are separate although they share a kernel. They also share
its page cache and its clock: programs must read with O_DIRECT, and clocks never differ.

The command runs on a separate machine, the client, which has a link to each node: two macvlans on a
dummy device, with netem at both ends. All delays are equal and there is no jitter, so that a run is
repeatable.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from linnapp.lab.array import Array
from linnapp.lab.engines import ceph, gluster
from linnapp.lab.engines.hosts import FOLDER, Engine, Hosts
from linnapp.lab.guest import REPOSITORY

#: The kernel with support for several network namespaces.
CLUSTER_KERNEL = REPOSITORY / "build" / "linux-um-cluster" / "linux"
AGENT = REPOSITORY / "build" / "agent" / "linnos-agent"

#: By name; None if there is no engine.
ENGINES: dict[str, Engine | None] = {"none": None, "gluster": gluster, "ceph": ceph}

#: Programs that every cluster needs; all engines' packages come with them.
_NEEDED = ("ip", "tc")


@dataclass(frozen=True)
class Cluster:
    """Nodes of a guest and the programs that run on them."""

    #: One drive per node: /dev/flash0 belongs to node 0.
    drives: Array
    #: One of `ENGINES`.
    engine: str = "gluster"
    #: Latency of a datagram from the client to a node, and of one back. If None, there is no
    #: network: all nodes are on the client's own machine, and any of the lab's kernels is
    #: sufficient.
    one_way_us: int | None = 50
    #: Number of nodes that hold the same data, with GlusterFS; None for all.
    replicas: int | None = None
    #: CPU time in µs that an OSD takes for a read; 0 for none, as all other computation.
    osd_us: int = 0

    @property
    def devices(self) -> list[str]:
        """Paths of the drives in the guest, in the order of the nodes."""
        return self.drives.devices

    @property
    def addresses(self) -> list[str]:
        """Addresses of the nodes, as the client reaches them."""
        network = "127.0" if self.one_way_us is None else "10.0"
        return [f"{network}.{k}.2" for k in range(self.drives.n_drives)]

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the command, in addition to those of the drives."""
        return {
            "LINNOS_NODES": ",".join(self.addresses),
            # half of each drive is not used by the engine, so that other load can run on it
            "LINNOS_BESIDE": ",".join(f"{device}p2" for device in self.devices),
            "LINNOS_CLUSTER": FOLDER,
            **(self._engine.environment(self._hosts) if self._engine else {}),
        }

    @property
    def _engine(self) -> Engine | None:
        return ENGINES[self.engine]

    @property
    def _hosts(self) -> Hosts:
        is_wired = self.one_way_us is not None
        size_mb = self.drives.size_mb
        return Hosts(self.devices, self.addresses, size_mb, is_wired, self.replicas, self.osd_us)

    def setup_script(self) -> str:
        """Return shell commands that set up drives, links and servers, in this order."""
        parts = [self.drives.setup_script(), self._wires(), self._agents()]
        if self._engine:
            parts.append(_lines(self._engine.set_up(self._hosts)))
        return "".join(parts)

    def _wires(self) -> str:
        lines = ["mkdir -p /run/netns", f"mkdir -p {FOLDER}"]
        if self.one_way_us is None:
            return _lines([*lines, "ip link set lo up"])
        for k in range(self.drives.n_drives):
            inside = f"ip -n node{k}"
            lines += [
                f"ip netns add node{k}",
                # a dummy device of its own makes each link point to point
                f"ip link add cable{k} type dummy",
                f"ip link set cable{k} up",
                f"ip link add link cable{k} name wire{k} type macvlan mode bridge",
                f"ip link add link cable{k} name wire netns node{k} type macvlan mode bridge",
                f"ip address add 10.0.{k}.1/24 dev wire{k}",
                f"{inside} address add 10.0.{k}.2/24 dev wire",
                f"ip link set wire{k} up",
                f"{inside} link set wire up",
                f"{inside} link set lo up",
            ]
            if self.one_way_us:
                lines += self._delay_link(k, "add")
        return _lines(lines)

    def fail_link(self, node: int) -> tuple[str, str]:
        """Return shell commands that cut a node's link and restore it.

        Datagrams are lost without an error.
        """
        lossy = [f"{line} loss 100%" for line in self._delay_link(node, "change")]
        return "; ".join(lossy), "; ".join(self._delay_link(node, "change"))

    def halt_server(self, node: int) -> tuple[str, str]:
        """Return shell commands that stop and resume a node's server process."""
        process = f"$(cat {self._server(node)}.pid)"
        return f"kill -STOP {process}", f"kill -CONT {process}"

    def kill_node(self, node: int) -> tuple[str, str]:
        """Return shell commands that kill a node's server and agent and start them again."""
        killed = f"kill -KILL $(cat {self._server(node)}.pid {FOLDER}/agent{node}.pid)"
        assert self._engine
        return killed, "\n".join((self._agent(node), self._engine.server(self._hosts, node)))

    def _server(self, node: int) -> str:
        assert self._engine
        return f"{FOLDER}/{self._engine.SERVER}{node}"

    def _delay_link(self, node: int, command: str) -> list[str]:
        netem = f"root netem delay {self.one_way_us}us limit 100000"
        return [
            f"tc qdisc {command} dev wire{node} {netem}",
            f"tc -n node{node} qdisc {command} dev wire {netem}",
        ]

    def _agents(self) -> str:
        lines = []
        for k, address in enumerate(self.addresses):
            configuration = [
                f"drive {self.devices[k]}",
                f"listen {address}",
                # the client is at the other end of the node's link, or on the same machine
                f"allow {'127.0.0.0/8' if self.one_way_us is None else f'10.0.{k}.1'} 1000000",
            ]
            written = f"printf '%s\\n' {shlex.join(configuration)} >{FOLDER}/agent{k}.conf"
            lines += [written, self._agent(k)]
        return _lines(lines)

    def _agent(self, node: int) -> str:
        agent = f"{FOLDER}/agent{node}"
        command = f"{shlex.quote(str(AGENT))} --config {agent}.conf"
        return self._hosts.start_server(node, command, agent)


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def missing(engine: str, path: str) -> list[str]:
    """Return the programs that one of `ENGINES` needs and that are not in this $PATH."""
    folders = [Path(folder) for folder in path.split(":") if folder]
    of_engine = ENGINES[engine]
    return [
        program
        for program in (*_NEEDED, *(of_engine.NEEDED if of_engine else ()))
        if not any((folder / program).exists() for folder in folders)
    ]


def installed_by(engine: str) -> str:
    """Return the command that installs the programs that one of `ENGINES` needs."""
    return (ENGINES[engine] or gluster).INSTALLED_BY
