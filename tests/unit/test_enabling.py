# SPDX-License-Identifier: MIT
"""`linnapp enable`, `restore` and `disable` on plain files in place of sysfs.

tests/lab/test_enable.py uses the real kernel.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from fake_sysfs import activate_what_is_written, make_tree
from test_latency_model import random_trees

from linnapp.cli import cli
from linnapp.commands import enable as command
from linnapp.drive import drives_conf, journal, stable_ids, sysfs
from linnapp.drive.drives_conf import DriveEntry, DrivesConf, load_conf, save_conf
from linnapp.drive.enable import checks as enable_checks
from linnapp.drive.enable import enabling, restore_unit
from linnapp.drive.enable.checks import check, find_target
from linnapp.drive.md import MdArray
from linnapp.drive.restoring import restore
from linnapp.drive.stable_ids import stable_id
from linnapp.drive.sysfs import Drive
from linnapp.errors import DeviceError, LinnappError
from linnapp.model import LatencyModel
from linnapp.trace.recording import RecordingProgress

Run = Callable[..., Any]

RECORD = {
    "chooses": True,
    "auc": 0.9,
    "auc_last_latencies": 0.8,
    "auc_pending": 0.7,
    "mean_abs_log2_error": 0.2,
    "mean_abs_log2_error_last_latencies": 0.3,
    "n_trees": 100,
    "why_no_trees": None,
    "remedy": None,
}


@pytest.fixture
def block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Disks sda and sdb with LinnOS, sdc without, and md0 of a partition of sda and sdb."""
    make_tree(tmp_path / "sys", monkeypatch)
    activate_what_is_written(tmp_path / "sys", monkeypatch)
    monkeypatch.setenv("LINNAPP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("LINNAPP_CONF", str(tmp_path / "etc" / "drives.conf"))
    monkeypatch.setenv("LINNAPP_BY_ID", str(tmp_path / "by-id"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    (tmp_path / "by-id").mkdir()
    block = tmp_path / "sys" / "block"
    for name in ("sda", "sdb", "sdc"):
        add_disk(block, name)
        # A name that the tools can follow, in place of a node.
        (block.parent / "dev").mkdir(exist_ok=True)
        (block.parent / "dev" / name).touch()
        (tmp_path / "by-id" / f"wwn-{name}").symlink_to(block.parent / "dev" / name)
    add_array(block, "md0", {"sda1": "in_sync", "sdb": "in_sync"})
    (block.parent / "dev" / "md0").touch()
    (tmp_path / "by-id" / "md-uuid-0").symlink_to(block.parent / "dev" / "md0")
    return block


def add_disk(block: Path, name: str) -> None:
    (block / name / "mq").mkdir(parents=True)
    (block / name / "queue").mkdir(exist_ok=True)
    (block / name / "queue" / "rotational").write_text("0\n")
    (block / name / "stat").write_text("  5 0 0 0 0 0 0 0 0 0 0\n")
    if (block / name / "linnos").is_dir():
        (block / name / "linnos" / "mode").write_text("off\n")


def add_array(block: Path, name: str, parts: dict[str, str], level: str = "raid1") -> Path:
    md = block / name / "md"
    md.mkdir(parents=True)
    for file, text in (
        ("level", level),
        ("raid_disks", str(len(parts))),
        ("degraded", "0"),
        ("metadata_version", "1.2"),
        ("sync_action", "idle"),
        ("linnos", "off"),
    ):
        (md / file).write_text(text + "\n")
    for part, states in parts.items():
        member = md / f"dev-{part}"
        member.mkdir()
        (member / "state").write_text(states + "\n")
        disk = part.rstrip("123456789")
        (member / "block").symlink_to(block / disk / part if part != disk else block / disk)
    return md


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lines of the journal."""
    found: list[str] = []
    monkeypatch.setattr("syslog.syslog", lambda _, line: found.append(line))
    monkeypatch.setattr("sys.argv", ["/usr/bin/linnapp", "enable", "/dev/md0"])
    return found


@pytest.fixture
def run(block: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*words: object) -> Any:
        return CliRunner().invoke(cli, [str(word) for word in words])

    return run


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make stand-ins for recordings. The lab's test trains with real ones."""
    rng = np.random.default_rng(1)

    def train(traces: list[Path], out: Path, *_: Any, **__: Any) -> list[str]:
        out.mkdir(parents=True)
        for trace in traces:
            record = json.loads(trace.read_text())
            random_trees(rng).save(out / f"{trace.stem}.linnos")
            (out / f"{trace.stem}.json").write_text(json.dumps(record))
        return [trace.stem for trace in traces]

    monkeypatch.setattr(enabling, "train_array", train)
    monkeypatch.setattr(enabling, "check_losses", lambda _: None)
    return made(tmp_path / "recordings")


def made(directory: Path, **of_sdb: Any) -> Path:
    directory.mkdir()
    (directory / "sda.blk").write_text(json.dumps(RECORD))
    (directory / "sdb.blk").write_text(json.dumps({**RECORD, **of_sdb}))
    return directory


def refused(target: list[str], says: str, conf: DrivesConf | None = None) -> None:
    with pytest.raises(DeviceError, match=says):
        check(find_target(target), conf or DrivesConf())


# -- targets --


def test_find_target_returns_the_drives_of_an_array(block: Path) -> None:
    found = find_target(["md0"])
    assert (found.array, found.drives, found.words) == ("md0", ("sda", "sdb"), "/dev/md0")
    check(found, DrivesConf())
    assert find_target(["sdb", "sda1"]).drives == ("sdb", "sda")
    # Drives that md does not read from are not set up.
    add_disk(block, "sdd")
    add_array(block, "md1", {"sda": "in_sync", "sdb": "in_sync,write_mostly", "sdd": "spare"})
    assert find_target(["md1"]).drives == ("sda",)


def test_unsuitable_arrays_are_refused(block: Path) -> None:
    md = block / "md0" / "md"
    for file, text, says in (
        ("level", "raid5", "md0 is raid5: only raid1 and raid10"),
        ("level", "", "md0 does not run"),
        ("metadata_version", "external:imsm", r"metadata outside \(external:imsm\)"),
        ("raid_disks", "1", "md0 has one mirror"),
        ("degraded", "1", "md0 is degraded, 1 of 2 mirrors"),
        ("sync_action", "resync", r"md0 is busy \(resync\)"),
        ("linnos", "n/a", "md0: this md does not ask LinnOS"),
        ("linnos", "on", "md0 asks LinnOS already, .*linnapp disable /dev/md0"),
    ):
        before = (md / file).read_text()
        (md / file).write_text(text + "\n")
        refused(["md0"], says)
        (md / file).write_text(before)
    (md / "linnos").unlink()
    refused(["md0"], "md0: this md does not ask LinnOS")
    add_array(block, "md127", {"sda": "in_sync", "sdb": "in_sync"}, level="")
    (block / "md127" / "md" / "metadata_version").write_text("external:imsm\n")
    refused(["md127"], "md127 has its metadata outside")
    add_array(block, "md1", {"sda1": "in_sync", "sda": "in_sync"})
    refused(["md1"], "md1: two of its mirrors are on sda")
    add_array(block, "md2", {"sda1": "in_sync", "sdb": "write_mostly"})
    refused(["md2"], "md2: a single drive to read from")
    refused(["md0", "sda"], "md0 is an md array: name one array, or drives")


def test_unsuitable_drives_are_refused(block: Path) -> None:
    refused(["sda"], "sda: a single drive to read from")
    refused(["sda", "sda1"], "sda1: sda is named twice")
    refused(["sda", "sdz"], "sdz: no such disk")
    refused(["sda", "sdc"], "sdc: .*this kernel lacks the LinnOS patch")
    add_disk(block, "loop0")
    refused(["sda", "loop0"], "loop0 is no drive but a disk of memory or of a file")
    (block / "dm-0" / "dm").mkdir(parents=True)
    refused(["sda", "dm-0"], r"dm-0 is a device-mapper volume \(dm-crypt, LVM\).*put md on the dri")
    # LVM on dm-crypt on the array.
    for upper, lower in (("dm-1", "dm-0"), ("dm-0", "md0")):
        (block / upper / "dm").mkdir(parents=True, exist_ok=True)
        (block / upper / "slaves").mkdir()
        (block / upper / "slaves" / lower).symlink_to(block / lower)
    refused(["dm-1"], "dm-1 is a device-mapper volume .*it lies on md0: name /dev/md0")
    (block / "drbd0").mkdir()
    refused(["sda", "drbd0"], "drbd0 passes its I/Os on")
    (block / "sdb" / "queue" / "rotational").write_text("1\n")
    refused(["sda", "sdb"], "sdb says that it rotates")
    (block / "sdb" / "queue" / "rotational").write_text("0\n")
    (block / "sdb" / "linnos" / "mode").write_text("observe\n")
    refused(["sda", "sdb"], "sdb is in mode observe already, .*linnapp disable /dev/sda /dev/sdb")
    conf = DrivesConf({stable_id("sdb") or "": DriveEntry("observe", Path("/m"))})
    check(find_target(["sda", "sdb"]), conf)
    (block / "sdb" / "linnos" / "model_kind").unlink()
    with pytest.raises(LinnappError, match="sdb: models of latencies are trained, which this kern"):
        check(find_target(["sda", "sdb"]), conf)


def test_enable_requires_root_and_disk_space(block: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enable_checks, "LEAST_FREE_BYTES", 1 << 62)
    refused(["md0"], "MiB are free")
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as on a read-only file system
    refused(["md0"], "cannot be written to; .* LINNAPP_STATE")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    refused(["md0"], "need root")


def test_enable_adds_and_disable_removes_drives_of_the_module(
    block: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    monkeypatch.setattr(enable_checks, "has_module", lambda: True)
    check(find_target(["sda", "sdc"]), DrivesConf())
    module = block.parent / "kernel" / "linnos"
    module.mkdir(parents=True)
    (module / "add").touch()
    check(find_target(["sda", "sdc"]), DrivesConf())
    steps = enabling.steps(find_target(["sda", "sdc"]), "/c", 60)
    assert "name sdc to the module linnos" in steps

    # The kernel makes the folder when the name is written.
    real = sysfs._write

    def write(path: Path, text: str) -> None:
        real(path, text)
        if path.name == "add":
            shutil.copytree(block / "sda" / "linnos", module / text)

    monkeypatch.setattr(sysfs, "_write", write)
    drive = sysfs.observed("sdc")
    assert (drive.name, drive.observer, drive.mode) == ("sdc", "module", "off")
    drive.set_mode("observe")
    assert (module / "sdc" / "mode").read_text() == "observe"
    drive.forget()
    assert (module / "remove").read_text() == "sdc"
    Drive("sda").forget()
    assert (module / "remove").read_text() == "sdc"
    assert [line.split(" (")[0] for line in lines] == [
        "sdc: named to the module linnos",
        "sdc: mode off -> observe",
        "sdc: the module linnos observes it no more",
    ]


def test_drives_are_identified_by_their_most_stable_name(block: Path, tmp_path: Path) -> None:
    for name in ("ata-X_1", "scsi-1", "wwn-0x5", "wwn-0x5-part1"):
        target = "sdq1" if "part" in name else "sdq"
        (tmp_path / "by-id" / name).symlink_to(f"../../{target}")
    assert stable_id("sdq") == f"{tmp_path}/by-id/wwn-0x5"
    assert stable_id("sdr") is None


# -- enabling --


def test_enable_and_disable_restore_the_initial_state(
    run: Run, block: Path, tmp_path: Path, recordings: Path, lines: list[str]
) -> None:
    conf_path = tmp_path / "etc" / "drives.conf"
    dry = run("enable", "md0", "--recordings", recordings, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "would upload sda's model, mode observe\n" in dry.output
    assert "would echo on >/sys/block/md0/md/linnos\n" in dry.output
    assert not conf_path.exists() and not (tmp_path / "state").exists() and not lines

    for time in ("first", "again"):
        ran = run("enable", "md0", "--recordings", recordings)
        assert ran.exit_code == 0, ran.output
        conf = load_conf(conf_path)
        assert conf is not None and conf.arrays == {f"{tmp_path}/by-id/md-uuid-0": True}
        assert (block / "md0" / "md" / "linnos").read_text() == "on"
        for name in ("sda", "sdb"):
            entry = conf.drives[f"{tmp_path}/by-id/wwn-{name}"]
            assert entry.mode == Drive(name).mode == "observe"
            assert entry.array == f"{tmp_path}/by-id/md-uuid-0"
            assert entry.model is not None
            assert LatencyModel.load(entry.model).model_id == Drive(name).model_id
        # One set of models, after any number of runs.
        assert len(list((tmp_path / "state" / "enable" / "md0").iterdir())) == 1, time
        assert (recordings / "sda.blk").exists()
    assert sum("mode off -> observe (linnapp enable, by root" in line for line in lines) == 2
    assert sum("sda: model none -> " in line for line in lines) == 1
    assert [line.split(" (")[0] for line in lines if "md0" in line] == ["md0: linnos off -> on"]

    ran = run("disable")
    assert ran.exit_code == 0, ran.output
    assert (block / "md0" / "md" / "linnos").read_text() == "off"
    for name in ("sda", "sdb"):
        assert Drive(name).mode == "off"
    assert not conf_path.exists() and not (tmp_path / "state").exists()
    before = len(lines)
    for words in (["disable"], ["disable", "md0"]):
        ran = run(*words)
        assert ran.exit_code == 0, ran.output
        assert ("nothing is enabled: " in ran.output) == (words == ["disable"])
    assert len(lines) == before and not (tmp_path / "state").exists()


def test_enable_saves_the_previous_model(
    run: Run, block: Path, tmp_path: Path, recordings: Path
) -> None:
    old = random_trees(np.random.default_rng(7))
    Drive("sda").upload(old)
    assert run("enable", "md0", "--recordings", recordings).exit_code == 0
    assert run("disable", "md0").exit_code == 0
    assert LatencyModel.load(tmp_path / "state" / "sda" / "previous.linnos").to_bytes() == (
        old.to_bytes()
    )
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["sda"]


def test_enable_refuses_models_without_a_gain(
    run: Run, block: Path, tmp_path: Path, recordings: Path
) -> None:
    ran = run("enable", "md0", "--recordings", made(tmp_path / "r", auc=0.4))
    assert ran.exit_code == 1
    assert "md0 stays as it is. sdb: its model " in str(ran.exception)
    assert Drive("sda").mode == "off" and Drive("sda").model_id is None
    assert (block / "md0" / "md" / "linnos").read_text() == "off\n"
    assert not (tmp_path / "etc").exists() and not (tmp_path / "state").exists()


def test_a_model_of_bursts_alone_is_for_md(
    run: Run, block: Path, tmp_path: Path, recordings: Path
) -> None:
    of_bursts = {"chooses": False, "n_trees": 12, "why_no_trees": "W", "remedy": "R"}
    short = made(tmp_path / "r", **of_bursts)
    ran = run("enable", "md0", "--recordings", short)
    assert ran.exit_code == 1, "beside a model that chooses"
    (short / "sda.blk").write_text((short / "sdb.blk").read_text())
    ran = run("enable", "sda", "sdb", "--recordings", short)
    assert ran.exit_code == 1
    assert "does not choose (W); R" in str(ran.exception)
    ran = run("enable", "md0", "--recordings", short)
    assert ran.exit_code == 0, ran.output
    assert "sdb: its model knows added bursts alone: md follows it" in ran.output
    assert (block / "md0" / "md" / "linnos").read_text() == "on"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({}, ""),
        ({"auc": 0.8}, ""),  # no better than the last latencies, which choose nothing
        (
            {"auc": 0.75, "auc_pending": 0.76},
            "area under ROC of 0.750, the number of pending pages",
        ),
        ({"auc": 0.4, "auc_pending": 0.3, "auc_last_latencies": 0.3}, "chance by 0.500"),
        ({"auc": None}, ""),
        ({"auc": None, "mean_abs_log2_error": 1.0}, "off by a factor of 2.00"),
        ({"chooses": False, "why_no_trees": "W", "remedy": "R"}, r"does not choose \(W\); R"),
    ],
)
def test_why_not_names_the_weakness_of_a_model(changed: dict[str, Any], says: str) -> None:
    why = enabling.why_not({**RECORD, **changed})
    assert bool(why) == bool(says)
    assert re.search(says, why)


@pytest.mark.parametrize("step", ["second drive", "array", "conf"])
def test_enable_undoes_its_changes_when_a_step_fails(
    run: Run, block: Path, tmp_path: Path, recordings: Path, monkeypatch, step: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise DeviceError("no more")

    if step == "second drive":
        real = Drive.set_mode
        monkeypatch.setattr(
            Drive,
            "set_mode",
            lambda self, mode: (
                fail() if (self.name, mode) == ("sdb", "observe") else real(self, mode)
            ),
        )
    elif step == "array":
        real_asks = MdArray.set_asks
        monkeypatch.setattr(
            MdArray, "set_asks", lambda self, on: fail() if on else real_asks(self, on)
        )
    else:
        monkeypatch.setattr(enabling, "save_conf", fail)
    ran = run("enable", "md0", "--recordings", recordings)
    assert ran.exit_code == 1 and "no more" in str(ran.exception)
    for name in ("sda", "sdb"):
        assert Drive(name).mode == "off"
    assert (block / "md0" / "md" / "linnos").read_text().strip() == "off"
    assert not (tmp_path / "etc" / "drives.conf").exists()
    assert not list((tmp_path / "state" / "enable").glob("md0/*"))


def test_failed_enable_restores_the_previous_configuration(
    run: Run, block: Path, tmp_path: Path, recordings: Path, monkeypatch
) -> None:
    assert run("enable", "md0", "--recordings", recordings).exit_code == 0
    ids = [Drive(name).model_id for name in ("sda", "sdb")]
    before = (tmp_path / "etc" / "drives.conf").read_text()
    made(tmp_path / "other")

    def fail(*_: Any) -> None:
        assert ids[0] != Drive("sda").model_id
        raise DeviceError("no more")

    with monkeypatch.context() as patched:
        patched.setattr(enabling, "save_conf", fail)
        assert run("enable", "md0", "--recordings", tmp_path / "other").exit_code == 1
    assert [Drive(name).model_id for name in ("sda", "sdb")] == ids
    assert [Drive(name).mode for name in ("sda", "sdb")] == ["observe"] * 2
    assert (block / "md0" / "md" / "linnos").read_text() == "on"
    assert (tmp_path / "etc" / "drives.conf").read_text() == before
    assert load_conf(tmp_path / "etc" / "drives.conf") is not None
    [models] = (tmp_path / "state" / "enable" / "md0").iterdir()
    assert (models / "sda.linnos").exists()


@pytest.mark.parametrize("end", [None, KeyboardInterrupt, DeviceError])
def test_an_array_that_is_on_is_recorded_as_if_it_were_off(
    run: Run, block: Path, tmp_path: Path, recordings: Path, monkeypatch, end
) -> None:
    """When enabled again, a recording would lack the reads that md redirects or drives refuse."""
    made(tmp_path / "first")
    assert run("enable", "md0", "--recordings", tmp_path / "first").exit_code == 0
    conf = tmp_path / "etc" / "drives.conf"
    conf.write_text(conf.read_text().replace("observe", "enforce", 1))
    Drive("sda").set_mode("enforce")
    for holders in (block / "sda" / "sda1" / "holders", block / "sdb" / "holders"):
        holders.mkdir(parents=True)
        (holders / "md0").symlink_to(block / "md0")

    def now() -> list[str]:
        asks = (block / "md0" / "md" / "linnos").read_text()
        return [asks, *(Drive(name).mode for name in ("sda", "sdb"))]

    seen = []

    def record(_: object, directory: Path, **__: object) -> tuple[list[object], int]:
        seen.append(now())
        if end is not None:
            raise end("enough")
        made(directory)
        (block / "sda" / "stat").write_text("  6 0 0 0 0 0 0 0 0 0 0\n")
        return [], 0

    monkeypatch.setattr(enabling, "record", record)
    monkeypatch.setattr(enabling, "check_can_trace", lambda _: None)
    train = enabling.train_array

    def train_as_before(*arguments: Any, **options: Any) -> list[str]:
        seen.append(now())
        return train(*arguments, **options)

    monkeypatch.setattr(enabling, "train_array", train_as_before)
    ran = run("enable", "md0")
    assert (ran.exit_code == 0) == (end is None), ran.output
    before = ["on", "enforce", "observe"]
    assert seen == [["off", "observe", "observe"], before][: 1 + (end is None)]
    assert now() == ["on", "observe" if end is None else "enforce", "observe"]


def test_ctrl_c_keeps_what_is_recorded(
    run: Run, block: Path, tmp_path: Path, recordings: Path, monkeypatch
) -> None:
    def record(_: object, directory: Path, **options: Any) -> None:
        directory.parent.mkdir(parents=True)
        made(directory)
        options["on_interrupted"]()

    monkeypatch.setattr(enabling, "record", record)
    monkeypatch.setattr(enabling, "check_can_trace", lambda _: None)
    ran = run("enable", "md0")
    assert ran.exit_code
    kept = re.search(r"nothing is changed; .*: linnapp (enable .*)\n", ran.output)
    assert kept and not (tmp_path / "etc").exists()
    assert (block / "md0" / "md" / "linnos").read_text() == "off\n"
    ran = run(*kept[1].replace("/dev/md0", "md0").split())
    assert ran.exit_code == 0, ran.output
    assert (block / "md0" / "md" / "linnos").read_text() == "on"


def test_a_recording_that_could_not_be_merged_is_ended(
    run: Run, block: Path, tmp_path: Path, recordings: Path, monkeypatch
) -> None:
    """Otherwise it would fill the file system and be lost in the end."""

    def record(_: object, directory: Path, **options: Any) -> None:
        directory.mkdir(parents=True)
        options["on_progress"](RecordingProgress(20.0, 10, 480, 0))
        options["on_progress"](RecordingProgress(40.0, 1 << 56, 48 << 56, 0))

    monkeypatch.setattr(enabling, "record", record)
    monkeypatch.setattr(enabling, "check_can_trace", lambda _: None)
    ran = run("enable", "md0")
    assert ran.exit_code == 1 and "are recorded after 40 s" in str(ran.exception)
    assert (block / "md0" / "md" / "linnos").read_text() == "off\n"
    assert not (tmp_path / "etc").exists() and not (tmp_path / "state").exists()


def test_only_one_command_changes_drives_at_a_time(
    run: Run, tmp_path: Path, recordings: Path
) -> None:
    (tmp_path / "state" / "enable").mkdir(parents=True)
    with (tmp_path / "state" / "enable" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for words in (["enable", "md0", "--recordings", recordings], ["disable"]):
            ran = run(*words)
            assert ran.exit_code == 1
            assert "another linnapp enable, disable, trial or recalibrate is at work" in str(
                ran.exception
            )


def test_invalid_configuration_stops_every_command(
    run: Run, tmp_path: Path, recordings: Path
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "drives.conf").write_text("[drive sda]\n")
    for words in (["enable", "md0", "--recordings", recordings], ["disable"], ["restore"]):
        ran = run(*words)
        assert ran.exit_code == 1
        assert "drives.conf:1: 'sda', expected a path" in str(ran.exception)
    assert Drive("sda").model_id is None


def test_a_drive_of_an_array_is_not_disabled_alone(
    run: Run, tmp_path: Path, recordings: Path
) -> None:
    assert run("enable", "md0", "--recordings", recordings).exit_code == 0
    ran = run("disable", "sda")
    assert ran.exit_code == 1
    assert f"is in {tmp_path}/by-id/md-uuid-0: linnapp disable" in str(ran.exception)
    assert Drive("sda").mode == "observe"


def test_models_of_an_array_that_had_the_name_before_stay(
    run: Run, block: Path, tmp_path: Path, recordings: Path
) -> None:
    assert run("enable", "md0", "--recordings", recordings).exit_code == 0
    # After a reboot, md numbers arrays in order of assembly.
    (block / "md0").rename(block / "md127")
    add_array(block, "md0", {"sdc": "in_sync"})
    (block.parent / "dev" / "md127").touch()
    (tmp_path / "by-id" / "md-uuid-0").unlink()
    for number, name in enumerate(("md127", "md0")):
        (tmp_path / "by-id" / f"md-uuid-{number}").symlink_to(block.parent / "dev" / name)
    ran = run("disable", "md0")
    assert ran.exit_code == 0, ran.output
    conf = load_conf(tmp_path / "etc" / "drives.conf")
    assert conf is not None
    models = [entry.model for entry in conf.drives.values()]
    assert [model is not None and model.exists() for model in models] == [True, True]
    assert run("disable", "md127").exit_code == 0
    assert not (tmp_path / "state").exists()


def test_disable_forgets_a_missing_drive(
    run: Run, block: Path, tmp_path: Path, recordings: Path
) -> None:
    assert run("enable", "md0", "--recordings", recordings).exit_code == 0
    (tmp_path / "by-id" / "wwn-sdb").unlink()
    shutil.rmtree(block / "md0" / "md" / "dev-sdb")
    ran = run("disable", "md0")
    assert ran.exit_code == 1
    assert "1 could not be switched off" in str(ran.exception)
    assert Drive("sda").mode == "off"
    assert not (tmp_path / "etc" / "drives.conf").exists()


def test_the_unit_is_enabled_and_disabled(
    run: Run, tmp_path: Path, recordings: Path, monkeypatch
) -> None:
    """Only where systemd runs, and only for the file that the unit reads."""
    conf = tmp_path / "linnapp" / "drives.conf"
    for module in (drives_conf, restore_unit):
        monkeypatch.setattr(module, "DEFAULT_CONF", conf)
    monkeypatch.setattr(restore_unit, "_SYSTEMD_RUNS", tmp_path)
    said: list[str] = []
    monkeypatch.setattr(
        restore_unit, "_systemctl", lambda *words: said.append(" ".join(words)) or ""
    )
    ran = run("enable", "md0", "--recordings", recordings, "--conf", conf)
    assert ran.exit_code == 0, ran.output
    assert said == ["enable linnapp-restore.service", "enable --now linnapp-keep.service"]
    assert run("disable", "--conf", conf).exit_code == 0
    assert said[2:] == [
        *("is-enabled linnapp-restore.service", "disable linnapp-restore.service"),
        *("is-enabled linnapp-keep.service", "disable --now linnapp-keep.service"),
    ]
    assert not conf.parent.exists()
    assert run("enable", "md0", "--recordings", recordings).exit_code == 0
    assert len(said) == 6


def test_progress_says_when_there_will_be_too_few_reads() -> None:
    seen = enabling.Seen(60, 900, {"sda": 600, "sdb": 60}, 1430, 0)
    assert command._too_few(seen) == "; at this rate --for 1430"
    assert command._too_few(enabling.Seen(60, 900, {"sda": 600, "sdb": 120}, 1430, 0)) == ""
    assert command._too_few(enabling.Seen(20, 900, {"sda": 1, "sdb": 1}, 1430, 0)) == ""


def test_the_default_length_is_the_library_s() -> None:
    [option] = [each for each in command.enable.params if each.name == "for_s"]
    assert option.default == enabling.DEFAULT_S


# -- restoring --


@pytest.fixture
def conf(block: Path, tmp_path: Path) -> DrivesConf:
    rng = np.random.default_rng(3)
    for name in ("sda", "sdb"):
        random_trees(rng).save(tmp_path / f"{name}.linnos")
    a, b = f"{tmp_path}/by-id/wwn-sda", f"{tmp_path}/by-id/wwn-sdb"
    return DrivesConf(
        {
            a: DriveEntry("observe", tmp_path / "sda.linnos", f"{tmp_path}/by-id/md-uuid-0"),
            b: DriveEntry("enforce", tmp_path / "sdb.linnos", f"{tmp_path}/by-id/md-uuid-0"),
        },
        {f"{tmp_path}/by-id/md-uuid-0": True},
    )


def test_restore_uploads_models_and_sets_modes(
    block: Path, conf: DrivesConf, tmp_path: Path, lines: list[str]
) -> None:
    assert restore(conf, log=lambda _: None) == []
    assert [Drive(name).mode for name in ("sda", "sdb")] == ["observe", "enforce"]
    for name in ("sda", "sdb"):
        assert Drive(name).model_id == LatencyModel.load(tmp_path / f"{name}.linnos").model_id
    assert (block / "md0" / "md" / "linnos").read_text() == "on"
    # The second run has nothing to do.
    done = len(lines)
    assert restore(conf, log=lambda _: None) == []
    assert len(lines) == done == 5


def test_each_drive_on_its_own(run: Run, block: Path, conf: DrivesConf, tmp_path: Path) -> None:
    (tmp_path / "sda.linnos").write_bytes(b"x")
    save_conf(tmp_path / "etc" / "drives.conf", conf)
    ran = run("restore")
    assert ran.exit_code == 1
    assert f"linnapp: {tmp_path}/by-id/wwn-sda: " in ran.output
    assert "1 of 3 are not as " in str(ran.exception)
    assert [Drive(name).mode for name in ("sda", "sdb")] == ["off", "enforce"]
    assert (block / "md0" / "md" / "linnos").read_text() == "on"
    (tmp_path / "by-id" / "wwn-sda").unlink()
    # A missing drive does not prevent mode enforce on the other.
    Drive("sdb").set_mode("off")
    [sda] = restore(conf, wait_s=0.3, log=lambda _: None)
    assert "wwn-sda" in sda
    assert Drive("sdb").mode == "enforce"


def nodes(block: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> str:
    """Create nodes with the kernel's names only; return the folder."""
    folder = tmp_path / "dev"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    shutil.rmtree(tmp_path / "by-id")
    (tmp_path / "by-id").mkdir()
    for module in (sysfs, stable_ids, enable_checks):
        monkeypatch.setattr(module, "node_of", lambda name: folder / name)
    return str(folder)


def known(block: Path, **serials: str) -> None:
    for name, serial in serials.items():
        (block / name / "serial").write_text(f"{serial}\n")
        (block / name / "size").write_text("2048\n")


def test_a_drive_that_has_another_name_is_found_again(
    run: Run, block: Path, conf: DrivesConf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two drives have swapped names, and md0 has another name."""
    dev = nodes(block, tmp_path, monkeypatch, "sda", "sdb", "md127")
    known(block, sda="A 1", sdb="B 1")
    (block / "md0").rename(block / "md127")
    (block / "md127" / "md" / "uuid").write_text("3AAA-1\n")
    a, b = (
        dataclasses.replace(entry, array=f"{dev}/md0", mode="observe", identity=said)
        for entry, said in zip(
            conf.drives.values(), ({"serial": "B 1"}, {"serial": "A 1"}), strict=True
        )
    )
    path = tmp_path / "etc" / "drives.conf"
    before = DrivesConf(
        {f"{dev}/sda": a, f"{dev}/sdb": b},
        {f"{dev}/md0": True},
        {f"{dev}/md0": {"uuid": "3aaa:1"}},
    )
    save_conf(path, before)
    ran = run("restore")
    assert ran.exit_code == 0, ran.output
    assert f"{dev}/sda is {dev}/sdb now" in ran.output
    assert f"{dev}/md0 is {dev}/md127 now" in ran.output
    ids = [LatencyModel.load(tmp_path / f"{name}.linnos").model_id for name in ("sda", "sdb")]
    assert [Drive(name).model_id for name in ("sdb", "sda")] == ids
    assert (block / "md127" / "md" / "linnos").read_text() == "on"
    after = load_conf(path)
    assert after is not None and after.drives[f"{dev}/sdb"].model == a.model
    assert after.drives[f"{dev}/sdb"].array == f"{dev}/md127"
    assert after.arrays == {f"{dev}/md127": True}
    ran = run("restore")
    assert ran.exit_code == 0 and "now" not in ran.output and load_conf(path) == after


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"serial": "C"}, "serial A, not C"),
        ({"wwid": "x", "product": "M", "sectors": "4096"}, "sectors 2048, not 4096"),
        ({"sectors": "4096"}, "sectors 2048, not 4096"),
    ],
)
def test_another_drive_of_the_same_name_gets_nothing(
    run: Run,
    block: Path,
    conf: DrivesConf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: dict[str, str],
    why: str,
) -> None:
    dev = nodes(block, tmp_path, monkeypatch, "sda")
    known(block, sda="A", sdb="B")
    [entry, _] = conf.drives.values()
    entry = dataclasses.replace(entry, array=None, identity=said)
    [failure] = restore(DrivesConf({f"{dev}/sda": entry}), log=lambda _: None)
    assert f"{dev}/sda is another device than the one that was enabled" in failure
    assert why in failure and "remove its section" in failure
    assert Drive("sda").model_id is None and Drive("sda").mode == "off"


@pytest.mark.parametrize("said", [{}, {"serial": "A", "sectors": "1"}, {"sectors": "2048"}])
def test_a_drive_that_is_known_by_less_or_by_nothing_is_restored(
    block: Path,
    conf: DrivesConf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: dict[str, str],
) -> None:
    """Older files have less or no identity of a drive; a drive that has grown is the same."""
    dev = nodes(block, tmp_path, monkeypatch, "sda")
    known(block, sda="A")
    [entry, _] = conf.drives.values()
    entry = dataclasses.replace(entry, array=None, identity=said)
    assert restore(DrivesConf({f"{dev}/sda": entry}), log=lambda _: None) == []
    assert Drive("sda").mode == "observe"


def test_names_with_white_space_in_them_are_restored(
    run: Run, block: Path, conf: DrivesConf, tmp_path: Path
) -> None:
    """mdadm makes such a link for --name="my array"; it is followed whatever its target."""
    array, drive = tmp_path / "md" / "my array [x]", tmp_path / "md" / "a drive"
    array.parent.mkdir()
    array.symlink_to(block.parent / "dev" / "md0")
    drive.symlink_to(block.parent / "dev" / "sda")
    [entry, _] = conf.drives.values()
    entry = dataclasses.replace(entry, array=str(array))
    save_conf(tmp_path / "etc" / "drives.conf", DrivesConf({str(drive): entry}, {str(array): True}))
    ran = run("restore")
    assert ran.exit_code == 0, ran.output
    assert Drive("sda").mode == "observe"
    assert (block / "md0" / "md" / "linnos").read_text() == "on"
    array.unlink()
    ran = run("restore")
    assert f"linnapp: {array}: No such file or directory" in ran.stderr


def test_two_drives_with_one_serial_number_are_not_chosen_from(
    block: Path, conf: DrivesConf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = nodes(block, tmp_path, monkeypatch, "sda", "sdb")
    known(block, sda="A", sdb="A")
    [entry, _] = conf.drives.values()
    entry = dataclasses.replace(entry, array=None, identity={"serial": "A"})
    [failure] = restore(DrivesConf({f"{dev}/sdx": entry}), log=lambda _: None)
    assert "sda and sdb have the same serial; none is taken" in failure


@pytest.mark.parametrize("has_serial", [True, False])
def test_enable_warns_of_names_that_do_not_stay_and_records_what_a_drive_is_known_by(
    run: Run, block: Path, tmp_path: Path, recordings: Path, has_serial: bool
) -> None:
    for link in (tmp_path / "by-id").iterdir():
        link.unlink()
    for name in ("sda", "sdb"):
        (block / name / "size").write_text("2048\n")
        if has_serial:
            known(block, **{name: f"{name} 1"})
    (block / "md0" / "md" / "uuid").write_text("1-2-3-4\n")
    dry = run("enable", "md0", "--recordings", recordings, "--dry-run")
    assert "drives.conf: /dev/sda, /dev/sdb, /dev/md0\n" in dry.output
    for name in ("sda", "sdb", "md0"):
        assert f"warning: {name} has no name that stays the same" in dry.output
    assert ("by its serial" if has_serial else "neither a WWID nor a serial number") in dry.output
    ran = run("enable", "md0", "--recordings", recordings)
    assert ran.exit_code == 0, ran.output
    assert "warning: sda has no name that stays the same" in ran.output
    conf = load_conf(tmp_path / "etc" / "drives.conf")
    assert conf is not None
    said = {"serial": "sda 1"} if has_serial else {}
    assert conf.drives["/dev/sda"].identity == {**said, "sectors": "2048"}
    assert conf.array_identities == {"/dev/md0": {"uuid": "1:2:3:4"}}


def test_restore_without_a_configuration_is_an_error(run: Run) -> None:
    ran = run("restore")
    assert ran.exit_code == 1
    assert "no such file; `linnapp enable` writes it" in str(ran.exception)


def test_journal_names_the_command_and_the_login_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    login = tmp_path / "loginuid"
    monkeypatch.setattr(journal, "_LOGIN", login)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    journal.note("sda: x")
    login.write_text(str(2**32 - 1))
    journal.note("sda: x")
    login.write_text("0")
    journal.note("sda: x")
    login.write_text("4242424")
    monkeypatch.setattr("sys.argv", ["linnapp", "--version"])
    journal.note("sda: x")
    assert lines == ["sda: x (linnapp enable, by root)"] * 3 + [
        "sda: x (linnapp, by root, logged in as uid 4242424)"
    ]
