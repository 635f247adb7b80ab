# SPDX-License-Identifier: MIT
"""`linnapp enable`, `restore` and `disable` on plain files in place of sysfs.

tests/lab/test_enable.py uses the real kernel.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_sysfs import FakeSysfs
from test_latency_model import random_trees

from linnapp.commands import enable as command
from linnapp.drive import checks, drives_conf, enabling, journal, recalibration, stable_ids, units
from linnapp.drive.checks import check, find_target
from linnapp.drive.deployment import restore
from linnapp.drive.drives_conf import ArrayEntry, DriveEntry, DrivesConf, load_conf, save_conf
from linnapp.drive.recording import RecordingProgress
from linnapp.drive.stable_ids import stable_id
from linnapp.drive.sysfs import Drive
from linnapp.errors import DeviceError, LinnappError
from linnapp.model import LatencyModel

Run = Callable[..., Any]

RECORD = {
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
    monkeypatch.setattr(enabling, "check_can_trace", lambda _: None)
    return make_recordings(tmp_path / "recordings")


def make_recordings(directory: Path, **of_sdb: Any) -> Path:
    directory.mkdir(parents=True)
    (directory / "sda.blk").write_text(json.dumps(RECORD))
    (directory / "sdb.blk").write_text(json.dumps({**RECORD, **of_sdb}))
    return directory


def refused(target: list[str], says: str, conf: DrivesConf | None = None) -> None:
    with pytest.raises(LinnappError, match=says):
        check(find_target(target), conf or DrivesConf())


def has_no_files(sysfs: FakeSysfs) -> bool:
    """True if linnapp has left no file behind."""
    left = [path for path in (sysfs.conf, sysfs.state) if path.exists()]
    return left + [p for p in sysfs.tmp_path.glob("run/*")] == []


# -- targets --


def test_find_target_returns_the_drives_of_an_array(sysfs: FakeSysfs) -> None:
    found = find_target(["md0"])
    assert (found.array, found.drives, found.arguments) == ("md0", ("sda", "sdb"), "/dev/md0")
    check(found, DrivesConf())
    assert find_target(["sdb", "sda1"]).drives == ("sdb", "sda")
    # Drives that md does not read from are not set up.
    sysfs.add_disk("sdd")
    sysfs.add_array("md1", {"sda": "in_sync", "sdb": "in_sync,write_mostly", "sdd": "spare"})
    assert find_target(["md1"]).drives == ("sda",)


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("linnos", "n/a", "md0: this md does not ask LinnOS"),
        ("linnos", None, "md0: this md does not ask LinnOS"),
        ("linnos", "on", "md0 already queries LinnOS, .*linnapp disable /dev/md0"),
    ],
)
def test_arrays_that_cannot_query_linnos_are_refused(
    sysfs: FakeSysfs, file: str, text: str | None, says: str
) -> None:
    path = sysfs.block / "md0" / "md" / file
    path.unlink()
    if text is not None:
        path.write_text(f"{text}\n")
    refused(["md0"], says)


def test_arrays_without_two_drives_are_refused(sysfs: FakeSysfs) -> None:
    sysfs.add_array("md127", {"sda": "in_sync", "sdb": "in_sync"}, level="")
    (sysfs.block / "md127" / "md" / "metadata_version").write_text("external:imsm\n")
    refused(["md127"], "md127 has external metadata")
    sysfs.add_array("md1", {"sda1": "in_sync", "sda": "in_sync"})
    refused(["md1"], "md1: two of its mirrors are on the same drive, sda")
    sysfs.add_array("md2", {"sda1": "in_sync", "sdb": "write_mostly"})
    refused(["md2"], "md2: a single drive to read from")
    refused(["md0", "sda"], "md0 is an md array: name one array, or drives")


def test_unsuitable_drives_are_refused(sysfs: FakeSysfs) -> None:
    block = sysfs.block
    refused(["sda"], "sda: a single drive to read from")
    refused(["sda", "sda1"], "sda1: sda is named twice")
    refused(["sda", "sdz"], "sdz: no such disk")
    refused(["sda", "sdc"], "sdc: .*this kernel lacks the LinnOS patch")
    sysfs.add_disk("loop0")
    refused(["sda", "loop0"], "loop0 is not a drive that serves requests itself")
    (block / "dm-0" / "dm").mkdir(parents=True)
    refused(
        ["sda", "dm-0"], r"dm-0 is a device-mapper volume \(dm-crypt, LVM\).*name the disks below"
    )
    # LVM on dm-crypt on the array.
    for upper, lower in (("dm-1", "dm-0"), ("dm-0", "md0")):
        (block / upper / "dm").mkdir(parents=True, exist_ok=True)
        (block / upper / "slaves").mkdir()
        (block / upper / "slaves" / lower).symlink_to(block / lower)
    refused(["dm-1"], "dm-1 is a volume on md0: name /dev/md0")
    (block / "drbd0").mkdir()
    refused(["sda", "drbd0"], "drbd0 is a DRBD device")
    (block / "sdb" / "queue" / "rotational").write_text("1\n")
    refused(["sda", "sdb"], "sdb reports that it rotates")
    (block / "sdb" / "queue" / "rotational").write_text("0\n")
    (block / "sdb" / "linnos" / "mode").write_text("observe\n")
    refused(["sda", "sdb"], "sdb is already in mode observe, .*linnapp disable /dev/sda /dev/sdb")
    conf = DrivesConf({sysfs.name_of("sdb"): DriveEntry("observe", Path("/m"))})
    check(find_target(["sda", "sdb"]), conf)
    (block / "sdb" / "linnos" / "model_kind").unlink()
    refused(["sda", "sdb"], "sdb: latency models are trained, which this kernel", conf)


def test_enable_requires_root_and_disk_space(
    sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "LEAST_FREE_BYTES", 1 << 62)
    refused(["md0"], "MiB are free")
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as on a read-only file system
    refused(["md0"], "not writable; .* LINNAPP_STATE")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    refused(["md0"], "need root")


def test_drives_are_identified_by_their_most_stable_name(sysfs: FakeSysfs) -> None:
    for name in ("ata-X_1", "scsi-1", "wwn-0x5", "wwn-0x5-part1"):
        target = "sdq1" if "part" in name else "sdq"
        (sysfs.by_id / name).symlink_to(f"../../{target}")
    assert stable_id("sdq") == f"{sysfs.by_id}/wwn-0x5"
    assert stable_id("sdr") is None


# -- enable and disable --


def test_enable_and_disable_restore_the_initial_state(
    run: Run, sysfs: FakeSysfs, recordings: Path, lines: list[str]
) -> None:
    dry = run("enable", "md0", "--recordings", recordings, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "would upload sda's model, mode observe\n" in dry.output
    assert "would echo on >/sys/block/md0/md/linnos\n" in dry.output
    assert has_no_files(sysfs) and not lines and not sysfs.writes

    for time in ("first", "again"):
        ran = run("enable", "md0", "--recordings", recordings)
        assert ran.exit_code == 0, ran.output
        conf = load_conf(sysfs.conf)
        assert conf.arrays == {sysfs.name_of("md0"): ArrayEntry(True)}
        assert sysfs.settings() == ["on", "observe", "observe"]
        for name in ("sda", "sdb"):
            entry = conf.drives[sysfs.name_of(name)]
            assert (entry.mode, entry.array) == ("observe", sysfs.name_of("md0"))
            assert entry.model is not None
            assert LatencyModel.load(entry.model).model_id == Drive(name).model_id
        # One set of models, after any number of runs.
        assert len(list((sysfs.state / "enable" / "md0").iterdir())) == 1, time
        assert (recordings / "sda.blk").exists()
    assert sum("mode off -> observe (linnapp enable, by root" in line for line in lines) == 2
    assert sum("sda: model none -> " in line for line in lines) == 1
    assert [line.split(" (")[0] for line in lines if "md0" in line] == ["md0: linnos off -> on"]

    ran = run("disable")
    assert ran.exit_code == 0, ran.output
    assert sysfs.settings() == ["off"] * 3 and has_no_files(sysfs)
    before = len(lines)
    for words in (["disable"], ["disable", "md0"]):
        ran = run(*words)
        assert ran.exit_code == 0, ran.output
        assert ("nothing is enabled: " in ran.output) == (words == ["disable"])
    assert len(lines) == before and has_no_files(sysfs)


def test_module_observes_drives_until_they_are_disabled(
    run: Run, sysfs: FakeSysfs, recordings: Path, lines: list[str]
) -> None:
    sysfs.module.mkdir(parents=True)
    (recordings / "sdb.blk").rename(recordings / "sdc.blk")
    words = ("enable", "sda", "sdc", "--recordings", recordings)
    dry = run(*words, "--dry-run")
    assert "would let the module linnos observe sdc\n" in dry.output
    ran = run(*words)
    assert ran.exit_code == 0, ran.output
    drive = Drive("sdc")
    assert (drive.observer, drive.mode) == ("module", "observe")
    assert run("disable", "sda", "sdc").exit_code == 0
    assert (sysfs.module / "remove").read_text() == "sdc"
    assert [line.split(" (")[0] for line in lines if "sdc" in line and "model " not in line] == [
        "sdc: is observed by the module linnos",
        "sdc: mode off -> observe",
        "sdc: mode observe -> off",
        "sdc: is no longer observed by the module linnos",
    ]


def test_enable_saves_the_previous_model(run: Run, sysfs: FakeSysfs, recordings: Path) -> None:
    old = random_trees(np.random.default_rng(7))
    Drive("sda").upload(old)
    for _ in range(2):
        assert run("enable", "md0", "--recordings", recordings).exit_code == 0
    assert run("disable", "md0").exit_code == 0
    assert LatencyModel.load(sysfs.state / "sda" / "previous.linnos") == old
    assert [path.name for path in sysfs.state.iterdir()] == ["sda"]


def test_enable_refuses_models_without_a_gain(
    run: Run, sysfs: FakeSysfs, tmp_path: Path, recordings: Path
) -> None:
    ran = run("enable", "md0", "--recordings", make_recordings(tmp_path / "r", auc=0.4))
    assert ran.exit_code == 1
    assert "md0 is not changed. sdb: its model " in str(ran.exception)
    assert sysfs.settings() == ["off"] * 3 and Drive("sda").model_id is None
    assert has_no_files(sysfs)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({}, ""),
        ({"auc": 0.8}, ""),  # no better than the last latencies, which choose nothing
        ({"auc": 0.75, "auc_pending": 0.76}, "ROC is 0.750, that of the number of pending pages"),
        ({"auc": 0.4, "auc_pending": 0.3, "auc_last_latencies": 0.3}, "chance 0.500"),
        ({"auc": None}, ""),
        ({"auc": None, "mean_abs_log2_error": 1.0}, "error is a factor of 2.00"),
    ],
)
def test_why_not_names_the_weakness_of_a_model(changed: dict[str, Any], says: str) -> None:
    why = enabling.why_not({**RECORD, **changed})
    assert bool(why) == bool(says)
    assert re.search(says, why)


# -- failures and kills at each write --


def everything(sysfs: FakeSysfs) -> dict[str, bytes]:
    """Return the settings of the kernel, and drives.conf with the models that it names."""
    paths = [p for name in ("sda", "sdb") for p in (sysfs.block / name / "linnos").glob("mo*")]
    paths += [sysfs.block / "md0" / "md" / "linnos", sysfs.conf]
    paths += load_conf(sysfs.conf).models
    return {str(path): path.read_bytes().strip() for path in paths if path.exists()}


@pytest.mark.parametrize("is_enabled", [False, True])
@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_enable_undoes_everything_when_a_write_fails(
    run: Run, sysfs: FakeSysfs, recordings: Path, is_enabled: bool, error: type[BaseException]
) -> None:
    """Let each write in turn fail: of models, modes, the array's state and drives.conf."""
    words = ("enable", "md0", "--recordings", recordings)
    if is_enabled:
        assert run(*words).exit_code == 0
    before = everything(sysfs)
    for number in range(1, 100):
        sysfs.fail_at(number, error)
        ran = run(*words)
        last = sysfs.writes[number - 1] if len(sysfs.writes) >= number else None
        sysfs.fail_never()
        if last is None:
            break
        if ran.exit_code == 0:
            # The benefit is then not measured from the start, which is no reason to fail.
            assert last == "block/md0/md/linnos" and is_enabled
            before = everything(sysfs)
            continue
        after = everything(sysfs)
        if not is_enabled:
            # A patched kernel keeps a model that it has; the mode is off.
            for path in (p for p in after if "/model" in p and "linnos/" in p):
                before[path] = after[path]
        assert after == before, last
        assert not list(sysfs.tmp_path.glob("run/*"))
    assert number == (8 if is_enabled else 6)
    assert sysfs.settings() == ["on", "observe", "observe"]


