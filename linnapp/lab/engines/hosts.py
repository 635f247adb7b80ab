# SPDX-License-Identifier: MIT
"""What an engine of a cluster is, and the machines that it runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

#: Where nodes keep their things in the guest.
FOLDER = "/run/cluster"

#: Seconds of virtual time until a server does what it is waited for, and no longer.
_WAIT_S = 30


@dataclass(frozen=True)
class Hosts:
    """The nodes of a cluster, as shell commands reach them."""

    #: Paths of the drives, one a node.
    devices: Sequence[str]
    #: Of the nodes, as the client reaches them.
    addresses: Sequence[str]
    #: Of each drive.
    size_mb: int
    #: A wire leads to each node; otherwise all are on the client's machine.
    is_wired: bool
    #: Nodes that have the same, one set after the other; None: all of them do.
    replicas: int | None = None
    #: Of a processor, that an OSD takes for a read.
    osd_us: int = 0

    @property
    def sets(self) -> list[range]:
        """Nodes that have the same."""
        n_nodes = len(self.addresses)
        size = self.replicas or n_nodes
        return [range(first, min(first + size, n_nodes)) for first in range(0, n_nodes, size)]

    def inside(self, node: int) -> str:
        """What a command begins with that is to run on a node."""
        return f"ip netns exec node{node} " if self.is_wired else ""

    def started(self, node: int, command: str, log: str) -> str:
        """A server of a node, which stays when the set-up is over; its number is in `log`.pid."""
        return f"{self.inside(node)}{command} </dev/null >{log}.out 2>&1 & echo $! >{log}.pid"

    def halved(self) -> list[str]:
        """Divide each drive: the first half is the engine's, the other one for other work."""
        lines = []
        for device in self.devices:
            lines += [
                f"printf ',{self.size_mb // 2}M\\n,\\n' | sfdisk -q --no-tell-kernel {device}",
                f"blockdev --rereadpt {device}",
            ]
        return lines

    def linked(self) -> list[str]:
        """Let nodes reach each other, by way of the client's machine: two wires are between."""
        if not self.is_wired:
            return []
        routes = [
            f"ip -n node{k} route add default via {address.rsplit('.', 1)[0]}.1"
            for k, address in enumerate(self.addresses)
        ]
        return ["echo 1 >/proc/sys/net/ipv4/ip_forward", *routes]

    def listens(self, node: int, port: int, log: str) -> str:
        """Wait until a node's server does."""
        octets = reversed(self.addresses[node].split("."))
        address = "".join(f"{int(octet):02X}" for octet in octets)
        return waited(
            f"{self.inside(node)}grep -q '{address}:{port:04X} .* 0A ' /proc/net/tcp", log
        )


class Engine(Protocol):
    """What keeps a replica on each node: a module of this package."""

    #: Programs that it needs.
    NEEDED: tuple[str, ...]
    #: The command that installs them.
    INSTALLED_BY: str
    #: What a node's is called in the lab, before the node's number.
    SERVER: str

    def set_up(self, hosts: Hosts) -> list[str]:
        """Shell commands that bring it up, once drives and wires are."""

    def server(self, hosts: Hosts, node: int) -> str:
        """Shell command that starts a node's, again if it has ended."""

    def environment(self, hosts: Hosts) -> Mapping[str, str]:
        """What the command on the client is told besides."""


def waited(condition: str, log: str) -> str:
    """Wait until a command succeeds; a log says why it does not."""
    return (
        f"left={_WAIT_S * 10}\n"
        f"until {condition}; do\n"
        f"left=$((left - 1)); [ $left -gt 0 ] || {{ cat {log}; exit 1; }}\n"
        "sleep 0.1\ndone"
    )


def written(path: str, text: str) -> str:
    """Write lines to a file of the guest's."""
    return f"cat >{path} <<'END'\n{text}END"
