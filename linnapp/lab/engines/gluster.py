# SPDX-License-Identifier: MIT
"""GlusterFS' volume files: a replica set with a brick a node, written by hand.

`glusterd`, which would write them, takes longer than everything else together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from linnapp.lab.engines.hosts import FOLDER, Hosts, written

NEEDED: tuple[str, ...] = ("sfdisk", "glusterfsd")
INSTALLED_BY = "make deps-gluster"
SERVER = "server"

#: What the server and its clients speak on.
PORT = 49152

#: Rules of the engine's own for which replica serves a read, its `read-hash-mode`.
READ_HASH_MODES = range(6)


def set_up(hosts: Hosts) -> list[str]:
    """Shell commands that bring bricks and servers up, and write clients' volume files."""
    lines = hosts.halved()
    for k, device in enumerate(hosts.devices):
        place = f"{FOLDER}/node{k}"
        lines += [
            # no discard: the drive is to stay as it was preconditioned
            f"mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0 {device}p1",
            f"mkdir -p {place}",
            f"mount -o noatime {device}p1 {place}",
            f"mkdir {place}/brick",
        ]
    # It keeps a few things where a host's files are, which the guest may not write to; it
    # copies volume files to /tmp.
    lines += [
        f"mount -t tmpfs tmpfs {place}" for place in ("/tmp", "/var/log", "/var/lib/glusterd")
    ]
    lines.append("mkdir -p /run/gluster /var/log/glusterfs")
    for k, address in enumerate(hosts.addresses):
        volfile = server_volfile(f"{FOLDER}/node{k}/brick", address)
        lines += [written(f"{FOLDER}/{SERVER}{k}.vol", volfile), server(hosts, k)]
    for number, nodes in enumerate(hosts.sets):
        addresses = [hosts.addresses[k] for k in nodes]
        for k in nodes:
            only = client_volfile(addresses, read_node=k - nodes[0])
            lines.append(written(f"{FOLDER}/read-node{k}.vol", only))
        for mode in READ_HASH_MODES:
            chosen = client_volfile(addresses, read_hash_mode=mode)
            of_set = f"-{number}" if number else ""
            lines.append(written(f"{FOLDER}/read-hash-mode{mode}{of_set}.vol", chosen))
    all_nodes = range(len(hosts.addresses))
    return lines + [hosts.listens(k, PORT, f"{FOLDER}/{SERVER}{k}.log") for k in all_nodes]


def server(hosts: Hosts, node: int) -> str:
    """Shell command that starts a node's."""
    own = f"{FOLDER}/{SERVER}{node}"
    return hosts.started(node, f"glusterfsd -N -f {own}.vol -l {own}.log", own)


def environment(hosts: Hosts) -> dict[str, str]:
    """Its files are where every engine's are."""
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
    """A node's: one brick, whose reads bypass the page cache if they are to."""
    return "\n".join(
        (
            _volume("posix", "storage/posix", {"directory": brick, "o-direct": "off"}),
            _volume("locks", "features/locks", {}, ["posix"]),
            # as many as io-threads allows: the drive's queue is to be the drive's
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
    """A client's: the replica set, whose reads one node serves, or whom the engine's rule names.

    Parameters
    ----------
    read_node : int, optional
        From 0. If there is none the engine chooses.
    read_hash_mode : int, default 1
        By which rule: GlusterFS' `cluster.read-hash-mode`, whose default this is.
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
                # O_DIRECT of a client is one of the brick
                "filter-O_DIRECT": "off",
            },
        )
        for k, address in enumerate(addresses)
    ]
    names = [f"node{k}" for k in range(len(addresses))]
    options: dict[str, object] = {
        "afr-pending-xattr": ",".join(names),
        # nobody is to read behind the back of a measurement
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
