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
from trees_by_hand import random_trees

from linnapp.drive import checks, drives_conf, enabling, stable_ids, units
from linnapp.drive.checks import check, find_target
from linnapp.drive.deployment import restore
from linnapp.drive.drives_conf import ArrayEntry, DriveEntry, DrivesConf, load_conf, save_conf
from linnapp.drive.recording import RecordingProgress
from linnapp.drive.stable_ids import stable_id
from linnapp.drive.sysfs import Drive
from linnapp.errors import DeviceError, LinnappError
from linnapp.learn.fit import FittedModel
from linnapp.model import LatencyModel

Run = Callable[..., Any]

RECORD = {
    "auc": 0.9,
    "auc_last_latencies": 0.8,
    "auc_pending": 0.7,
    "mean_abs_log2_error": 0.2,
    "mean_abs_log2_error_last_latencies": 0.3,
}
ENABLED = ["on", "observe", "observe"]
OFF = ["off"] * 3


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make stand-ins for recordings, and for training. The lab's test trains with real ones."""
    rng = np.random.default_rng(1)

    def train(traces: list[Path], out: Path, *_: Any, **__: Any) -> dict[str, FittedModel]:
        out.mkdir(parents=True)
        trained = {}
        for trace in traces:
            result = FittedModel(random_trees(rng), json.loads(trace.read_text()))
            result.save(out / f"{trace.stem}.linnos")
            trained[trace.stem] = result
        return trained

    monkeypatch.setattr(enabling, "train_array", train)
    monkeypatch.setattr(enabling, "check_can_trace", lambda _: None)
    return make_recordings(tmp_path / "recordings")


def make_recordings(directory: Path, **changed_sdb: Any) -> Path:
    directory.mkdir(parents=True)
    (directory / "sda.blk").write_text(json.dumps(RECORD))
    (directory / "sdb.blk").write_text(json.dumps({**RECORD, **changed_sdb}))
    return directory


@pytest.fixture
def enable(run: Run, recordings: Path) -> Run:
    """Enable md0, and return the result."""
    return lambda *words: run("enable", "md0", "--recordings", recordings, *words)


def succeeds(result: Any) -> str:
    assert result.exit_code == 0, result.output
    return str(result.output)


def has_no_files(sysfs: FakeSysfs) -> bool:
    """Return true if linnapp has left no file behind."""
    paths = [path for path in (sysfs.conf, sysfs.state) if path.exists()]
    return paths == []


# -- targets --


def refused(target: list[str], message: str) -> None:
    with pytest.raises(LinnappError, match=message):
        check(find_target(target), DrivesConf())


def test_find_target_returns_the_drives_that_md_reads_from(sysfs: FakeSysfs) -> None:
    found = find_target(["md0"])
    assert (found.array, found.drives, found.arguments) == ("md0", ("sda", "sdb"), "/dev/md0")
    check(found, DrivesConf())
    assert find_target(["sdb", "sda1"]).drives == ("sdb", "sda")
    sysfs.add_disk("sdd")
    sysfs.add_array("md1", {"sda": "in_sync", "sdb": "in_sync,write_mostly", "sdd": "spare"})
    assert find_target(["md1"]).drives == ("sda",)