def killed_at(number: int, sysfs: FakeSysfs, act: Callable[[], Any]) -> bool:
    """Run `act` in a child process that is killed before a write; return true if it was."""
    child = os.fork()
    if child == 0:
        try:
            sysfs.fail(lambda _, n: os._exit(9) if n == number else None)  # type: ignore[func-returns-value]
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("is_enabled", [False, True])
@pytest.mark.parametrize("command", ["enable", "disable"])
def test_command_that_was_killed_can_be_completed_and_undone(
    run: Run, sysfs: FakeSysfs, recordings: Path, is_enabled: bool, command: str
) -> None:
    """It is killed before each of its writes. Drives never have a setting that no file names."""
    words = {"enable": ["enable", "md0", "--recordings", recordings], "disable": ["disable"]}
    for number in range(1, 100):
        if is_enabled or command == "disable":
            assert run(*words["enable"]).exit_code == 0
        was_killed = killed_at(number, sysfs, lambda: run(*words[command]))
        conf = load_conf(sysfs.conf)
        assert all(model.exists() for model in conf.models)
        if not conf.is_empty:
            ran = run("restore")
            assert ran.exit_code == 0, ran.output
            assert sysfs.settings() == ["on", "observe", "observe"]
            for name, entry in conf.drives.items():
                assert LatencyModel.load(entry.model).model_id == Drive(name).model_id
        # A second try succeeds, and nothing is left afterwards.
        assert run(*words["enable"]).exit_code == 0
        assert run("disable").exit_code == 0
        assert sysfs.settings() == ["off"] * 3 and not sysfs.conf.exists()
        left = [path.name for path in sysfs.state.rglob("*") if path.is_file()]
        # A patched kernel keeps models, which are then the previous ones.
        assert set(left) <= {"previous.linnos"}
        if not was_killed:
            break
    assert number > 3


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_of_commands_kills_and_reboots_keeps_drives_and_file_consistent(
    run: Run, sysfs: FakeSysfs, recordings: Path, seed: int
) -> None:
    """After each step `restore` succeeds, and the kernel then has the settings of drives.conf."""
    rng = np.random.default_rng(seed)
    commands = {
        "enable": ["enable", "md0", "--recordings", recordings],
        "disable": ["disable"],
        "restore": ["restore"],
    }
    for _ in range(8):
        step = str(rng.choice(["command", "kill", "reboot", "by hand"], p=[0.4, 0.35, 0.15, 0.1]))
        words = commands[str(rng.choice(list(commands), p=[0.6, 0.2, 0.2]))]
        was_empty = load_conf(sysfs.conf).is_empty
        if step == "kill":
            killed_at(int(rng.integers(1, 9)), sysfs, lambda words=words: run(*words))
        elif step == "reboot":
            sysfs.reboot()
        elif step == "by hand" and not was_empty:
            Drive("sda").set_mode("off")
        elif step == "command":
            ran = run(*words)
            assert ran.exit_code == (words == ["restore"] and was_empty), ran.output
        conf = load_conf(sysfs.conf)
        assert len(conf.drives) in (0, 2) and len(conf.arrays) == len(conf.drives) // 2
        if conf.is_empty:
            assert sysfs.settings() == ["off"] * 3
            continue
        ran = run("restore")
        assert ran.exit_code == 0, ran.output
        assert sysfs.settings() == ["on", "observe", "observe"]
        active = [Drive(name).model_id for name in ("sda", "sdb")]
        assert active == [LatencyModel.load(path).model_id for path in conf.models]
    assert run("disable").exit_code == 0
    assert sysfs.settings() == ["off"] * 3 and not list((sysfs.state).glob("enable/*"))


