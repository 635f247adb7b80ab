# SPDX-License-Identifier: MIT
"""docs/real-machine.md, followed to the letter on a machine with Debian 12; `make test-machine`.

A machine as Debian's installer leaves it, under QEMU with three NVMe drives and two CPUs, gets the
packages that `make deb` and `make kernel-deb` made. Then the commands of the document are run, one
by one, as they stand there, and those of docs/raid1.md that it sends its reader to. What is run in
another way is in `INSTEAD` and below it. In between it is looked whether the machine is in the
state that the document promises; in the end nothing may be left of it all.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian_machine import Machine
from walked_document import Command, commands

pytestmark = pytest.mark.machine

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("LINNOS_MACHINE", ROOT / "build" / "machine"))
#: To go on where the last run ended: the machine's disk and what is known of it are left here.
STAGES = os.environ.get("LINNOS_MACHINE_STAGES")
#: Where the packages of the kernel are.
KERNEL = Path(os.environ.get("LINNOS_MACHINE_KERNEL", FOLDER / "kernel-deb"))
DISKS = ("nvme0n1", "nvme1n1", "nvme2n1")

#: What is typed in another way, and why.
INSTEAD = (
    # Done before, in the clone, as `make test-machine` has it: not on the machine itself.
    (r"^make (kernel-)?deb\b.*", ":"),
    # 15 minutes are more than three drives under a load as below need.
    (r"--duration 900\b", "--duration 60"),
    # It goes on until ctrl-C. To begin alone takes the translator half a minute beside the load.
    (
        r"^linnapp status --watch$",
        "timeout --signal=INT --preserve-status 120 linnapp status --watch",
    ),
)

#: The same, where QEMU translates: of TensorFlow pip had unpacked 0.4 GB there after 12 minutes. So
#: models are those of latencies, trained without it.
INSTEAD_TRANSLATED = (
    (r"^\S+/pip install tensorflow\b.*", ":"),
    (r"^linnapp train\b", "linnapp train --kind latency"),
)

#: The user's own: what the drives are busy with. Large writes come all at once, now and then, and
#: reads wait behind them.
USUAL_WORK = """
[global]
ioengine=libaio
direct=1
offset=64m
size=900m
time_based=1
runtime=3600
randrepeat=1
group_reporting=1
[reads]
filename={device}
rw=randread
bs=4k
iodepth=8
rate_iops=200,,
rate_process=poisson
[writes]
filename={device}
rw=randwrite
bs=512k
iodepth=32
thinktime={pause_us}
thinktime_blocks=32
"""

#: What a comparison of before and after leaves out: logs, what apt and dpkg keep for themselves,
#: what is of this boot, the user's own files.
OTHERS = re.compile(
    r"^/(proc|sys|dev|run|tmp|var/tmp|var/log|var/cache|root)(/|$)|^/var/lib/(apt|dpkg|systemd)/"
    r"|^/etc/(ld\.so\.cache|.*-)$"
)


def followed(command: str, translated: bool) -> str:
    """What is typed for a command of the document."""
    for pattern, instead in INSTEAD + (INSTEAD_TRANSLATED if translated else ()):
        command = re.sub(pattern, instead, command)
    return command


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    image = FOLDER / "debian.img"
    if STAGES and Path(STAGES, "disk.img").exists():
        image = Path(STAGES, "disk.img")
    assert image.exists(), f"{image}: no disk; `make test-machine` makes it"
    machine = Machine(image, FOLDER / "key", tmp_path)
    try:
        yield machine
    finally:
        machine.stop()


class Walk:
    """The machine, and what is known of it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.began = time.monotonic()
        self.boot = machine.wait_until_up()
        self.say(f"Debian's kernel is up: {machine.run('uname -r').strip()}")

    def say(self, what: str) -> None:
        """What happens, as it happens: all of it takes the better part of an hour."""
        print(f"[{time.monotonic() - self.began:6.0f} s] {what}", file=sys.stderr, flush=True)

    def type(self, command: str) -> str:
        """Run a command line of a document in the clone."""
        typed = followed(command, self.machine.translated)
        self.say(f"# {command}")
        if typed != command:
            self.say(f"instead: {typed}")
        if typed.endswith("reboot"):
            self.machine.run(f"cd clone && {typed[: -len('reboot')]} :")
            self.machine.run("systemctl reboot", check=False)
            self.boot = self.machine.wait_until_up(after_boot=self.boot)
            printed = self.machine.run("uname -r")
        else:
            printed = self.machine.run(f"cd clone\n{typed}", timeout_s=3600)
        lines = printed.strip().splitlines()
        for line in lines[-12:]:
            self.say(f"    {line[:160]}")
        return printed

    def modes(self) -> dict[str, str]:
        """Mode of each disk that has LinnOS."""
        printed = self.machine.run("cd /sys/block; grep -H . */linnos/mode || :")
        return dict(re.findall(r"^(\w+)/linnos/mode:(\w+)$", printed, re.M))

    def stats(self) -> dict[str, dict[str, int]]:
        """Counters of each drive."""
        printed = self.machine.run("cd /sys/block; grep -H . nvme*/linnos/stats/*")
        found: dict[str, dict[str, int]] = {disk: {} for disk in DISKS}
        for disk, name, count in re.findall(r"^(\w+)/linnos/stats/(\w+):(\d+)$", printed, re.M):
            found[disk][name] = int(count)
        return found

    def application(self, device: str, *options: str) -> dict[str, int]:
        """What an application counts that reads a drive, and knows what is on it."""
        printed = self.machine.run(f"python3 hinted_load.py {device} {' '.join(options)}")
        counts: dict[str, int] = json.loads(printed.splitlines()[-1])
        self.say(f"    {device}: {counts}")
        assert not any(counts[name] for name in ("wrong_data", "touched", "gone", "errors"))
        assert counts["admitted"] > 0
        return counts

    def usual_work(self, begins: bool) -> None:
        """Have the drives do what they usually do, or no longer."""
        if not begins:
            self.machine.run("systemctl stop 'usual-*'")
            return
        disks = ("md0",) if "md0" in self.machine.run("ls /sys/block") else DISKS
        for k, disk in enumerate(disks):
            job = USUAL_WORK.format(device=f"/dev/{disk}", pause_us=400_000 + 130_000 * k)
            self.machine.run(
                f"cat >usual-{k}.fio <<'EOF'\n{job}EOF\n"
                f"systemd-run -q --collect --unit=usual-{k} fio $PWD/usual-{k}.fio"
            )

    def kept(self) -> dict[str, set[str]]:
        """Users, files, packages and units, packages even if only their settings are there."""
        commands = {
            "users": "getent passwd; getent group",
            "files": "find / -xdev -print",
            "packages": "dpkg-query -W -f '${Package} ${Status}\\n'",
            "units": "systemctl list-unit-files --no-legend --no-pager --full | grep -v transient",
        }
        kept = {what: set(self.machine.run(how).splitlines()) for what, how in commands.items()}
        return {what: {line for line in of if not OTHERS.search(line)} for what, of in kept.items()}