def test_unsuitable_targets_are_refused(sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch) -> None:
    block = sysfs.block
    linnos = block / "md0" / "md" / "linnos"
    linnos.write_text("n/a\n")
    refused(["md0"], "md0: this md does not ask LinnOS")
    linnos.unlink()
    refused(["md0"], "md0: this md does not ask LinnOS")
    linnos.write_text("on\n")
    refused(["md0"], "md0 already queries LinnOS, .*linnapp disable /dev/md0")
    linnos.write_text("off\n")
    sysfs.add_array("md1", {"sda1": "in_sync", "sda": "in_sync"})
    refused(["md1"], "md1: two of its mirrors are on the same drive, sda")
    sysfs.add_array("md2", {"sda1": "in_sync", "sdb": "write_mostly"})
    refused(["md2"], "md2: a single drive to read from")
    refused(["md0", "sda"], "md0 is an md array: name one array, or drives")
    refused(["sda"], "sda: a single drive to read from")
    refused(["sda", "sda1"], "sda1: sda is named twice")
    refused(["sda", "sdz"], "sdz: no such disk")
    refused(["sda", "sdc"], "sdc: .*this kernel lacks the LinnOS patch")
    sysfs.add_disk("loop0")
    refused(["sda", "loop0"], "loop0 is not a drive that serves requests itself")
    (block / "sdb" / "linnos" / "mode").write_text("observe\n")
    refused(["sda", "sdb"], "sdb is already in mode observe, .*linnapp disable /dev/sda /dev/sdb")
    conf = DrivesConf({sysfs.name_of("sdb"): DriveEntry("observe", Path("/m"))})
    check(find_target(["sda", "sdb"]), conf)
    monkeypatch.setattr(checks, "LEAST_FREE_BYTES", 1 << 62)
    (block / "sdb" / "linnos" / "mode").write_text("off\n")
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
    run: Run, enable: Run, sysfs: FakeSysfs, lines: list[str]
) -> None:
    dry = succeeds(enable("--dry-run"))
    assert "would upload sda's model, mode observe\n" in dry
    assert "would echo on >/sys/block/md0/md/linnos\n" in dry
    assert has_no_files(sysfs) and not lines and not sysfs.writes
    for _ in range(2):
        succeeds(enable())
        conf = load_conf(sysfs.conf)
        assert conf.arrays == {sysfs.name_of("md0"): ArrayEntry(True)}
        assert sysfs.settings() == ENABLED
        for name in ("sda", "sdb"):
            entry = conf.drives[sysfs.name_of(name)]
            assert (entry.mode, entry.array) == ("observe", sysfs.name_of("md0"))
            assert entry.model is not None
            assert LatencyModel.load(entry.model).model_id == Drive(name).model_id
        # There is one set of models after any number of runs.
        assert len(list((sysfs.state / "enable" / "md0").iterdir())) == 1
    assert sum("mode off -> observe (linnapp enable)" in line for line in lines) == 2
    assert sum("sda: model none -> " in line for line in lines) == 1
    assert [line.split(" (")[0] for line in lines if "md0" in line] == ["md0: linnos off -> on"]

    succeeds(run("disable"))
    assert sysfs.settings() == OFF and has_no_files(sysfs)
    before = len(lines)
    assert "nothing is enabled: " in succeeds(run("disable"))
    assert "nothing is enabled: " not in succeeds(run("disable", "md0"))
    assert len(lines) == before and has_no_files(sysfs)


def test_module_observes_drives_until_they_are_disabled(
    run: Run, sysfs: FakeSysfs, recordings: Path, lines: list[str]
) -> None:
    sysfs.module.mkdir(parents=True)
    (recordings / "sdb.blk").rename(recordings / "sdc.blk")
    words = ("enable", "sda", "sdc", "--recordings", recordings)
    assert "would let the module linnos observe sdc\n" in run(*words, "--dry-run").output
    succeeds(run(*words))
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


def test_enable_saves_the_previous_model(run: Run, enable: Run, sysfs: FakeSysfs) -> None:
    old = random_trees(np.random.default_rng(7))
    Drive("sda").upload(old)
    for _ in range(2):
        succeeds(enable())
    succeeds(run("disable", "md0"))
    assert LatencyModel.load(sysfs.state / "sda" / "previous.linnos") == old
    assert [path.name for path in sysfs.state.iterdir()] == ["sda"]


