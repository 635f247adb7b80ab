# SPDX-License-Identifier: MIT
"""A cluster in one guest: a network namespace a node, wires that take time, a drive each.

LinnOS keeps what it knows per disk, so nodes stay apart although they share a kernel. They share
its page cache, too, and its clock: programs read with O_DIRECT, and no clock is ever off.

The command runs on a machine of its own, the client, from which a wire leads to each node: two
macvlans on a device that does nothing, with netem at both ends. All delays are the same and there
is no jitter, so that a run repeats.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from linnapp.lab.array import Array
from linnapp.lab.gluster import PORT, client_volfile, server_volfile
from linnapp.lab.guest import REPOSITORY

#: The kernel with networks of several nodes.
CLUSTER_KERNEL = REPOSITORY / "build" / "linux-um-cluster" / "linux"
AGENT = REPOSITORY / "build" / "agent" / "linnos-agent"

ENGINES = ("none", "gluster")

#: Programs that an engine needs, and what installs them.
NEEDED = {"none": ("ip", "tc", "sfdisk"), "gluster": ("ip", "tc", "sfdisk", "glusterfsd")}
INSTALLED_BY = "make deps-gluster"

#: Where nodes keep their things in the guest.
FOLDER = "/run/cluster"

#: Seconds of virtual time until a server listens, and no longer.
_LISTENS_S = 30

#: Linux' port of the agent, see linnos-agent(8).
_AGENT_PORT = 7316


@dataclass(frozen=True)
class Cluster:
    """Nodes of a guest, and what they run."""

    #: A drive a node: /dev/flash0 is node 0's.
    drives: Array
    #: One of `ENGINES`.
    engine: str = "gluster"
    #: What a datagram takes from the client to a node, and back. None: no network is between, all
    #: are on the client's own machine, for which any of the lab's kernels will do.
    one_way_us: int | None = 50

    @property
    def devices(self) -> list[str]:
        """Paths of the drives in the guest, in the order of the nodes."""
        return self.drives.devices

    @property
    def addresses(self) -> list[str]:
        """Of the nodes, as the client reaches them."""
        network = "127.0" if self.one_way_us is None else "10.0"
        return [f"{network}.{k}.2" for k in range(self.drives.n_drives)]

    @property
    def environment(self) -> dict[str, str]:
        """What the command is told, besides the drives."""
        return {
            "LINNOS_NODES": ",".join(self.addresses),
            # half of each drive has no brick: for what else the drives have to do
            "LINNOS_BESIDE": ",".join(f"{device}p2" for device in self.devices),
            "LINNOS_CLUSTER": FOLDER,
        }

    def setup_script(self) -> str:
        """Shell commands that bring drives, wires and servers up, in this order."""
        parts = [self.drives.setup_script(), self._wires(), self._agents()]
        if self.engine == "gluster":
            parts += [self._bricks(), self._servers()]
        return "".join(parts)

    def _wires(self) -> str:
        lines = ["mkdir -p /run/netns", f"mkdir -p {FOLDER}"]
        if self.one_way_us is None:
            return _lines([*lines, "ip link set lo up"])
        netem = f"root netem delay {self.one_way_us}us limit 100000"
        for k in range(self.drives.n_drives):
            inside = f"ip -n node{k}"
            lines += [
                f"ip netns add node{k}",
                # the wire is one that nobody else is on, with two ends
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
                lines += [
                    f"tc qdisc add dev wire{k} {netem}",
                    f"tc -n node{k} qdisc add dev wire {netem}",
                ]
        return _lines(lines)

    def _agents(self) -> str:
        lines = []
        for k, address in enumerate(self.addresses):
            configuration = [
                f"drive {self.devices[k]}",
                f"listen {address} {_AGENT_PORT}",
                # the client is in the node's network, or on its machine
                f"allow {'127.0.0.0/8' if self.one_way_us is None else f'10.0.{k}.1'} 1000000",
            ]
            agent = f"{FOLDER}/agent{k}"
            lines += [
                f"printf '%s\\n' {shlex.join(configuration)} >{agent}.conf",
                self._started(k, f"{shlex.quote(str(AGENT))} --config {agent}.conf", agent),
            ]
        return _lines(lines)

    def _bricks(self) -> str:
        lines = []
        half_mb = self.drives.size_mb // 2
        for k, device in enumerate(self.devices):
            place = f"{FOLDER}/node{k}"
            lines += [
                f"printf ',{half_mb}M\\n,\\n' | sfdisk -q --no-tell-kernel {device}",
                f"blockdev --rereadpt {device}",
                # no discard: the drive is to stay as it was preconditioned
                f"mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0 {device}p1",
                f"mkdir -p {place}",
                f"mount -o noatime {device}p1 {place}",
                f"mkdir {place}/brick",
            ]
        return _lines(lines)

    def _servers(self) -> str:
        # It keeps a few things where a host's files are, which the guest may not write to; it
        # copies volume files to /tmp.
        places = ("/tmp", "/var/log", "/var/lib/glusterd")
        lines = [f"mount -t tmpfs tmpfs {place}" for place in places]
        lines.append("mkdir -p /run/gluster /var/log/glusterfs")
        for k, address in enumerate(self.addresses):
            own = f"{FOLDER}/server{k}"
            lines += [
                _written(f"{own}.vol", server_volfile(f"{FOLDER}/node{k}/brick", address)),
                self._started(k, f"glusterfsd -N -f {own}.vol -l {own}.log -p {own}.pid", own),
            ]
            only = client_volfile(self.addresses, read_node=k)
            lines.append(_written(f"{FOLDER}/read-node{k}.vol", only))
        for mode in range(6):
            chosen = client_volfile(self.addresses, read_hash_mode=mode)
            lines.append(_written(f"{FOLDER}/read-hash-mode{mode}.vol", chosen))
        lines += [self._listens(k) for k in range(len(self.addresses))]
        return _lines(lines)

    def _inside(self, node: int) -> str:
        """What a command begins with that is to run on a node."""
        return "" if self.one_way_us is None else f"ip netns exec node{node} "

    def _started(self, node: int, command: str, log: str) -> str:
        """A server of a node, which stays when the set-up is over."""
        return f"{self._inside(node)}{command} </dev/null >{log}.out 2>&1 &"

    def _listens(self, node: int) -> str:
        """Wait until the engine's server does."""
        octets = reversed(self.addresses[node].split("."))
        address = "".join(f"{int(octet):02X}" for octet in octets)
        listens = f"{address}:{PORT:04X} .* 0A "
        return (
            f"left={_LISTENS_S * 10}\n"
            f"until {self._inside(node)}grep -q '{listens}' /proc/net/tcp; do\n"
            f"left=$((left - 1)); [ $left -gt 0 ] || {{ cat {FOLDER}/server{node}.log; exit 1; }}\n"
            "sleep 0.1\ndone"
        )


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _written(path: str, text: str) -> str:
    return f"cat >{path} <<'END'\n{text}END"


def missing(engine: str, path: str) -> list[str]:
    """Programs that one of `ENGINES` needs and that are not in this $PATH."""
    folders = [Path(folder) for folder in path.split(":") if folder]
    return [
        program
        for program in NEEDED[engine]
        if not any((folder / program).exists() for folder in folders)
    ]