def test_the_document_is_true(machine: Machine) -> None:
    walk = Walk(machine)
    before, seen, done = last_stage()
    if not done:
        assert "linnos" not in machine.run("uname -r")
        machine.run("mkdir -p clone/build")
        machine.copy(ROOT / "tests" / "qemu" / "hinted_load.py", "hinted_load.py")
        for folder in (ROOT / "build" / "deb", KERNEL):
            # The image only: the folder of a kernel's build is beside it.
            machine.run(f"mkdir -p clone/build/{folder.name}")
            for package in sorted(folder.glob("*.deb")):
                machine.copy(package, f"clone/build/{folder.name}/")
        before = walk.kept()

    for step, command in enumerate(commands(ROOT / "docs" / "real-machine.md")):
        if step < done:
            continue
        seen |= one_step(walk, command)
        # Models and modes are gone when it boots again.
        if STAGES and "observe" not in seen:
            leave_stage(machine, before, seen, step + 1)
    assert seen == {"kernel", "tools", "trace", "train", "observe", "enforce", "off", "purge"}

    assert "linnos" not in machine.run("uname -r")
    assert walk.modes() == {}
    after = walk.kept()
    more = {what: after[what] - before[what] for what in before}
    # What Debian's own packages bring that apt keeps, because others suggest them.
    suggested = {line for line in more["packages"] if line.endswith(" ok installed")}
    walk.say(f"kept by apt: {' '.join(sorted(line.split()[0] for line in suggested))}")
    assert not [line for line in suggested if "linn" in line]
    more["packages"] -= suggested
    more["files"] -= set(machine.run("cat /var/lib/dpkg/info/*.list").splitlines())
    # A folder of theirs may have got files from Python.
    more["files"] = {name for name in more["files"] if "__pycache__" not in name or "linn" in name}
    less = {what: before[what] - after[what] for what in before}
    walk.say(f"left behind: {more}, gone: {less}")
    assert not any(more.values()) and not any(less.values())


def last_stage() -> tuple[dict[str, set[str]], set[str], int]:
    """What was there before, what has been seen since, and how many commands that took."""
    stage = Path(STAGES or FOLDER, "stage.json")
    if not STAGES or not stage.exists():
        return {}, set(), 0
    known = json.loads(stage.read_text())
    before = {what: set(names) for what, names in known["before"].items()}
    return before, set(known["seen"]), known["done"]