@pytest.mark.parametrize("end", [None, KeyboardInterrupt, DeviceError])
def test_settings_are_off_while_an_enabled_array_is_recorded(
    run: Run, sysfs: FakeSysfs, recordings: Path, monkeypatch: pytest.MonkeyPatch, end: Any
) -> None:
    """A recording would otherwise lack the reads that md redirects or drives refuse."""
    assert run("enable", "md0", "--recordings", recordings).exit_code == 0
    sysfs.conf.write_text(sysfs.conf.read_text().replace("observe", "enforce", 1))
    Drive("sda").set_mode("enforce")
    seen = []

    def record(_: object, directory: Path, **__: object) -> tuple[list[object], int]:
        seen.append(sysfs.settings())
        if end is not None:
            raise end("enough")
        make_recordings(directory)
        (sysfs.block / "sda" / "stat").write_text("  6 0 0 0 0 0 0 0 0 0 0\n")
        return [], 0

    monkeypatch.setattr(enabling, "record", record)
    train = enabling.train_array

    def train_as_before(*arguments: Any, **options: Any) -> list[str]:
        seen.append(sysfs.settings())
        return train(*arguments, **options)

    monkeypatch.setattr(enabling, "train_array", train_as_before)
    ran = run("enable", "md0")
    assert (ran.exit_code == 0) == (end is None), ran.output
    before = ["on", "enforce", "observe"]
    assert seen == [["off", "observe", "observe"], before][: 1 + (end is None)]
    assert sysfs.settings() == ["on", "observe" if end is None else "enforce", "observe"]


