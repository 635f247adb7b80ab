# SPDX-License-Identifier: MIT
"""GlusterFS' volume files: a replica set with a brick per node, written without `glusterd`.

`glusterd`, which normally writes them, takes longer than everything else together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from linnapp.lab.engines.hosts import FOLDER, Hosts, write_file

NEEDED: tuple[str, ...] = ("sfdisk", "glusterfsd")
INSTALLED_BY = "make deps-gluster"
SERVER = "server"

#: The port of the server.
PORT = 49152

#: The engine's own rules for choosing the replica of a read, its `read-hash-mode`.
READ_HASH_MODES = range(6)


def set_up(hosts: Hosts) -> list[str]:
    """Return shell commands that start bricks and servers, and write the clients' volume files."""
    lines = hosts.divide_drives()
    for k, device in enumerate(hosts.devices):
        place = f"{FOLDER}/node{k}"
        lines += [
            # no discard, because the drive must remain preconditioned
            f"mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0 {device}p1",
            f"mkdir -p {place}",
            f"mount -o noatime {device}p1 {place}",
            f"mkdir {place}/brick",
        ]
    # It stores a few files in folders of the host, to which the guest may not write, and
    # copies volume files to /tmp.
    lines += [
        f"mount -t tmpfs tmpfs {place}" for place in ("/tmp", "/var/log", "/var/lib/glusterd")
    ]
    lines.append("mkdir -p /run/gluster /var/log/glusterfs")
    for k, address in enumerate(hosts.addresses):
        volfile = server_volfile(f"{FOLDER}/node{k}/brick", address)
        lines += [write_file(f"{FOLDER}/{SERVER}{k}.vol", volfile), server(hosts, k)]
    for number, nodes in enumerate(hosts.sets):
        addresses = [hosts.addresses[k] for k in nodes]
        for k in nodes:
            only = client_volfile(addresses, read_node=k - nodes[0])
            lines.append(write_file(f"{FOLDER}/read-node{k}.vol", only))
        for mode in READ_HASH_MODES:
            chosen = client_volfile(addresses, read_hash_mode=mode)
            of_set = f"-{number}" if number else ""
            lines.append(write_file(f"{FOLDER}/read-hash-mode{mode}{of_set}.vol", chosen))
    all_nodes = range(len(hosts.addresses))
    return lines + [hosts.wait_for_port(k, PORT, f"{FOLDER}/{SERVER}{k}.log") for k in all_nodes]


def server(hosts: Hosts, node: int) -> str:
    """Return the shell command that starts a node's server."""
    own = f"{FOLDER}/{SERVER}{node}"
    return hosts.start_server(node, f"glusterfsd -N -f {own}.vol -l {own}.log", own)


def environment(hosts: Hosts) -> dict[str, str]:
    """Return no variables, because its files are in the common folder of all engines."""
    return {}


def _volume(
    name: str, kind: str, options: Mapping[str, object], subvolumes: Sequence[str] = ()
) -> str:
    lines = [f"volume {name}", f"  type {kind}"]
    lines += [f"  option {option} {value}" for option, value in options.items()]
    if subvolumes:
        lines.append(f"  subvolumes {' '.join(subvolumes)}")
    return "\n".join((*lines, "end-volume", ""))


def server_volfile(brick: str, address: str) -> str:
    """Return a node's volume file: one brick, whose reads bypass the page cache if requested."""
    return "\n".join(
        (
            _volume("posix", "storage/posix", {"directory": brick, "o-direct": "off"}),
            _volume("locks", "features/locks", {}, ["posix"]),
            # the maximum of io-threads, so that requests queue at the drive
            _volume("brick", "performance/io-threads", {"thread-count": 64}, ["locks"]),
            _volume(
                "server",
                "protocol/server",
                {
                    "transport-type": "tcp",
                    "transport.socket.bind-address": address,
                    "transport.socket.listen-port": PORT,
                    "auth.addr.brick.allow": "*",
                },
                ["brick"],
            ),
        )
    )


def client_volfile(
    addresses: Sequence[str], *, read_node: int | None = None, read_hash_mode: int = 1
) -> str:
    """Return a client's volume file: the replica set, and which node serves reads.

    Parameters
    ----------
    read_node : int, optional
        Index of the node, from 0. If there is none, the engine chooses.
    read_hash_mode : int, default 1
        Rule of the engine: GlusterFS' `cluster.read-hash-mode`, with the same default.
    """
    volumes = [
        _volume(
            f"node{k}",
            "protocol/client",
            {
                "transport-type": "tcp",
                "remote-host": address,
                "remote-port": PORT,
                "remote-subvolume": "brick",
                # O_DIRECT of a client is passed on to the brick
                "filter-O_DIRECT": "off",
            },
        )
        for k, address in enumerate(addresses)
    ]
    names = [f"node{k}" for k in range(len(addresses))]
    options: dict[str, object] = {
        "afr-pending-xattr": ",".join(names),
        # no background reads may disturb a measurement
        "data-self-heal": "off",
        "metadata-self-heal": "off",
        "entry-self-heal": "off",
        "self-heal-daemon": "off",
        "choose-local": "off",
        "read-hash-mode": read_hash_mode,
    }
    if read_node is not None:
        options["read-subvolume-index"] = read_node
    volumes.append(_volume("replicas", "cluster/replicate", options, names))
    return "\n".join(volumes)
