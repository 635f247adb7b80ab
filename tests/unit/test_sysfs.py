# SPDX-License-Identifier: MIT
"""The sysfs interface, on a tree of plain files; the lab tests use the real kernel."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_sysfs import activate_what_is_written, make_tree
from test_model_format import random_model
from trees_by_hand import random_trees

from linnapp.cli import cli
from linnapp.drive.checks import Target, check, check_replicas
from linnapp.drive.drives_conf import DrivesConf
from linnapp.drive.latencies import N_BUCKETS
from linnapp.drive.maintain import recalibrate
from linnapp.drive.sysfs import Drive, device_number, disk_stat, drives, observed
from linnapp.errors import DeviceError, LinnappError, ModelError
from linnapp.learn.options import Recipe


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LINNAPP_STATE", str(tmp_path / "state"))
    return make_tree(tmp_path, monkeypatch)


@pytest.fixture
def live_tree(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    activate_what_is_written(tmp_path, monkeypatch)
    return tree


def test_drive_observed_by_the_module_uses_the_module_s_files(tree: Path) -> None:
    kernel = tree.parents[2] / "kernel"
    shutil.copytree(tree, kernel / "linnos" / "sdc")
    (tree.parents[1] / "sdc" / "dev").write_text("8:32\n")
    (tree.parents[1] / "sdd").mkdir()
    assert drives() == ["sda", "sdb", "sdc"]
    drive = Drive("sdc")
    drive.set("off")
    assert (kernel / "linnos" / "sdc" / "mode").read_text() == "off"
    assert device_number("sdc") == 8 << 20 | 32
    assert drive.stats == {"reads": 12, "revoked": 3}
    with pytest.raises(DeviceError, match="echo sdd >.*/kernel/linnos/add"):
        Drive("sdd")


def test_virtual_devices_are_used_only_when_named(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = tree.parents[1]
    odd = ["loop0", "nbd0", "nullb0", "ram0", "zram0"]
    for name in odd:
        shutil.copytree(tree.parent, block / name)
    # nbd0 is a slot without a medium, sda has one.
    (block / "nbd0" / "size").write_text("0\n")
    (block / "sda" / "size").write_text("2097152\n")
    assert drives() == ["sda", "sdb"]
    for name in ("nbd0", "sda", "sdb"):
        shutil.rmtree(block / name)
    for command in (["top", "--once"], ["status"], ["exporter", "--once"]):
        with pytest.raises(
            LinnappError, match="no drive has LinnOS; name those of loop0, nullb0, ram0, zram0"
        ):
            cli.main(command, standalone_mode=False)
    cli.main(["status", "nullb0"], standalone_mode=False)
    assert "nullb0" in capsys.readouterr().out


def test_upload_is_verified(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="hidden units 64, not 256.*`n_hidden=256`"):
        Drive("sda").upload(random_model(n_hidden=64))
    assert (tree / "model").read_bytes() == b""
    model = random_model()
    with pytest.raises(ModelError, match="but no model is active"):
        Drive("sda").upload(model)  # plain files do not activate anything
    (tree / "model_id").write_text(model.model_id + "\n")
    Drive("sda").upload(model)
    assert Drive("sda").read_model() == model.to_bytes()
    real_open = Path.open

    def refuse(self: Path, *args: object, **kw: object) -> object:
        if self.name == "model":
            raise OSError(22, "Invalid argument", str(self))
        return real_open(self, *args, **kw)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ModelError, match="kernel refused the model .*dmesg.*Still active: "):
        Drive("sda").upload(random_model(2))


def below(tree: Path, name: str, *slaves: str, kind: str = "") -> None:
    directory = tree.parents[1] / name
    (directory / "slaves").mkdir(parents=True)
    if kind:
        (directory / kind).mkdir()
    for slave in slaves:
        (directory / "slaves" / slave.rstrip("0123456789")).symlink_to(tree.parents[1] / slave)


def test_device_without_a_request_queue_is_named_with_its_lower_devices(tree: Path) -> None:
    block = tree.parents[1]
    below(tree, "dm-0", "sda", "sdb", kind="dm")
    below(tree, "md0", "sda", kind="md")
    below(tree, "bcache0", "sdb")
    below(tree, "zram0")
    (block / "md0" / "md0p1").mkdir()
    (block / "md0" / "md0p1" / "partition").touch()
    for device, words in (
        ("dm-0", "dm-0 passes its I/Os on .*name the disks below it: sda, sdb"),
        ("md0", "md0 passes .*: sda, or let `linnapp enable /dev/md0` do"),
        ("md0p1", "^md0p1: md0 passes its I/Os on"),
        ("bcache0", "bcache0 passes its I/Os on .*: sdb"),
        ("zram0", "^zram0 has no request queue to observe; name a drive$"),
        ("sdc", r"Other disks have it \(sda, sdb\).* sdc has no request queue"),
    ):
        with pytest.raises(DeviceError, match=words) as raised:
            Drive(device)
        assert "boot the patched kernel" not in str(raised.value)
    (block / "sdc" / "mq").mkdir()
    with pytest.raises(DeviceError, match="boot the patched kernel"):
        Drive("sdc")


def test_parts_of_an_nvme_subsystem_are_distinguished(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    block = tree.parents[1]
    for path in ("nvme3c0n1", "nvme3c12n1", "nvme3c0n10"):
        (block / path / "mq").mkdir(parents=True)
        (block / path / "linnos").mkdir()
    for head in ("nvme3n1", "nvme3n10", "nvme4n1"):
        (block / head).mkdir()
    (block / "nvme4n1" / "mq").mkdir()
    (block / "nvme4n1" / "linnos").mkdir()
    with pytest.raises(DeviceError) as raised:
        observed("nvme3n1")
    for words in ("head of NVMe's multipath", "path nvme3c0n1, nvme3c12n1, which", "path=N"):
        assert words in str(raised.value)
    assert Drive("nvme4n1").name == "nvme4n1"
    for device, words in (
        ("nvme3", "an NVMe controller, not a disk; name one of its disks: nvme3n1, nvme3n10"),
        ("nvme12", "an NVMe controller, not a disk; name one of its disks: nvme3c12n1"),
        ("nvme9", "an NVMe controller, not a disk; `lsblk`"),
    ):
        with pytest.raises(DeviceError, match=words):
            Drive(device)
    result = CliRunner().invoke(cli, ["trace", "nvme3c0n1", "-o", str(block / "out")])
    assert "nvme3c0n1 is a path below nvme3n1" in str(result.exception)
    for refuse in (
        lambda: check(Target(("nvme3c0n1", "sda")), DrivesConf()),
        lambda: recalibrate(["nvme3c0n1"], block / "models", Recipe(), duration_s=1),
    ):
        with pytest.raises(DeviceError, match="nvme3c0n1 is a path below nvme3n1.*no node"):
            refuse()
    with pytest.raises(DeviceError, match="head of NVMe's multipath"):
        check(Target(("nvme3n1", "sda")), DrivesConf())


def test_module_is_given_the_head_of_an_nvme_multipath_drive(tree: Path) -> None:
    block = tree.parents[1]
    (block / "nvme3c0n1" / "mq").mkdir(parents=True)
    (block / "nvme3n1").mkdir()
    module = block.parent / "kernel" / "linnos"
    module.mkdir(parents=True)
    with pytest.raises(DeviceError, match="the module linnos does not observe it"):
        observed("nvme3n1")
    assert (module / "add").read_text() == "nvme3n1"
    for head, path in (("nvme3n1", "nvme3c0n1"), ("nvme4n1", "nvme4c1n1")):
        (block / path / "mq").mkdir(parents=True, exist_ok=True)
        (block / head / "queue").mkdir(parents=True)
        (block / head / "queue" / "rotational").write_text("0\n")
    check_replicas(Target(("nvme3n1", "nvme4n1")))


def test_sysfs_error_names_the_remedy(tree: Path) -> None:
    for device, words in (
        ("sdz", "sdz: no such disk .*lsblk"),
        ("sdc", "lacks the LinnOS patch"),
        ("/dev/does-not-exist", "No such file"),
        ("a" * 300, "File name too long"),
        # A pattern must not match another drive, which would get the wrong model.
        *((name, f"^{re.escape(name)}: no such disk .*lsblk")
          for name in ("queue", "*", "s?a", "a**b", "sd[a]", "", ".", "..")),
    ):  # fmt: skip
        with pytest.raises(DeviceError, match=words):
            Drive(device)
    (tree / "mode").unlink()
    (tree / "mode").mkdir()
    with pytest.raises(DeviceError, match="mode: Is a directory"):
        _ = Drive("sda").mode
    (tree / "stats" / "reads").write_bytes(b"\xff\n")
    (tree / "stats" / "revoked").write_text("9" * 5000)
    assert Drive("sda").stats == {}


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("linnos/threshold_us", lambda: Drive("sda").threshold_us),
        ("linnos/probe_after_revokes", lambda: Drive("sda").probes),
        ("stat", lambda: disk_stat("sda")),
        ("dev", lambda: device_number("sda")),
    ],
)
def test_file_without_a_number_is_named_with_its_content(
    tree: Path, path: str, read: Callable[[], object]
) -> None:
    file = tree.parent / path
    for content, shown in (
        (b"1x8\n", "'1x8'"),
        (b"", "''"),
        (b"\xff\n", "'\ufffd'"),
        (b"8:16:1:9x", "'8:16:1:9x'"),
        (b"9" * 5000, "'999"),
    ):
        file.write_bytes(content)
        with pytest.raises(DeviceError) as error:
            read()
        assert str(error.value).startswith(f"{file}: {shown}") and "expected" in str(error.value)
    file.unlink()
    with pytest.raises(DeviceError, match=f"{file}: No such file"):
        read()


def test_upload_and_its_undo_can_be_undone(
    live_tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trees, network = random_trees(), random_model()
    trees.save(tmp_path / "trees.linnos")
    network.save(tmp_path / "net.linnos")
    run_cli("upload", "--model", str(tmp_path / "trees.linnos"), "--device", "sda")
    assert f"sda: latency model {trees.model_id} " in capsys.readouterr().out
    run_cli("status", "--json")
    rows = json.loads(capsys.readouterr().out)["drives"]
    assert [row["model_kind"] for row in rows] == ["latency", None]
    run_cli("upload", "--model", str(tmp_path / "net.linnos"), "--device", "sda")
    assert (live_tree / "model").read_bytes() == network.to_bytes()
    run_cli("upload", "--previous", "--device", "sda", "--mode", "enforce")
    assert (live_tree / "model").read_bytes() == trees.to_bytes()
    assert (live_tree / "mode").read_text() == "enforce"
    run_cli("upload", "--previous", "--device", "sda")
    assert (live_tree / "model").read_bytes() == network.to_bytes()
    with pytest.raises(LinnappError, match="no model before"):
        run_cli("upload", "--previous", "--device", "sdb")


def test_status_shows_shares_of_reads_in_any_mode(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The threshold is lower than the median, so half of a healthy drive's reads exceed it."""
    monkeypatch.setenv("COLUMNS", "300")
    for name, count in (
        *(("reads", 2000), ("latency_critical", 2000), ("admitted", 1980), ("revoked", 20)),
        *(("slow", 1060), ("false_submits", 1040), ("inferences", 2000)),
    ):
        (tree / "stats" / name).write_text(f"{count}\n")
    counts = [0] * N_BUCKETS
    counts[18] = 1980
    (tree / "latency_us_histogram").write_text(" ".join(map(str, counts)) + "\n")
    run_cli("status", "sda")
    shown = capsys.readouterr().out
    assert re.search(r"p99 +│ +\d+ us", shown) and re.search(r"refused +│ +1\.0%", shown)
    assert "53.5% of reads" in shown and "52.5% of admitted" in shown
    assert "false" not in shown and "asked" not in shown  # only hinted reads, no queries
    (tree / "stats" / "inferences").write_text("4321\n")
    run_cli("status")
    shown = capsys.readouterr().out
    assert "asked" in shown and re.search(r"4321\b", shown)


def run_cli(*arguments: str) -> None:
    cli.main(list(arguments), standalone_mode=False)


def test_a_drive_that_is_being_removed_hides_no_other(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "threshold_us").write_text("")
    run_cli("status", "--json")
    captured = capsys.readouterr()
    assert [row["drive"] for row in json.loads(captured.out)["drives"]] == ["sdb"]
    assert "sda is left out: " in captured.err and "threshold_us: ''" in captured.err
    with pytest.raises(DeviceError, match="threshold_us: ''"):
        run_cli("status", "sda", "--json")
    shutil.rmtree(tmp_path / "block" / "sdb")
    with pytest.raises(DeviceError, match="threshold_us: ''"):
        run_cli("status", "--json")


@pytest.mark.parametrize(("width", "n_drives"), [(40, 3), (80, 7), (200, 1)])
def test_status_is_complete_on_any_terminal(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    width: int,
    n_drives: int,
) -> None:
    names = [f"nvme{number}n1" for number in range(n_drives)]
    make_tree(tmp_path, monkeypatch, " ".join(names))
    monkeypatch.setenv("COLUMNS", str(width))
    run_cli("status", *names)
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for word in (*names, "observe", "slow admitted", "ns per inference", "12"):
        assert word in shown
