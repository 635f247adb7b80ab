# SPDX-License-Identifier: MIT
"""Ceph: a monitor on the first node, and on each node an OSD with BlueStore on its drive.

There is no manager and there are no keys, because no statistics are needed and the network is
private. The client determines the serving OSD by its location (`crush_location`).
"""

from __future__ import annotations

from collections.abc import Iterable

from linnapp.errors import LinnappError
from linnapp.lab.engines.hosts import FOLDER, Hosts, wait_until, write_file

NEEDED: tuple[str, ...] = ("sfdisk", "ceph", "ceph-mon", "ceph-osd", "monmaptool")
INSTALLED_BY = "make deps-ceph"
SERVER = "osd"

#: Pool with three replicas, and the number of its placement groups.
POOL, N_GROUPS = "data", 32

#: Twice the size that BlueStore's own files need.
_LEAST_MB = 1024

#: Settings for reads in an OSD.
_OSD_SETTINGS = (
    # processors cost nothing here, and with several threads the first one differs from run to run
    "ms async op threads = 1",
    # Reads must be served by the drive, and all nodes share a small machine.
    "bluestore default buffered read = false",
    "bluestore cache autotune = false",
    f"bluestore cache size = {32 << 20}",
)

#: Number of times that a read waits on its way through an OSD, in the thread that handles it.
_HELD_UP = 3

_FSID = "6c696e6e-6f73-4c41-8000-000000000000"
_MONITOR_PORT = 3300
_CONFIGURATION = f"{FOLDER}/ceph.conf"


def configuration(hosts: Hosts) -> str:
    """Return the ceph.conf of servers and clients."""
    lines = [
        "[global]",
        f"fsid = {_FSID}",
        f"mon host = {_monitor(hosts)}",
        "ms bind msgr1 = false",
        *(f"auth {who} required = none" for who in ("cluster", "service", "client")),
        *_OSD_SETTINGS,
        f"osd pool default size = {min(3, len(hosts.addresses))}",
        f"log file = {FOLDER}/$name.log",
        f"pid file = {FOLDER}/$name.pid",
        "admin socket = /run/ceph/$name.$pid.$cctid.asok",
        f"mon data = {FOLDER}/mon",
        f"osd data = {FOLDER}/osd$id",
        f"osd memory target = {896 << 20}",
    ]
    if hosts.osd_us:
        delay_s = hosts.osd_us / _HELD_UP / 1e6
        lines += [
            "osd debug inject dispatch delay probability = 1",
            f"osd debug inject dispatch delay duration = {delay_s:.7f}",
        ]
    for k, address in enumerate(hosts.addresses):
        lines += [f"[osd.{k}]", f"public addr = {address}", f"crush location = {_place(k)}"]
    return "\n".join((*lines, ""))


def set_up(hosts: Hosts) -> list[str]:
    """Return shell commands that start monitor and OSDs, and create the pool."""
    if hosts.size_mb < _LEAST_MB:
        raise LinnappError(
            f"--size-mb {hosts.size_mb}: Ceph needs drives of at least {_LEAST_MB} MB"
        )
    monitor = f"{hosts.inside(0)}ceph-mon -i a"
    nodes = range(len(hosts.addresses))
    # They store a few files in folders of the host, to which the guest may not write.
    lines = [f"mount -t tmpfs tmpfs {place}" for place in ("/tmp",)]
    lines += [
        *hosts.divide_drives(),
        *hosts.route_nodes(),
        "mkdir -p /run/ceph",
        write_file(_CONFIGURATION, configuration(hosts)),
        f"export CEPH_CONF={_CONFIGURATION}",
        f"monmaptool --create --fsid {_FSID} --addv a '[{_monitor(hosts)}]' {FOLDER}/monmap",
        f"{monitor} --mkfs --monmap {FOLDER}/monmap",
        f"{monitor} -f </dev/null >{FOLDER}/mon.out 2>&1 &",
        _commands(f"osd new {_uuid(k)} {k}" for k in nodes),
    ]
    for k, device in enumerate(hosts.devices):
        lines += [
            f"mkdir {FOLDER}/osd{k}",
            f"ln -s {device}p1 {FOLDER}/osd{k}/block",
            f"{hosts.inside(k)}ceph-osd -i {k} --mkfs --osd-uuid {_uuid(k)}",
            server(hosts, k),
        ]
    lines += [
        wait_until(
            f"grep -q 'state: booting -> active' {FOLDER}/osd.{k}.log", f"{FOLDER}/osd{k}.out"
        )
        for k in nodes
    ]
    return [*lines, _commands([f"osd pool create {POOL} {N_GROUPS} {N_GROUPS} replicated"])]


def server(hosts: Hosts, node: int) -> str:
    """Return the shell command that starts a node's OSD."""
    osd = f"ceph-osd -i {node} -f"
    if hosts.osd_us:
        # otherwise each wait takes 50 us longer
        osd = f"sh -c 'echo 1 >/proc/self/timerslack_ns; exec {osd}'"
    return hosts.start_server(node, osd, f"{FOLDER}/{SERVER}{node}")


def environment(hosts: Hosts) -> dict[str, str]:
    """Return the path of the clients' configuration, and the location nearest to each node."""
    places = [_place(k).replace(" ", ",") for k in range(len(hosts.addresses))]
    return {"CEPH_CONF": _CONFIGURATION, "LINNOS_CRUSH_LOCATIONS": ";".join(places)}


def _commands(commands: Iterable[str]) -> str:
    # one program for all commands, because starting it takes longer than the commands
    text = "".join(f"{command}\n" for command in commands)
    return f"ceph --connect-timeout 30 <<'END'\n{text}END"


def _monitor(hosts: Hosts) -> str:
    return f"v2:{hosts.addresses[0]}:{_MONITOR_PORT}"


def _place(node: int) -> str:
    return f"root=default host=node{node}"


def _uuid(node: int) -> str:
    return f"{_FSID[:-2]}{node + 1:02x}"
