# SPDX-License-Identifier: MIT
"""The units of linnapp/systemd, installed as in docs/own-drives.md and run by a real systemd.

systemd is the first process of its own namespaces, on an overlay of this machine's files. Plain
files stand for the kernel's files of two drives (tests/lab/test_recalibrate_in_enforce.py uses the
real kernel). Everything else, from the timer to training, is as users have it.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_sysfs import replaced
from test_training import array_trace

import linnapp
from linnapp.drive.drives_conf import DriveEntry, DrivesConf, parse, save_conf
from linnapp.drive.latencies import N_BUCKETS
from linnapp.model import LatencyModel

HERE = Path(__file__).parent
UNITS = HERE.parents[1] / "linnapp" / "systemd"
CGROUPS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))

#: Settings as written by `systemctl edit`, which make a second stand for six hours. The empty line
#: resets all earlier times, not only those of this key.
SOONER = """[Timer]
OnUnitInactiveSec=
OnBootSec=1s
OnUnitInactiveSec=1s
RandomizedDelaySec=0
AccuracySec=100ms
"""

#: A machine that is busy with other tests would never satisfy this condition.
NOT_NICE = "[Service]\nNice=0\nIOSchedulingClass=best-effort\n"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_units_are_well_formed() -> None:
    units = sorted(UNITS.iterdir())
    assert len(units) == 5
    # systemd checks that the manual page can be opened, which exists only after an installation.
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("unit", sorted(UNITS.glob("*.service")), ids=lambda unit: unit.stem)
def test_services_have_few_permissions(unit: Path) -> None:
    """Require a score of at most 3 by systemd, from 0 (no permissions) to 10 (those of root)."""
    result = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=30", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    if "--offline" in result.stderr:
        pytest.skip("systemd before 250: no --offline")
    assert result.returncode == 0, result.stdout + result.stderr


def _cgroup_root() -> Path | None:
    for path in CGROUPS:
        if (path / "cgroup.procs").exists() and (path / "cgroup.controllers").exists():
            return path
    return None


class Machine:
    """A running systemd; its own files are in `directory`."""

    def __init__(self, directory: Path, pid: int) -> None:
        self.directory = directory
        self.pid = pid

    def run(self, *command: str) -> str:
        """Run a command inside; return its output."""
        return subprocess.run(
            ["nsenter", "-t", str(self.pid), "-a", "-r", "-w", *command],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=600,
        ).stdout


def add_drive(state: Path, disk: str, model: LatencyModel) -> None:
    """Write the kernel's files of a drive that enforces with this model."""
    directory = state / "sys" / "block" / disk
    (directory / "linnos" / "stats").mkdir(parents=True)
    for name, text in (
        ("dev", "8:0"), ("stat", "1 " * 11), ("linnos/mode", "enforce"),
        ("linnos/model_id", model.model_id), ("linnos/model_kind", "latency"),
        ("linnos/threshold_us", model.threshold_us),
        ("linnos/latency_us_histogram", "0 " * N_BUCKETS),
        ("linnos/stats/revoked", 0), ("linnos/stats/latency_critical", 0),
    ):  # fmt: skip
        (directory / name).write_text(f"{text}\n")
    model.save(directory / "linnos" / "model")
    (state / "dev").mkdir(exist_ok=True)
    (state / "dev" / disk).touch()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Return a systemd with the units installed and the timer enabled."""
    root = _cgroup_root()
    if os.geteuid() != 0 or root is None or not Path("/lib/systemd/systemd").exists():
        pytest.skip("needs root, systemd, and a cgroup2 file system")
    if any(HERE.is_relative_to(hidden) for hidden in ("/tmp", "/var/tmp")):
        pytest.skip(
            f"{HERE.parents[1]}: the service has a /tmp of its own and cannot see a clone there"
        )
    system = tmp_path / "etc" / "systemd" / "system"
    (system / "timers.target.wants").mkdir(parents=True)
    for unit in UNITS.iterdir():
        shutil.copy(unit, system)
    # `systemctl enable` does this for the timer.
    (system / "timers.target.wants" / "linnapp-recalibrate.timer").symlink_to(
        "../linnapp-recalibrate.timer"
    )
    for kind, text in (("timer", SOONER), ("service", NOT_NICE)):
        (system / f"linnapp-recalibrate.{kind}.d").mkdir()
        (system / f"linnapp-recalibrate.{kind}.d" / "override.conf").write_text(text)
    (tmp_path / "etc" / "linnapp").mkdir()
    (tmp_path / "etc" / "linnapp" / "recalibrate.conf").write_text(
        "DRIVES=sda sdb\n"
        "OPTIONS=--recordings /var/lib/linnapp/recordings\n"
        "LINNAPP_SYSFS=/var/lib/linnapp/sys\n"
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "linnapp").symlink_to(Path(sys.executable).parent / "linnapp")
    recordings = tmp_path / "state" / "recordings"
    recordings.mkdir(parents=True)
    for number, disk in enumerate(("sda", "sdb"), 1):
        # The recording is long enough to compare two models: 15 % of its reads must span 8 s.
        recording = recordings / f"{disk}.blk"
        array_trace(recording, number, n=6000, pause_us=9000)
        add_drive(tmp_path / "state", disk, linnapp.fit_latency(recording).model_)
    group = root / f"linnos-test-{os.getpid()}"
    namespaces = ("mount", "pid", "cgroup", "uts", "ipc", "net")
    process = None
    try:
        try:
            group.mkdir()
        except OSError as error:
            pytest.skip(f"{group}: {error.strerror}")
        with (tmp_path / "boot.log").open("wb") as log:
            process = subprocess.Popen(
                ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh", "unshare"]
                + [f"--{name}" for name in namespaces]
                + ["--fork", "--kill-child", HERE / "boot_systemd.sh", tmp_path],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # The kernel kills systemd when the test ends (PR_SET_PDEATHSIG).
                preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL),
            )
        pid = _first_child(process)
        if pid is None:
            pytest.skip(f"no systemd here: {(tmp_path / 'boot.log').read_text()[-300:]}")
        booted = Machine(tmp_path, pid)
        if not booted.run("env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "linnapp", "--version"):
            pytest.skip(f"{HERE.parents[1]}: on another file system than the machine's root")
        yield booted
    finally:
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _remove_groups(group)


def _first_child(process: subprocess.Popen[bytes]) -> int | None:
    """Return the first process of the namespaces, once it is systemd and answers."""
    deadline = time.monotonic() + 600
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            if text and Path(f"/proc/{text[0]}/comm").read_text() == "systemd\n":
                machine = Machine(Path("/"), int(text[0]))
                state = machine.run("systemctl", "is-system-running").strip()
                if state in ("running", "degraded", "starting"):
                    return int(text[0])
        time.sleep(0.2)
    return None


def _remove_groups(group: Path) -> None:
    for _ in range(50):
        inner = sorted(group.rglob("*/"), key=lambda path: len(path.parts), reverse=True)
        for path in [*inner, group]:
            with contextlib.suppress(OSError):
                path.rmdir()
        if not group.exists():
            return
        time.sleep(0.1)


def test_the_timer_recalibrates_again_and_again(machine: Machine) -> None:
    def journal() -> str:
        return machine.run("journalctl", "--no-pager", "-o", "cat", "-u", "linnapp-recalibrate")

    # The new models of two complete runs are as good as the active ones.
    for _ in range(2400):
        text = journal()
        if text.count("Finished") >= 2 or "Failed" in text:
            break
        time.sleep(0.5)
    assert text.count("Finished linnapp-recalibrate.service") >= 2, text
    assert "Failed" not in text
    for disk in ("sda", "sdb"):
        assert f"{disk}: retrain: latency models are trained each time" in text
        assert f"{disk}: not uploaded, no better" in text
        assert len(list((machine.directory / "state" / "models").glob(f"*/{disk}.linnos"))) >= 2
        assert (machine.directory / "state" / disk / "recalibration.jsonl").exists()
    # The service can write only there.
    shown = machine.run("systemctl", "show", "linnapp-recalibrate", "-p", "Result,ProtectSystem")
    assert shown.split() == ["ProtectSystem=strict", "Result=success"] or shown.split() == [
        "Result=success",
        "ProtectSystem=strict",
    ]


def test_kill_switch_can_write_its_files(machine: Machine) -> None:
    """There are no events of the kernel: its counters show that all reads are refused."""
    state, conf_path = machine.directory / "state", "/etc/linnapp/drives.conf"
    disk = state / "sys" / "block" / "sda"
    model = LatencyModel.load(disk / "linnos" / "model")
    model.save(state / "sda.linnos")
    test = {"true_fast": 95, "false_submit": 0, "true_slow": 5, "false_revoke": 0}
    (state / "sda.json").write_text(json.dumps({"model_id": model.model_id, "test": test}))
    name = "/var/lib/linnapp/dev/sda"
    entry = DriveEntry("enforce", Path("/var/lib/linnapp/sda.linnos"))
    save_conf(state / "drives.conf", DrivesConf({name: entry}))
    machine.run(
        "sh", "-c",
        f"mv /var/lib/linnapp/drives.conf {conf_path} &&"
        " mkdir /etc/systemd/system/linnapp-keep.service.d &&"
        " printf '[Service]\\nNice=0\\nEnvironment=LINNAPP_SYSFS=/var/lib/linnapp/sys"
        " \"OPTIONS=--window 1 --every 0.2\"\\n'"
        " >/etc/systemd/system/linnapp-keep.service.d/override.conf &&"
        " systemctl daemon-reload && systemctl start linnapp-keep",
    )  # fmt: skip
    deadline = time.monotonic() + 300
    for k in itertools.count(1):
        for counter in ("revoked", "latency_critical"):
            replaced(disk / "linnos" / "stats" / counter, f"{1000 * k}\n")
        if (state / "switched-back.json").exists() or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    journal = machine.run("journalctl", "--no-pager", "-o", "cat", "-u", "linnapp-keep")
    assert (disk / "linnos" / "mode").read_text() == "observe", journal
    machine.run("systemctl", "stop", "linnapp-keep")
    conf = parse(machine.run("cat", conf_path), conf_path)
    assert conf.drives[name].mode == "observe", journal
    assert "reset: sda: 100% of the hinted reads are refused" in journal
    # The exporter runs as another user.
    assert (state / "switched-back.json").stat().st_mode & 0o777 == 0o644
    shown = machine.run("systemctl", "show", "linnapp-keep", "-p", "Result")
    assert shown.strip() == "Result=success", journal
