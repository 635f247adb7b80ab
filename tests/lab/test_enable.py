# SPDX-License-Identifier: MIT
"""`linnapp enable`, `restore` and `disable` on an md raid1 of the lab's drives."""

from __future__ import annotations

import lzma
import os
import re
import subprocess
from pathlib import Path

import pytest

from linnapp.drive.drives_conf import load_conf
from linnapp.lab.array import Array

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "linnapp" / "systemd" / "linnapp-restore.service"

#: A recording of another drive, with enough reads for training.
RECORDING = ROOT / "traces" / "recorded" / "fio.blk.xz"

BEGIN = """
export LINNAPP_STATE=$OUT/state LINNAPP_CONF=$OUT/etc/drives.conf
md=/sys/block/md0/md
mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --level=1 --raid-devices=3 \\
    /dev/flash0 /dev/flash1 /dev/flash2 2>&1
found() # NAME: save the state of drives and array
{
    cat /sys/block/flash?/linnos/mode /sys/block/flash?/linnos/model_id $md/linnos >$OUT/found_$1
}
refused() { ! linnapp "$@" 2>>$OUT/refused || exit 1; }
"""

ENABLED = """
found before
linnapp enable /dev/md0 --recordings $OUT/recordings --dry-run >$OUT/dry
mkdir $OUT/small
mount -t tmpfs -o size=1m none $OUT/small
LINNAPP_STATE=$OUT/small/state refused enable /dev/md0
ls $OUT/small >$OUT/left_in_small
# Without reads there are no training data.
refused enable /dev/md0 --for 0.05
found refused
linnapp enable /dev/md0 --recordings $OUT/recordings 2>$OUT/enabled
found enabled
cp $LINNAPP_CONF $OUT/first.conf
"""

#: Too few reads for a model: an enabled array is recorded, and then enabled again.
RECORDED_ANEW = """
linnapp recalibrate /dev/flash0 /dev/flash1 /dev/flash2 --models $OUT/models --duration 2 \\
    2>$OUT/recalibrated &
until [ -e /sys/kernel/debug/block/flash0/dropped ]; do sleep 0.01; done
cat $md/linnos >$OUT/while_recorded
for k in 0 1 2; do dd if=/dev/flash$k of=/dev/null iflag=direct bs=4k count=100 2>/dev/null; done
wait $!
found recorded
"""

#: Modes are lost, as after a reboot; then the mode of one drive cannot be restored.
RESTORED = """
for k in 0 1 2; do echo off >/sys/block/flash$k/linnos/mode; done
echo off >$md/linnos
setpriv --bounding-set={capabilities} linnapp restore >$OUT/restored
found restored
for k in 0 1 2; do echo off >/sys/block/flash$k/linnos/mode; done
sed 's|flash1.linnos|gone.linnos|' $LINNAPP_CONF >$OUT/bad.conf
refused restore --conf $OUT/bad.conf
found restored_in_part
linnapp restore >/dev/null
"""

#: Enable again with the same result, disable, and check the refusals.
DISABLED = """
linnapp enable /dev/md0 --recordings $OUT/recordings 2>$OUT/again
found again
linnapp disable >$OUT/disabled
linnapp disable /dev/md0 >>$OUT/disabled
cat /sys/block/flash?/linnos/mode $md/linnos >$OUT/modes_disabled
find $OUT/state* $OUT/etc* -name '*.linnos' -o -name drives.conf >$OUT/left || true
mdadm --fail /dev/md0 /dev/flash1
refused enable /dev/md0 --recordings $OUT/recordings
mdadm --stop /dev/md0
refused enable /dev/flash0
refused enable /dev/md7
"""


def bounding_set(unit: Path = UNIT) -> str:
    """Return the capabilities that a unit leaves to its command, as options of setpriv."""
    found = re.search("^CapabilityBoundingSet=(.*)$", unit.read_text(), re.MULTILINE)
    assert found
    return ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in found[1].split())


@pytest.mark.lab
def test_lab_example_of_the_page_runs(tmp_path: Path, guest_programs: Path) -> None:
    command = ["linnapp", "lab", "run", "--out", tmp_path, "--", "sh", "eval/enable.sh", tmp_path]
    path = f"{guest_programs}:{ROOT}/.venv/bin:{os.environ['PATH']}"
    result = subprocess.run(
        ["env", f"PATH={path}", *command], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "md0: reads from the mirror that is predicted to answer first" in result.stderr
    assert "It has a benefit: leave it on." in result.stdout
    assert result.stdout.splitlines()[-4:] == [
        "/dev/md0: linnos off", *(f"/dev/flash{k}: off" for k in range(3))
    ]  # fmt: skip
    assert not (tmp_path / "drives.conf").exists()


@pytest.mark.lab
def test_an_array_is_enabled_restored_and_disabled(boot, tmp_path: Path) -> None:
    (tmp_path / "recordings").mkdir()
    for drive in ("flash0", "flash1", "flash2"):
        recorded = lzma.decompress(RECORDING.read_bytes())
        (tmp_path / "recordings" / f"{drive}.blk").write_bytes(recorded)
    restored = RESTORED.replace("{capabilities}", f"-all,{bounding_set()}")
    text = boot(
        BEGIN + ENABLED + RECORDED_ANEW + restored + DISABLED, Array(precondition=False)
    ).text
    before, enabled = text("found_before"), text("found_enabled")
    assert text("found_refused") == before and text("left_in_small") == ""
    assert before.split() == [*["off"] * 3, *["none"] * 3, "off"]
    assert enabled.split()[:3] == ["observe"] * 3 and enabled.split()[6] == "on"
    assert "none" not in enabled
    assert text("while_recorded").strip() == "off" and text("found_recorded") == enabled
    assert text("recalibrated").count("keep: only 70 reads recorded") == 3
    assert text("found_restored") == enabled
    assert text("found_restored_in_part").split()[:3] == ["observe", "off", "observe"]
    assert text("found_again") == enabled
    conf = load_conf(tmp_path / "first.conf")
    assert [drive.mode for drive in conf.drives.values()] == ["observe"] * 3
    assert text("modes_disabled").split() == ["off"] * 4
    assert text("left") == ""
    refused = text("refused")
    for why in (
        *("small: 1 MiB are free", "md0: no reads during the recording", "gone.linnos", "degraded"),
        "/dev/md7",
    ):
        assert why in refused, refused
