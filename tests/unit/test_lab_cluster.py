# SPDX-License-Identifier: MIT
"""The lab: clusters, processors of guests, and initial RAM disks."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from linnapp.lab import uml
from linnapp.lab.array import Array
from linnapp.lab.cluster import ENGINES, Cluster, installed_by, missing
from linnapp.lab.engines.ceph import configuration
from linnapp.lab.engines.gluster import PORT, client_volfile
from linnapp.lab.engines.hosts import Hosts

ROOT = Path(__file__).parents[2]


def volumes(volfile: str) -> dict[str, str]:
    """Return each volume's lines by name."""
    return dict(re.findall(r"^volume (\S+)\n(.*?)^end-volume$", volfile, re.MULTILINE | re.DOTALL))


def test_client_reads_from_the_given_node() -> None:
    addresses = ["10.0.0.2", "10.0.1.2"]
    known = volumes(client_volfile(addresses, read_node=1))
    assert list(known) == ["node0", "node1", "replicas"]
    assert "option read-subvolume-index 1\n" in known["replicas"]
    assert "subvolumes node0 node1\n" in known["replicas"]
    for address, name in zip(addresses, ("node0", "node1"), strict=True):
        assert f"option remote-host {address}\n" in known[name]
        assert f"option remote-port {PORT}\n" in known[name]


def test_osd_and_its_location_belong_to_its_node() -> None:
    known = configparser.ConfigParser()
    known.read_string(configuration(Hosts(["/dev/flash0"], ["10.0.0.2", "10.0.1.2"], 1, True)))
    assert known["osd.1"]["public addr"] == "10.0.1.2"
    assert known["osd.1"]["crush location"].split() == ["root=default", "host=node1"]
    assert known["global"]["mon host"] == "v2:10.0.0.2:3300"
    assert known["global"]["osd pool default size"] == "2"
    places = Cluster(Array(2), "ceph").environment["LINNOS_CRUSH_LOCATIONS"]
    assert places == "root=default,host=node0;root=default,host=node1"


def test_cpu_time_of_an_osd_is_in_the_setup_script() -> None:
    charged = Cluster(Array(3), "ceph", osd_us=105).setup_script()
    # 105 us are a delay of 35 us, three times per read
    assert "dispatch delay duration = 0.0000350\n" in charged
    assert charged.count("timerslack_ns; exec ceph-osd") == 3
    killed, back = Cluster(Array(3), "ceph", osd_us=105).kill_node(1)
    assert killed == "kill -KILL $(cat /run/cluster/osd1.pid /run/cluster/agent1.pid)"
    assert all(line in charged for line in back.splitlines())
    free = Cluster(Array(3), "ceph").setup_script()
    assert "dispatch delay" not in free and "timerslack" not in free


@pytest.mark.parametrize("engine", ENGINES)
def test_setup_is_a_valid_shell_script(engine: str) -> None:
    cluster = Cluster(Array(3), engine, 20)
    script = cluster.setup_script()
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    assert script.count("netem delay 20us") == 6
    assert cluster.environment["LINNOS_NODES"] == "10.0.0.2,10.0.1.2,10.0.2.2"
    assert ("glusterfsd" in script, "ceph-osd" in script) == (engine == "gluster", engine == "ceph")
    assert "netem" not in Cluster(Array(3), engine, 0).setup_script()


@pytest.mark.parametrize(("engine", "program"), [("gluster", "glusterfsd"), ("ceph", "ceph-osd")])
def test_missing_programs_are_named_with_the_target_that_installs_them(
    tmp_path: Path, engine: str, program: str
) -> None:
    needed = missing(engine, "")
    assert {"ip", "tc", program} <= set(needed)
    for needed_program in needed[1:]:
        (tmp_path / needed_program).touch()
    assert missing(engine, f"{tmp_path}:/no/such/folder") == needed[:1]
    target = installed_by(engine).split()[1]
    assert f"\n{target}: " in (ROOT / "Makefile").read_text()


def test_guests_at_the_same_time_have_a_cpu_each(monkeypatch: pytest.MonkeyPatch) -> None:
    # CPU numbers that no machine has, so that guests of other tests do not interfere.
    cpus = [100_001, 100_002]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cpus))
    with ExitStack() as guests:
        first, second = (guests.enter_context(uml._one_cpu()) for _ in range(2))
        assert [first, second] == cpus
        # One guest too many shares.
        assert guests.enter_context(uml._one_cpu()) in cpus
    with uml._one_cpu() as again:
        assert again == cpus[0]