def test_enable_refuses_models_without_a_gain(
    run: Run, sysfs: FakeSysfs, tmp_path: Path, recordings: Path
) -> None:
    result = run("enable", "md0", "--recordings", make_recordings(tmp_path / "r", auc=0.4))
    assert result.exit_code == 1
    assert "md0 is not changed. sdb: its model " in str(result.exception)
    assert sysfs.settings() == OFF and Drive("sda").model_id is None
    assert has_no_files(sysfs)
    for changed, message in (
        ({}, ""),
        ({"auc": 0.8}, ""),  # no better than the last latencies, which choose nothing
        ({"auc": 0.75, "auc_pending": 0.76}, "ROC is 0.750, that of the number of pending pages"),
        ({"auc": 0.4, "auc_pending": 0.3, "auc_last_latencies": 0.3}, "chance 0.500"),
        ({"auc": None}, ""),
        ({"auc": None, "mean_abs_log2_error": 1.0}, "error is a factor of 2.00"),
    ):
        why = enabling.why_not({**RECORD, **changed})
        assert bool(why) == bool(message) and re.search(message, why)


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
    enable: Run, sysfs: FakeSysfs, is_enabled: bool, error: type[BaseException]
) -> None:
    """Let each write in turn fail: of models, modes, the array's state and drives.conf."""
    if is_enabled:
        succeeds(enable())
    before = everything(sysfs)
    failed = []
    for number in range(1, 100):
        sysfs.fail_at(number, error)
        result = enable()
        last = sysfs.writes[number - 1] if len(sysfs.writes) >= number else None
        sysfs.fail_never()
        if last is None:
            break
        failed.append(last)
        if result.exit_code == 0:
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
    changed = {"block/sda/linnos/model", "block/sdb/linnos/model", "block/md0/md/linnos"}
    modes = {"block/sda/linnos/mode", "block/sdb/linnos/mode"}
    assert set(failed) == (changed if is_enabled else changed | modes)
    assert sysfs.settings() == ENABLED


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
@pytest.mark.parametrize("killed", ["enable", "disable"])
def test_command_that_was_killed_can_be_completed_and_undone(
    run: Run, enable: Run, sysfs: FakeSysfs, is_enabled: bool, killed: str
) -> None:
    """It is killed before each of its writes. Drives never have a setting that no file names."""
    for number in range(1, 100):
        if is_enabled or killed == "disable":
            succeeds(enable())
        was_killed = killed_at(number, sysfs, enable if killed == "enable" else lambda: run(killed))
        conf = load_conf(sysfs.conf)
        assert all(model.exists() for model in conf.models)
        if not conf.is_empty:
            succeeds(run("restore"))
            assert sysfs.settings() == ENABLED
            for name, entry in conf.drives.items():
                assert LatencyModel.load(entry.model).model_id == Drive(name).model_id
        # A second try succeeds, and nothing is left afterwards.
        succeeds(enable())
        succeeds(run("disable"))
        assert sysfs.settings() == OFF and not sysfs.conf.exists()
        file_names = [path.name for path in sysfs.state.rglob("*") if path.is_file()]
        # A patched kernel keeps models, which are then the previous ones.
        assert set(file_names) <= {"previous.linnos"}
        if not was_killed:
            break
    assert number > 3


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_commands_kills_and_reboots_keeps_drives_and_file_consistent(
    run: Run, enable: Run, sysfs: FakeSysfs, seed: int
) -> None:
    """After each step `restore` succeeds, and the kernel then has the settings of drives.conf."""
    rng = np.random.default_rng(seed)
    commands = {
        "enable": enable,
        "disable": lambda: run("disable"),
        "restore": lambda: run("restore"),
    }
    for _ in range(10):
        step = str(rng.choice(["command", "kill", "reboot", "by hand"], p=[0.4, 0.35, 0.15, 0.1]))
        name = str(rng.choice(list(commands), p=[0.6, 0.2, 0.2]))
        was_empty = load_conf(sysfs.conf).is_empty
        if step == "kill":
            killed_at(int(rng.integers(1, 9)), sysfs, commands[name])
        elif step == "reboot":
            sysfs.reboot()
        elif step == "by hand" and not was_empty:
            Drive("sda").set("off")
        elif step == "command":
            result = commands[name]()
            assert result.exit_code == (name == "restore" and was_empty), result.output
        conf = load_conf(sysfs.conf)
        assert len(conf.drives) in (0, 2) and len(conf.arrays) == len(conf.drives) // 2
        if conf.is_empty:
            assert sysfs.settings() == OFF
            continue
        succeeds(run("restore"))
        assert sysfs.settings() == ENABLED
        active = [Drive(name).model_id for name in ("sda", "sdb")]
        assert active == [LatencyModel.load(path).model_id for path in conf.models]
    succeeds(run("disable"))
    assert sysfs.settings() == OFF and not list((sysfs.state).glob("enable/*"))


@pytest.mark.parametrize("end", [None, KeyboardInterrupt, DeviceError])
def test_settings_are_off_while_an_enabled_array_is_recorded(
    run: Run, enable: Run, sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch, end: Any
) -> None:
    """A recording would otherwise lack the reads that md redirects or drives refuse."""
    succeeds(enable())
    sysfs.conf.write_text(sysfs.conf.read_text().replace("observe", "enforce", 1))
    Drive("sda").set("enforce")
    seen = []

    def record(_: object, directory: Path, **__: object) -> tuple[list[object], int]:
        seen.append(sysfs.settings())
        if end is not None:
            raise end("enough")
        make_recordings(directory)
        (sysfs.block / "sda" / "stat").write_text("  6 0 0 0 0 0 0 0 0 0 0\n")
        return [], 0

    monkeypatch.setattr(enabling, "record", record)
    result = run("enable", "md0")
    assert (result.exit_code == 0) == (end is None), result.output
    assert seen == [["off", "observe", "observe"]]
    assert sysfs.settings() == ["on", "observe" if end is None else "enforce", "observe"]