def test_ctrl_c_keeps_the_recording(
    run: Run, sysfs: FakeSysfs, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(_: object, directory: Path, **options: Any) -> None:
        make_recordings(directory)
        options["on_interrupted"]()

    monkeypatch.setattr(enabling, "record", record)
    ran = run("enable", "md0")
    assert ran.exit_code
    kept = re.search(r"nothing is changed; .*: linnapp (enable .*)\n", ran.output)
    assert kept and not sysfs.conf.exists() and sysfs.settings() == ["off"] * 3
    ran = run(*kept[1].replace("/dev/md0", "md0").split())
    assert ran.exit_code == 0, ran.output
    assert sysfs.settings()[0] == "on"


def test_recording_ends_when_it_could_not_be_merged(
    run: Run, sysfs: FakeSysfs, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would fill the file system and be lost in the end."""

    def record(_: object, directory: Path, **options: Any) -> None:
        directory.mkdir(parents=True)
        options["on_progress"](RecordingProgress(20.0, 10, 480, 0))
        options["on_progress"](RecordingProgress(40.0, 1 << 56, 48 << 56, 0))

    monkeypatch.setattr(enabling, "record", record)
    ran = run("enable", "md0")
    assert ran.exit_code == 1 and "are recorded after 40 s" in str(ran.exception)
    assert sysfs.settings() == ["off"] * 3 and has_no_files(sysfs)


def test_only_one_command_changes_drives_at_a_time(
    run: Run, sysfs: FakeSysfs, recordings: Path
) -> None:
    (sysfs.state / "enable").mkdir(parents=True)
    with (sysfs.state / "enable" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for words in (["enable", "md0", "--recordings", recordings], ["disable"]):
            ran = run(*words)
            assert ran.exit_code == 1
            assert "another linnapp enable, disable, trial or recalibrate is running" in str(
                ran.exception
            )


def test_invalid_configuration_stops_every_command(
    run: Run, sysfs: FakeSysfs, recordings: Path
) -> None:
    sysfs.conf.parent.mkdir()
    sysfs.conf.write_text("[drive sda]\n")
    for words in (["enable", "md0", "--recordings", recordings], ["disable"], ["restore"]):
        ran = run(*words)
        assert ran.exit_code == 1
        assert "drives.conf:1: 'sda', expected a path" in str(ran.exception)
    assert Drive("sda").model_id is None


def test_disable_refuses_a_single_drive_of_an_array(
    run: Run, sysfs: FakeSysfs, recordings: Path
) -> None:
    assert run("enable", "md0", "--recordings", recordings).exit_code == 0
    ran = run("disable", "sda")
    assert ran.exit_code == 1
    assert f"is in {sysfs.name_of('md0')}: linnapp disable" in str(ran.exception)
    assert Drive("sda").mode == "observe"


def test_disable_keeps_models_of_another_array_that_had_the_name(
    run: Run, sysfs: FakeSysfs, recordings: Path
) -> None:
    assert run("enable", "md0", "--recordings", recordings).exit_code == 0
    # After a reboot, md numbers arrays in order of assembly.
    (sysfs.block / "md0").rename(sysfs.block / "md127")
    sysfs.add_array("md0", {"sdc": "in_sync"})
    (sysfs.by_id / "md-uuid-0").unlink()
    for number, name in enumerate(("md127", "md0")):
        sysfs.add_link(f"md-uuid-{number}", name)
    ran = run("disable", "md0")
    assert ran.exit_code == 0, ran.output
    models = load_conf(sysfs.conf).models
    assert [model.exists() for model in models] == [True, True]
    assert run("disable", "md127").exit_code == 0
    assert has_no_files(sysfs)


def test_disable_removes_the_entry_of_a_missing_drive(
    run: Run, sysfs: FakeSysfs, recordings: Path
) -> None:
    assert run("enable", "md0", "--recordings", recordings).exit_code == 0
    (sysfs.by_id / "wwn-sdb").unlink()
    shutil.rmtree(sysfs.block / "md0" / "md" / "dev-sdb")
    ran = run("disable", "md0")
    assert ran.exit_code == 1
    assert "1 could not be switched off" in str(ran.exception)
    assert Drive("sda").mode == "off" and not sysfs.conf.exists()


def test_units_are_enabled_and_disabled_where_systemd_runs(
    run: Run, tmp_path: Path, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only for the file that the units read."""
    conf = tmp_path / "linnapp" / "drives.conf"
    for module in (drives_conf, units):
        monkeypatch.setattr(module, "DEFAULT_CONF", conf)
    monkeypatch.setattr(units, "_SYSTEMD_RUNS", tmp_path)
    calls: list[str] = []
    monkeypatch.setattr(units, "_systemctl", lambda *words: calls.append(" ".join(words)) or "")
    ran = run("enable", "md0", "--recordings", recordings, "--conf", conf)
    assert ran.exit_code == 0, ran.output
    assert calls == ["enable linnapp-restore.service", "enable --now linnapp-keep.service"]
    assert run("disable", "--conf", conf).exit_code == 0
    assert calls[2:] == [
        *("is-enabled linnapp-restore.service", "disable linnapp-restore.service"),
        *("is-enabled linnapp-keep.service", "disable --now linnapp-keep.service"),
    ]
    assert not conf.parent.exists()
    assert run("enable", "md0", "--recordings", recordings).exit_code == 0
    assert len(calls) == 6


@pytest.mark.parametrize(
    ("seconds", "fewest", "shown"),
    [(60, 60, "; at this rate --for 1430"), (60, 120, ""), (20, 1, ""), (60, 0, "")],
)
def test_progress_shows_when_there_will_be_too_few_reads(
    seconds: int, fewest: int, shown: str
) -> None:
    progress = enabling.Progress(seconds, 900, {"sda": 600, "sdb": fewest}, 1430, 0)
    assert command._describe_shortage(progress) == shown


# -- restore --


@pytest.fixture
def conf(sysfs: FakeSysfs, tmp_path: Path) -> DrivesConf:
    """Save and return a configuration of both drives and the array."""
    rng = np.random.default_rng(3)
    drives = {}
    for name, mode in (("sda", "observe"), ("sdb", "enforce")):
        path = tmp_path / f"{name}.linnos"
        random_trees(rng).save(path)
        drives[sysfs.name_of(name)] = DriveEntry(mode, path, sysfs.name_of("md0"))
    found = DrivesConf(drives, {sysfs.name_of("md0"): ArrayEntry(True)})
    save_conf(sysfs.conf, found)
    return found


def restore_all(conf: DrivesConf, sysfs: FakeSysfs, wait_s: float = 0.0) -> list[str]:
    save_conf(sysfs.conf, conf)
    return restore(sysfs.conf, wait_s=wait_s, log=lambda _: None)


def test_restore_writes_settings_once(
    sysfs: FakeSysfs, conf: DrivesConf, tmp_path: Path, lines: list[str]
) -> None:
    for _ in range(2):
        assert restore_all(conf, sysfs) == []
        assert sysfs.settings() == ["on", "observe", "enforce"]
        for name in ("sda", "sdb"):
            assert Drive(name).model_id == LatencyModel.load(tmp_path / f"{name}.linnos").model_id
        assert len(lines) == 5  # The second run has nothing to do.


def test_restore_treats_each_drive_independently(
    run: Run, sysfs: FakeSysfs, conf: DrivesConf, tmp_path: Path
) -> None:
    (tmp_path / "sda.linnos").write_bytes(b"x")
    ran = run("restore")
    assert ran.exit_code == 1
    assert f"linnapp: {sysfs.name_of('sda')}: " in ran.output
    assert f"1 drives or arrays are not as in {sysfs.conf}" in str(ran.exception)
    assert sysfs.settings() == ["on", "off", "enforce"]
    (sysfs.by_id / "wwn-sda").unlink()
    # A missing drive does not prevent mode enforce on the other.
    Drive("sdb").set_mode("off")
    [failure] = restore_all(conf, sysfs, wait_s=0.3)
    assert "wwn-sda" in failure
    assert Drive("sdb").mode == "enforce"


def nodes(sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch, *names: str) -> str:
    """Create nodes with the kernel's names only; return the folder."""
    folder = sysfs.tmp_path / "dev"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    shutil.rmtree(sysfs.by_id)
    sysfs.by_id.mkdir()
    for module in (stable_ids, checks):
        monkeypatch.setattr(module, "node_of", lambda name: folder / name)
    return str(folder)


def report(sysfs: FakeSysfs, **serials: str) -> None:
    for name, serial in serials.items():
        (sysfs.block / name / "serial").write_text(f"{serial}\n")
        (sysfs.block / name / "size").write_text("2048\n")


def test_restore_finds_drives_that_have_other_names(
    run: Run, sysfs: FakeSysfs, conf: DrivesConf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two drives have swapped names, and md0 has another name."""
    dev = nodes(sysfs, monkeypatch, "sda", "sdb", "md127")
    report(sysfs, sda="A 1", sdb="B 1")
    (sysfs.block / "md0").rename(sysfs.block / "md127")
    (sysfs.block / "md127" / "md" / "uuid").write_text("3AAA-1\n")
    a, b = (
        dataclasses.replace(entry, array=f"{dev}/md0", mode="observe", identity={"serial": serial})
        for entry, serial in zip(conf.drives.values(), ("B 1", "A 1"), strict=True)
    )
    before = DrivesConf(
        {f"{dev}/sda": a, f"{dev}/sdb": b}, {f"{dev}/md0": ArrayEntry(True, {"uuid": "3aaa:1"})}
    )
    save_conf(sysfs.conf, before)
    ran = run("restore")
    assert ran.exit_code == 0, ran.output
    assert f"{dev}/sda is {dev}/sdb now" in ran.output
    assert f"{dev}/md0 is {dev}/md127 now" in ran.output
    ids = [LatencyModel.load(tmp_path / f"{name}.linnos").model_id for name in ("sda", "sdb")]
    assert [Drive(name).model_id for name in ("sdb", "sda")] == ids
    assert (sysfs.block / "md127" / "md" / "linnos").read_text() == "on"
    after = load_conf(sysfs.conf)
    assert after.drives[f"{dev}/sdb"] == dataclasses.replace(a, array=f"{dev}/md127")
    assert list(after.arrays) == [f"{dev}/md127"]
    ran = run("restore")
    assert ran.exit_code == 0 and "now" not in ran.output and load_conf(sysfs.conf) == after


@pytest.mark.parametrize(
    ("identity", "why"),
    [
        ({"serial": "C"}, "serial A, not C"),
        ({"wwid": "x", "product": "M", "sectors": "4096"}, "sectors 2048, not 4096"),
        ({"sectors": "4096"}, "sectors 2048, not 4096"),
        # Older files have less or no identity of a drive; a drive that has grown is the same.
        ({}, ""),
        ({"serial": "A", "sectors": "1"}, ""),
        ({"sectors": "2048"}, ""),
    ],
)
def test_restore_recognises_a_drive_by_what_is_recorded_of_it(
    sysfs: FakeSysfs,
    conf: DrivesConf,
    monkeypatch: pytest.MonkeyPatch,
    identity: dict[str, str],
    why: str,
) -> None:
    dev = nodes(sysfs, monkeypatch, "sda")
    report(sysfs, sda="A", sdb="B")
    [entry, _] = conf.drives.values()
    entry = dataclasses.replace(entry, array=None, identity=identity)
    failures = restore_all(DrivesConf({f"{dev}/sda": entry}), sysfs)
    if not why:
        assert failures == [] and Drive("sda").mode == "observe"
        return
    [failure] = failures
    assert f"{dev}/sda is another device than the one that was enabled" in failure
    assert why in failure and "remove its section" in failure
    assert Drive("sda").model_id is None and Drive("sda").mode == "off"


def test_restore_follows_links_with_white_space_in_their_names(
    run: Run, sysfs: FakeSysfs, conf: DrivesConf, tmp_path: Path
) -> None:
    """mdadm makes such a link for --name="my array"; it is followed whatever its target."""
    array, drive = tmp_path / "md" / "my array [x]", tmp_path / "md" / "a drive"
    array.parent.mkdir()
    array.symlink_to(sysfs.root / "dev" / "md0")
    drive.symlink_to(sysfs.root / "dev" / "sda")
    [entry, _] = conf.drives.values()
    entry = dataclasses.replace(entry, array=str(array))
    save_conf(sysfs.conf, DrivesConf({str(drive): entry}, {str(array): ArrayEntry(True)}))
    ran = run("restore")
    assert ran.exit_code == 0, ran.output
    assert sysfs.settings()[:2] == ["on", "observe"]
    array.unlink()
    ran = run("restore")
    assert f"linnapp: {array}: No such file or directory" in ran.stderr


def test_restore_does_not_choose_between_equal_serial_numbers(
    sysfs: FakeSysfs, conf: DrivesConf, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = nodes(sysfs, monkeypatch, "sda", "sdb")
    report(sysfs, sda="A", sdb="A")
    [entry, _] = conf.drives.values()
    entry = dataclasses.replace(entry, array=None, identity={"serial": "A"})
    [failure] = restore_all(DrivesConf({f"{dev}/sdx": entry}), sysfs)
    assert "sda and sdb have the same serial; none is taken" in failure


@pytest.mark.parametrize("has_serial", [True, False])
def test_enable_warns_of_names_that_can_change_and_records_identities(
    run: Run, sysfs: FakeSysfs, recordings: Path, has_serial: bool
) -> None:
    for link in sysfs.by_id.iterdir():
        link.unlink()
    for name in ("sda", "sdb"):
        (sysfs.block / name / "size").write_text("2048\n")
        if has_serial:
            report(sysfs, **{name: f"{name} 1"})
    (sysfs.block / "md0" / "md" / "uuid").write_text("1-2-3-4\n")
    dry = run("enable", "md0", "--recordings", recordings, "--dry-run")
    assert "drives.conf: /dev/sda, /dev/sdb, /dev/md0\n" in dry.output
    for name in ("sda", "sdb", "md0"):
        assert f"warning: {name} has no stable name" in dry.output
    assert ("by its serial" if has_serial else "neither a WWID nor a serial number") in dry.output


def test_restore_without_a_configuration_is_an_error(run: Run, sysfs: FakeSysfs) -> None:
    for text, why in ((None, "no such file"), ("# empty\n", "names no drive and no array")):
        if text is not None:
            sysfs.conf.parent.mkdir()
            sysfs.conf.write_text(text)
        ran = run("restore")
        assert ran.exit_code == 1
        assert f"{why}; `linnapp enable` writes it" in str(ran.exception)


def test_journal_names_the_command_and_the_login_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    login = tmp_path / "loginuid"
    monkeypatch.setattr(journal, "_LOGIN", login)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    for text in (None, str(2**32 - 1), "0", "4242424"):
        if text is not None:
            login.write_text(text)
        if text == "4242424":
            monkeypatch.setattr("sys.argv", ["linnapp", "--version"])
        journal.note("sda: x")
    assert lines == ["sda: x (linnapp enable, by root)"] * 3 + [
        "sda: x (linnapp, by root, logged in as uid 4242424)"
    ]


# -- recalibrate --


@pytest.mark.parametrize("is_refused", [False, True])
def test_drives_conf_and_drive_agree_after_an_upload_that_fails_or_is_killed(
    run: Run, sysfs: FakeSysfs, conf: DrivesConf, tmp_path: Path, is_refused: bool
) -> None:
    """A new model is in drives.conf before the drive has it."""
    assert run("restore").exit_code == 0
    new = random_trees(9)
    new.save(tmp_path / "sda-new.linnos")

    def upload() -> None:
        step = recalibration._DriveRun(Drive("sda"), None, None, None)  # type: ignore[arg-type]
        recalibration._upload(step, tmp_path / "sda-new.linnos", sysfs.conf, print)

    if is_refused:
        sysfs.fail_at(1)
        with pytest.raises(LinnappError, match="the kernel refused the model"):
            upload()
        sysfs.fail_never()
        assert load_conf(sysfs.conf) == conf
        return
    number = 1
    while killed_at(number, sysfs, upload):
        assert load_conf(sysfs.conf).drives[sysfs.name_of("sda")].model != conf.models[0]
        assert run("restore").exit_code == 0
        assert Drive("sda").model_id == new.model_id
        save_conf(sysfs.conf, conf)
        assert run("restore").exit_code == 0
        number += 1
    assert number > 1 and Drive("sda").model_id == new.model_id
