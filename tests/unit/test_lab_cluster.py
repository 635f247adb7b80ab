# SPDX-License-Identifier: MIT
"""The setup of a lab cluster, without booting one."""

from __future__ import annotations

import configparser
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from linnapp.cli import cli
from linnapp.lab.array import Array
from linnapp.lab.cluster import ENGINES, Cluster, installed_by, missing
from linnapp.lab.engines.ceph import configuration
from linnapp.lab.engines.gluster import PORT, client_volfile, server_volfile
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


def test_engine_chooses_the_node_by_default() -> None:
    replicas = volumes(client_volfile(["10.0.0.2"], read_hash_mode=3))["replicas"]
    assert "read-subvolume-index" not in replicas
    assert "option read-hash-mode 3\n" in replicas


def test_sets_of_nodes_have_volumes_of_their_own() -> None:
    cluster = Cluster(Array(6), "gluster", 20, replicas=3)
    files = dict(
        re.findall(
            r"^cat >/run/cluster/(\S+)\.vol <<'END'\n(.*?)^END$",
            cluster.setup_script(),
            re.MULTILINE | re.DOTALL,
        )
    )
    for node, file in ((2, "read-node2"), (5, "read-node5")):
        known = volumes(files[file])
        assert "option read-subvolume-index 2\n" in known["replicas"]
        assert f"option remote-host 10.0.{node}.2\n" in known["node2"] and "node3" not in known
    assert "10.0.3.2" in files["read-hash-mode3-1"] and "10.0.3.2" not in files["read-hash-mode3"]


def test_stopped_node_restarts_with_the_same_command() -> None:
    cluster = Cluster(Array(3), "ceph", 20)
    killed, back = cluster.gone(1)
    assert killed == "kill -KILL $(cat /run/cluster/osd1.pid /run/cluster/agent1.pid)"
    assert all(line in cluster.setup_script() for line in back.splitlines())


def test_a_server_has_its_brick_and_its_address() -> None:
    known = volumes(server_volfile("/run/b", "10.0.0.2"))
    assert "option directory /run/b\n" in known["posix"]
    assert "option transport.socket.bind-address 10.0.0.2\n" in known["server"]
    assert "subvolumes brick\n" in known["server"]


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


@pytest.mark.parametrize("engine", ENGINES)
def test_without_a_network_all_are_on_one_machine(engine: str) -> None:
    cluster = Cluster(Array(3), engine, None)
    script = cluster.setup_script()
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    assert "netns exec" not in script and "ip link add" not in script
    assert "ip_forward" not in script
    assert cluster.addresses == ["127.0.0.2", "127.0.1.2", "127.0.2.2"]
    assert "allow 127.0.0.0/8" in script


@pytest.mark.parametrize(("engine", "program"), [("gluster", "glusterfsd"), ("ceph", "ceph-osd")])
def test_missing_programs_are_named_with_the_target_that_installs_them(
    tmp_path: Path, engine: str, program: str
) -> None:
    needed = missing(engine, "")
    assert {"ip", "tc", program} <= set(needed)
    for one in needed[1:]:
        (tmp_path / one).touch()
    assert missing(engine, f"{tmp_path}:/no/such/folder") == needed[:1]
    target = installed_by(engine).split()[1]
    assert f"\n{target}: " in (ROOT / "Makefile").read_text()


def test_drives_that_are_too_small_are_refused() -> None:
    with pytest.raises(ValueError, match="--size-mb 1000: Ceph needs drives of at least 1024 MB"):
        Cluster(Array(3, size_mb=1000), "ceph").setup_script()


def test_lab_cluster_refuses_too_many_nodes() -> None:
    ran = CliRunner().invoke(cli, ["lab", "cluster", "--nodes", "17", "--", "true"])
    assert ran.exit_code == 2 and "17 is not in the range" in ran.output


def test_lab_cluster_refuses_osd_us_without_osds() -> None:
    ran = CliRunner().invoke(cli, ["lab", "cluster", "--osd-us", "105", "--", "true"])
    assert ran.exit_code == 2 and "gluster has no OSDs" in ran.output