def leave_stage(machine: Machine, before: dict[str, set[str]], seen: set[str], done: int) -> None:
    """What `last_stage` reads, with the disk as it is now."""
    assert STAGES
    Path(STAGES).mkdir(parents=True, exist_ok=True)
    machine.save(Path(STAGES, "disk.img"))
    known = {
        "before": {what: sorted(names) for what, names in before.items()},
        "seen": sorted(seen),
        "done": done,
    }
    Path(STAGES, "stage.json").write_text(json.dumps(known))


def one_step(walk: Walk, command: Command) -> set[str]:
    """Follow one command, and look whether it did what the document says of it."""
    machine, text = walk.machine, command.text
    if text.startswith("linnapp trace") or "--mode observe" in text:
        walk.usual_work(True)
    if "echo off" in text:
        raid1(walk)
    printed = walk.type(text)
    if text.startswith("linnapp status"):
        assert all(disk in printed for disk in DISKS)
    if "linux-image" in text and text.startswith("apt install"):
        assert machine.run("uname -r").strip().endswith("-linnos")
        modes = walk.modes()
        assert set(DISKS) < set(modes) and set(modes.values()) == {"off"}
        return {"kernel"}
    if "build/deb" in text and text.startswith("apt install"):
        assert set(walk.modes().values()) == {"off"}
        for unit in ("linnapp-exporter.service", "linnapp-recalibrate.timer"):
            assert "disabled" in machine.run(f"systemctl is-enabled {unit}", check=False)
            assert "inactive" in machine.run(f"systemctl is-active {unit}", check=False)
        return {"tools"}
    if text.startswith("linnapp trace"):
        walk.usual_work(False)
        assert set(machine.run("ls clone/traces/az").split()) >= {f"{d}.blk" for d in DISKS}
        return {"trace"}
    if text.startswith("linnapp train"):
        assert set(machine.run("ls clone/models/az").split()) >= {f"{d}.linnos" for d in DISKS}
        return {"train"}
    if "--mode observe" in text:
        observed(walk)
        return {"observe"}
    if "--mode enforce" in text:
        enforced(walk)
        walk.usual_work(False)
        return {"enforce"}
    if "echo off" in text:
        assert set(walk.modes().values()) == {"off"}
        return {"off"}
    return {"purge"} if "purge" in text else set()


def observed(walk: Walk) -> None:
    """The kernel predicts and counts, and revokes nothing."""
    before = walk.stats()
    for disk in DISKS:
        assert walk.modes()[disk] == "observe"
        counts = walk.application(f"/dev/{disk}", "--fill", "--seconds", "10")
        assert counts["revoked"] == 0
        did = {name: n - before[disk][name] for name, n in walk.stats()[disk].items()}
        walk.say(f"    {disk}: {did}")
        assert did["inferences"] > 0 and did["revoked"] == 0
        assert did["latency_critical"] >= counts["admitted"]


def enforced(walk: Walk) -> None:
    """What is predicted to be slow is refused, and what is read is right."""
    revoked = 0
    for disk in DISKS:
        assert walk.modes()[disk] == "enforce"
        before = walk.stats()[disk]["revoked"]
        counts = walk.application(f"/dev/{disk}", "--seconds", "20")
        assert walk.stats()[disk]["revoked"] - before >= counts["revoked"]
        revoked += counts["revoked"]
    assert revoked > 0


def raid1(walk: Walk) -> None:
    """docs/raid1.md, on an array of the three drives."""
    machine = walk.machine
    machine.run(
        "mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --level=1 --raid-devices=3 "
        "/dev/nvme?n1"
    )
    assert machine.run("cat /sys/block/md0/md/linnos").strip() == "off"
    for command in commands(ROOT / "docs" / "raid1.md"):
        tracing = command.text.startswith("linnapp trace")
        if tracing:
            walk.usual_work(True)
        walk.type(command.text)
        if tracing:
            walk.usual_work(False)
    assert machine.run("cat /sys/block/md0/md/linnos").strip() == "on"
    before = walk.stats()
    counts = walk.application("/dev/md0", "--fill", "--plain", "--seconds", "10")
    after = walk.stats()
    read = {disk: after[disk]["reads"] - before[disk]["reads"] for disk in DISKS}
    asked = {disk: after[disk]["inferences"] - before[disk]["inferences"] for disk in DISKS}
    walk.say(f"    reads of md0 by drive {read}, asked {asked}")
    assert counts["revoked"] == 0 and sum(read.values()) >= counts["admitted"]
    assert all(asked.values())
    machine.run("mdadm --stop /dev/md0 && mdadm --zero-superblock /dev/nvme?n1")