def test_ctrl_c_keeps_the_recording(
    run: Run, sysfs: FakeSysfs, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(_: object, directory: Path, **options: Any) -> None:
        make_recordings(directory)
        assert options["at_ctrl_c"] == "keep"
        raise KeyboardInterrupt

    monkeypatch.setattr(enabling, "record", record)
    result = run("enable", "md0")
    assert result.exit_code
    message = re.search(r"nothing is changed; .*: linnapp (enable .*)\n", result.output)
    assert message and not sysfs.conf.exists() and sysfs.settings() == OFF
    succeeds(run(*message[1].replace("/dev/md0", "md0").split()))
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
    result = run("enable", "md0")
    assert result.exit_code == 1 and "are recorded after 40 s" in str(result.exception)
    assert sysfs.settings() == OFF and has_no_files(sysfs)


def test_a_lock_and_an_invalid_configuration_stop_every_command(
    run: Run, enable: Run, sysfs: FakeSysfs
) -> None:
    (sysfs.state / "enable").mkdir(parents=True)
    with (sysfs.state / "enable" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for act in (enable, lambda: run("disable")):
            words = "another linnapp enable, disable, trial or recalibrate is running"
            assert words in str(act().exception)
    for text, why in ((None, "no such file"), ("# empty\n", "names no drive and no array")):
        if text is not None:
            sysfs.conf.parent.mkdir()
            sysfs.conf.write_text(text)
        assert f"{why}; `linnapp enable` writes it" in str(run("restore").exception)
    sysfs.conf.write_text("[drive sda]\n")
    for act in (enable, lambda: run("disable"), lambda: run("restore")):
        assert "drives.conf: [drive sda]: expected [drive PATH]" in str(act().exception)
    assert Drive("sda").model_id is None


def test_disable_changes_whole_targets_only(run: Run, enable: Run, sysfs: FakeSysfs) -> None:
    succeeds(enable())
    result = run("disable", "sda")
    assert f"is in {sysfs.name_of('md0')}: linnapp disable" in str(result.exception)
    assert Drive("sda").mode == "observe"
    # After a reboot, md numbers arrays in order of assembly: md0 is another one.
    (sysfs.block / "md0").rename(sysfs.block / "md127")
    sysfs.add_array("md0", {"sdc": "in_sync"})
    (sysfs.by_id / "md-uuid-0").unlink()
    for number, name in enumerate(("md127", "md0")):
        sysfs.add_link(f"md-uuid-{number}", name)
    succeeds(run("disable", "md0"))
    assert [model.exists() for model in load_conf(sysfs.conf).models] == [True, True]
    # A missing drive is reported, and its entry removed.
    (sysfs.by_id / "wwn-sdb").unlink()
    shutil.rmtree(sysfs.block / "md127" / "md" / "dev-sdb")
    assert "1 could not be switched off" in str(run("disable", "md127").exception)
    assert Drive("sda").mode == "off" and not sysfs.conf.exists()


def test_unit_is_enabled_and_disabled_where_systemd_runs(
    run: Run, enable: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit is enabled only if the command writes the file that the unit reads."""
    conf = tmp_path / "linnapp" / "drives.conf"
    for module in (drives_conf, units):
        monkeypatch.setattr(module, "DEFAULT_CONF", conf)
    monkeypatch.setattr(units, "_SYSTEMD_RUNS", tmp_path)
    calls: list[str] = []
    monkeypatch.setattr(units, "_systemctl", lambda *words: calls.append(" ".join(words)) or "")
    succeeds(enable("--conf", conf))
    assert calls == ["enable linnapp-restore.service"]
    succeeds(run("disable", "--conf", conf))
    assert calls[1:] == ["is-enabled linnapp-restore.service", "disable linnapp-restore.service"]
    assert not conf.parent.exists()
    succeeds(enable())
    assert len(calls) == 3


def test_progress_shows_when_there_will_be_too_few_reads() -> None:
    for seconds, fewest, shown in (
        (60, 60, "; at this rate --for 1430"),
        (60, 120, ""),
        (20, 1, ""),
        (60, 0, ""),
    ):
        progress = RecordingProgress(seconds, 1000, 48_000, 0)
        text = enabling.describe_progress(progress, 900, {"sda": 600, "sdb": fewest}, 1430)
        assert text.partition("1430 of each are needed")[2] == shown


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
    result = run("restore")
    assert result.exit_code == 1
    assert f"linnapp: error: {sysfs.name_of('sda')}: " in result.output
    assert f"1 drives or arrays are not as in {sysfs.conf}" in str(result.exception)
    assert sysfs.settings() == ["on", "off", "enforce"]
    (sysfs.by_id / "wwn-sda").unlink()
    # A missing drive does not prevent mode enforce on the other.
    Drive("sdb").set("off")
    [failure] = restore_all(conf, sysfs, wait_s=0.3)
    assert "wwn-sda" in failure
    assert Drive("sdb").mode == "enforce"


def nodes(sysfs: FakeSysfs, monkeypatch: pytest.MonkeyPatch, *names: str) -> str:
    """Create nodes with the kernel's names only; return the folder."""
    folder = sysfs.tmp_path / "dev"
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
    output = succeeds(run("restore"))
    assert f"{dev}/sda is {dev}/sdb now" in output and f"{dev}/md0 is {dev}/md127 now" in output
    ids = [LatencyModel.load(tmp_path / f"{name}.linnos").model_id for name in ("sda", "sdb")]
    assert [Drive(name).model_id for name in ("sdb", "sda")] == ids
    assert (sysfs.block / "md127" / "md" / "linnos").read_text() == "on"
    after = load_conf(sysfs.conf)
    assert after.drives[f"{dev}/sdb"] == dataclasses.replace(a, array=f"{dev}/md127")
    assert list(after.arrays) == [f"{dev}/md127"]
    assert "now" not in succeeds(run("restore")) and load_conf(sysfs.conf) == after


def test_restore_recognises_a_drive_by_what_is_recorded_of_it(
    sysfs: FakeSysfs, conf: DrivesConf, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = nodes(sysfs, monkeypatch, "sda", "sdb")
    report(sysfs, sda="A", sdb="B")
    [entry, _] = conf.drives.values()
    for identity, why in (
        ({"serial": "C"}, "serial A, not C"),
        ({"wwid": "x", "product": "M", "sectors": "4096"}, "sectors 2048, not 4096"),
        ({"sectors": "4096"}, "sectors 2048, not 4096"),
        # Older files have less or no identity of a drive; a drive that has grown is the same.
        ({}, ""),
        ({"serial": "A", "sectors": "1"}, ""),
        ({"sectors": "2048"}, ""),
    ):
        sysfs.reboot()
        recorded_entry = dataclasses.replace(entry, array=None, identity=identity)
        failures = restore_all(DrivesConf({f"{dev}/sda": recorded_entry}), sysfs)
        assert Drive("sda").mode == ("off" if why else "observe")
        assert bool(failures) == bool(why)
        for failure in failures:
            assert f"{dev}/sda is another device than the one that was enabled" in failure
            assert why in failure and "remove its section" in failure
    report(sysfs, sdb="A")
    recorded_entry = dataclasses.replace(entry, array=None, identity={"serial": "A"})
    [failure] = restore_all(DrivesConf({f"{dev}/sdx": recorded_entry}), sysfs)
    assert "sda and sdb have the same serial; none is taken" in failure


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
    succeeds(run("restore"))
    assert sysfs.settings()[:2] == ["on", "observe"]


@pytest.mark.parametrize("has_serial", [True, False])
def test_enable_warns_of_names_that_can_change(
    enable: Run, sysfs: FakeSysfs, has_serial: bool
) -> None:
    for link in sysfs.by_id.iterdir():
        link.unlink()
    for name in ("sda", "sdb"):
        if has_serial:
            report(sysfs, **{name: f"{name} 1"})
    (sysfs.block / "md0" / "md" / "uuid").write_text("1-2-3-4\n")
    dry = enable("--dry-run").output
    assert "drives.conf: /dev/sda, /dev/sdb, /dev/md0\n" in dry
    for name in ("sda", "sdb", "md0"):
        assert f"warning: {name} has no stable name" in dry
    assert ("by its serial" if has_serial else "neither a WWID nor a serial number") in dry
