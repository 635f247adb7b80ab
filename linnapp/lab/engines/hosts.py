# SPDX-License-Identifier: MIT
"""The interface of a cluster's engines, and the machines that they run on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

#: Folder of the nodes' files in the guest.
FOLDER = "/run/cluster"

#: Maximum virtual time to wait for a server, in seconds.
_WAIT_S = 30


@dataclass(frozen=True)
class Hosts:
    """The nodes of a cluster, for use in shell commands."""

    #: Paths of the drives, one per node.
    devices: Sequence[str]
    #: Addresses of the nodes, as the client reaches them.
    addresses: Sequence[str]
    #: Size of each drive.
    size_mb: int
    #: True if a link leads to each node; otherwise all are on the client's machine.
    is_wired: bool
    #: Number of consecutive nodes with the same data; None if all nodes have it.
    replicas: int | None = None
    #: CPU time in µs that an OSD takes for a read.
    osd_us: int = 0

    @property
    def sets(self) -> list[range]:
        """Sets of nodes with the same data."""
        n_nodes = len(self.addresses)
        size = self.replicas or n_nodes
        return [range(first, min(first + size, n_nodes)) for first in range(0, n_nodes, size)]

    def inside(self, node: int) -> str:
        """Return the prefix of a command that runs on a node."""
        return f"ip netns exec node{node} " if self.is_wired else ""

    def start_server(self, node: int, command: str, log: str) -> str:
        """Return the shell command that starts a node's server; its process id is in `log`.pid."""
        return f"{self.inside(node)}{command} </dev/null >{log}.out 2>&1 & echo $! >{log}.pid"

    def divide_drives(self) -> list[str]:
        """Return shell commands that divide each drive: one half is for the engine."""
        lines = []
        for device in self.devices:
            lines += [
                f"printf ',{self.size_mb // 2}M\\n,\\n' | sfdisk -q --no-tell-kernel {device}",
                f"blockdev --rereadpt {device}",
            ]
        return lines

    def route_nodes(self) -> list[str]:
        """Return shell commands with which nodes reach each other through the client's machine."""
        if not self.is_wired:
            return []
        routes = [
            f"ip -n node{k} route add default via {address.rsplit('.', 1)[0]}.1"
            for k, address in enumerate(self.addresses)
        ]
        return ["echo 1 >/proc/sys/net/ipv4/ip_forward", *routes]

    def wait_for_port(self, node: int, port: int, log: str) -> str:
        """Return the shell command that waits until a node's server listens on a port."""
        octets = reversed(self.addresses[node].split("."))
        address = "".join(f"{int(octet):02X}" for octet in octets)
        return wait_until(
            f"{self.inside(node)}grep -q '{address}:{port:04X} .* 0A ' /proc/net/tcp", log
        )


class Engine(Protocol):
    """A storage engine with a replica on each node: a module of this package."""

    #: Programs that it needs.
    NEEDED: tuple[str, ...]
    #: The command that installs them.
    INSTALLED_BY: str
    #: Name of a node's server in the lab, followed by the node's number.
    SERVER: str

    def set_up(self, hosts: Hosts) -> list[str]:
        """Return shell commands that start the engine, after drives and links."""

    def server(self, hosts: Hosts, node: int) -> str:
        """Return the shell command that starts, or restarts, a node's server."""

    def environment(self, hosts: Hosts) -> Mapping[str, str]:
        """Return additional environment variables for the command on the client."""


def wait_until(condition: str, log: str) -> str:
    """Return shell commands that wait until a command succeeds, or print a log if it does not."""
    return (
        f"left={_WAIT_S * 10}\n"
        f"until {condition}; do\n"
        f"left=$((left - 1)); [ $left -gt 0 ] || {{ cat {log}; exit 1; }}\n"
        "sleep 0.1\ndone"
    )


def write_file(path: str, text: str) -> str:
    """Return the shell command that writes lines to a file of the guest."""
    return f"cat >{path} <<'END'\n{text}END"
