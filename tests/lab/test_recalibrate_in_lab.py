# SPDX-License-Identifier: MIT
"""`linnapp recalibrate` on the kernel's drives: its decisions, and SIGKILL at every step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from linnapp.lab.array import Array
from linnapp.model import Model

pytestmark = pytest.mark.lab

HERE = Path(__file__).parent

#: Quickly trained, but with enough reads to label: 2 s of 1200 reads and 300 writes a second.
#: Two recordings of so few reads of one steady load can have points ten percentiles apart;
#: the old model's point is more than eighty away.
SHIFT_PERCENTILES = 40

#: A network trained on so few reads without bursts is rarely significant.
OPTIONS = f"--duration 2 --shift {SHIFT_PERCENTILES} --epochs 2 --bias 2 --even-if-worse"

RUN = """
export LINNAPP_STATE=$OUT/state
for d in flash0 flash1; do
    fio --name=$d --filename=/dev/$d --rw=randrw --rwmixread=70 --bs=4k --direct=1 --iodepth=8 \\
        --ioengine=io_uring --rate_iops=1200,300 --rate_process=poisson --time_based \\
        --runtime=100000 --clocksource=clock_gettime --randseed=7 >/dev/null 2>$OUT/$d.fio &
done
python {here}/recalibrate_and_kill.py --devices /dev/flash0 /dev/flash1 --models $OUT/models \\
    --log $OUT/log --old {old} -- {options}
"""

#: Steps in which drives in mode enforce are in mode observe: a copy is killed, and the run itself
#: still has its recording. If the run is killed, a second process restores the modes.
RECORDED = {"merging"}

#: steps after which the first drive, or both, may have the new model; before them none may
FIRST_IS_NEW = {"uploaded", "second upload"}
BOTH_ARE_NEW = {"second uploaded", "remembering"}


@pytest.fixture
def old_model(queue_model: Path, tmp_path: Path) -> Path:
    """Return a model that revokes every read; no drive has its inflection point any more."""
    model = Model.load(queue_model)
    path = tmp_path / "old.linnos"
    Model(
        hidden_weights=model.hidden_weights,
        hidden_bias=model.hidden_bias,
        output_weights=model.output_weights,
        output_bias=model.output_bias - [10**12, 0],
        threshold_us=1,
    ).save(path)
    return path


@pytest.mark.long
def test_a_run_killed_at_any_step_leaves_every_drive_a_working_model(
    boot, tmp_path: Path, old_model: Path
) -> None:
    ran = boot(
        RUN.format(here=HERE, old=old_model, options=OPTIONS),
        Array(n_drives=2, size_mb=256),
    )
    log = (tmp_path / "log").read_text()
    reports = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    old_id = Model.load(old_model).model_id
    killed, whole = reports[:-2], reports[-2:]
    assert len(killed) == 13
    for report in reports:
        for drive in report["drives"].values():
            mode = "observe" if report["step"] in RECORDED else "enforce"
            assert drive["whole"] and drive["mode"] == mode, (report, log)
            assert drive["decisions"] == drive["answered"] + drive["revoked"] == 50, report
        # If the tracer is killed too, the kernel keeps tracing; the next run ends that.
        assert report["traced"] == (report["step"] == "recording, tracer too"), report
    for report in killed:
        assert report["signal"] == 9, (report, log)
        new = [drive["model_id"] != old_id for drive in report["drives"].values()]
        expected = [report["step"] in FIRST_IS_NEW | BOTH_ARE_NEW, report["step"] in BOTH_ARE_NEW]
        assert new == expected, (report, log)

    # Finally, an undisturbed run completes.
    for report in whole:
        assert (report["signal"], report["status"]) == (0, 0), log
    first, second = (report["drives"] for report in whole)
    kept = log.split("--- second whole run\n")[1]
    for name, drive in first.items():
        assert drive["model_id"] != old_id and drive["threshold_us"] > 50
        saved = [Model.load(path).model_id for path in tmp_path.glob(f"models/*/{name}.linnos")]
        assert drive["model_id"] in saved
        assert f"{name}: better: for the newest" in log
        assert f"{name}: keep: the active threshold, {drive['threshold_us']} us" in kept
        assert second[name]["model_id"] == drive["model_id"]
        history = (tmp_path / "state" / name / "recalibration.jsonl").read_text().splitlines()
        decisions = [json.loads(line) for line in history]
        assert [d["retrain"] for d in decisions] == [True, False]
        before, after = (d["shift_percentiles"] for d in decisions)
        assert before >= SHIFT_PERCENTILES > after
        assert Model.load(tmp_path / "state" / name / "previous.linnos").model_id == old_id
    left = [path.name for path in (tmp_path / "models").iterdir() if path.name.startswith(".")]
    assert left == [".lock"]
