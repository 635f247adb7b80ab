# SPDX-License-Identifier: MIT
"""`linnapp keep` on plain files in place of sysfs; test_keep_in_lab.py uses the real kernel."""

from __future__ import annotations

import bisect
import dataclasses
import fcntl
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_sysfs import FakeSysfs
from test_cli import ROOT
from test_deployment import recordings as recordings
from test_exporter import check_rules, needs_prometheus
from test_latency_model import random_trees
from test_model_format import random_model

from linnapp.drive import switches, watchdog
from linnapp.drive.drives_conf import ArrayEntry, DriveEntry, DrivesConf, load_conf, save_conf
from linnapp.drive.expectations import (
    AVOID_RATIO,
    MIN_CHECKS,
    MIN_SERVED,
    Measured,
    MeasuredDrive,
    Served,
    TrainingExpectation,
)
from linnapp.drive.latencies import LOWEST_US, N_BUCKETS
from linnapp.drive.md import MdArray
from linnapp.drive.sysfs import Drive
from linnapp.drive.watchdog import Watchdog, is_redirected, served_by
from linnapp.errors import LinnappError
from linnapp.learn.report import SIZES_TO_PAGES, record_of_predictions
from linnapp.trace.decisions import Answer, Question, parse_questions

Run = Callable[..., Any]

#: 5 % are refused, and 2 % of the others are slow.
TEST = {"true_fast": 931, "false_submit": 19, "true_slow": 20, "false_revoke": 30}


def latency_record(model_id: str, *us: int) -> dict[str, Any]:
    return {
        "model_id": model_id,
        "kind": "latency",
        "test": TEST,
        "mean_abs_log2_error": 0.5,
        "predicted_us": [{"pages_to": 16, "share": 1.0, "percentiles": us or [100] * 20}],
    }


# -- queries, as the kernel prints them --

EVENTS = b"""# entries-in-buffer/entries-written: 9/9   #P:1
f job-21-77 [000] .. 10.000001: linnos_expected: dev=8:0 pending=1 expected=fast latency_us=400
   md0_r-9 [001] d. 10.000002: linnos_expected: dev=8:0 pending=1 expected=unknown latency_us=0
f job-21-77 [000] .. 10.000003: linnos_expected: dev=8:16 pending=1 expected=fast latency_us=90
f job-21-77 [000] .. 10.000004: block_bio_queue: 9,0 R 64 + 8 [f]
f job-21-77 [000] .. 10.000005: block_bio_queue: 8,16 RS 2112 + 8 [f]
f job-21-77 [000] .. 10.000006: block_rq_issue: 8,16 RS 4096 () 2112 + 8 [f]
   md0_r-9 [001] d. 10.000007: block_bio_queue: 8,16 R 9000 + 8 [md0_r]
          <idle>-0 [001] d. 10.000106: block_rq_complete: 8,16 RS () 2112 + 8 [0]
f job-21-77 [000] .. 10.000200: linnos_expected: dev=8:0 pending=1 expected=probe latency_us=700
f job-21-77 [000] .. 10.000201: block_bio_queue: 8,0 R 64 + 8 [f]
f job-21-77 [000] .. 10.000202: block_rq_issue: 8,0 R 4096 () 64 + 8 [f]
          <idle>-0 [001] d. 10.000902: block_rq_complete: 8,0 R () 64 + 8 [5]
f job-21-77 [000] .. 10.001000: linnos_expected: dev=8:0 pending=1 expected=fast latency_us=70
f job-21-77 [000] .. 10.001001: block_bio_queue: 8,0 W 64 + 8 [f]
"""
SDA, SDB = 8 << 20, 8 << 20 | 16


def test_queries_belong_to_the_next_read_of_their_task() -> None:
    first, second = parse_questions(EVENTS)
    assert first == Question({SDA: Answer("fast", 400), SDB: Answer("fast", 90)}, SDB, 100)
    assert is_redirected(first, SDA) and not is_redirected(first, SDB)
    assert served_by(SDB, [first]) == [Served(90, False, 100)]
    assert served_by(SDA, [first]) == []
    # A failed read has no meaningful latency.
    assert second == Question({SDA: Answer("probe", 700)}, SDA, -1)
    assert served_by(SDA, [second]) == [] and not is_redirected(second, SDA)
    assert parse_questions(b"") == []


@pytest.mark.parametrize(
    ("here", "there", "over"),
    [
        (Answer("fast", 120), Answer("fast", 90), False),
        (Answer("fast", 121), Answer("fast", 90), True),
        (Answer("slow", 0), Answer("fast", 0), True),
        (Answer("slow", 0), Answer("slow", 0), False),
        (Answer("slow", 0), Answer("fast", 900), True),
        (Answer("unknown", 0), Answer("fast", 0), False),
    ],
)
def test_reads_are_steered_as_in_md(here: Answer, there: Answer, over: bool) -> None:
    assert is_redirected(Question({SDA: here, SDB: there}, SDB, 9), SDA) == over
    assert not is_redirected(Question({SDA: here, SDB: there}, SDA, 9), SDA)


# -- expectations from training --


def expected(*us: int) -> TrainingExpectation:
    return TrainingExpectation("id", 0.05, 0.5, {16: (1.0, us)} if us else {})


def test_expected_steering_follows_from_random_predictions() -> None:
    alike, twice = expected(100, 100), expected(200, 200)
    assert alike.redirected([alike]) == 0.0
    assert twice.redirected([alike]) == 1.0 and alike.redirected([twice]) == 0.0
    # Every second read is predicted slow, on both drives.
    both = expected(100, 1000)
    assert both.redirected([both]) == pytest.approx(0.25)
    assert both.redirected([both, both]) == pytest.approx(0.375)
    # Networks predict no latencies.
    assert expected().redirected([both]) == 0.05
    sizes = TrainingExpectation("id", 0.0, 0.5, {16: (0.5, [100]), 256: (0.5, [1000])})
    assert sizes.redirected([expected(100)]) == 0.5


def test_foreseen_takes_expectations_from_the_training_record(tmp_path: Path) -> None:
    us = np.arange(1, 1001, dtype=np.uint32)
    pages = np.where(us <= 900, 1, 32)
    small, large = record_of_predictions(us, pages)
    assert (small["pages_to"], small["share"], large["share"]) == (16, 0.9, 0.1)
    assert small["percentiles"][0] == pytest.approx(23, abs=1) and len(large["percentiles"]) == 20
    record = {**latency_record("00000001"), "predicted_us": [small, large]}
    (tmp_path / "m.json").write_text(json.dumps(record))
    entry = DriveEntry("observe", tmp_path / "m.linnos")
    found = TrainingExpectation.load(entry, "00000001")
    assert found.refused == 0.05 and found.error == 0.5 and found.predicts_us
    (tmp_path / "m.json").write_text(json.dumps({"model_id": "00000002", "test": TEST}))
    network = TrainingExpectation.load(entry, "00000002")
    assert network.error == 0.02 and not network.predicts_us
    for text, says in (
        ("{", "does not contain expectations"),
        ("[]", "does not contain expectations"),
        (json.dumps({**record, "predicted_us": None}), "does not contain .*train again"),
        (json.dumps({**record, "test": dict.fromkeys(TEST, 0)}), "does not contain"),
        (json.dumps({**record, "model_id": "x"}), "describes model x, and 00000001 is active"),
    ):
        (tmp_path / "m.json").write_text(text)
        with pytest.raises(LinnappError, match=says):
            TrainingExpectation.load(entry, "00000001")
    (tmp_path / "m.json").unlink()
    with pytest.raises(LinnappError, match="No such file"):
        TrainingExpectation.load(entry, "00000001")


# -- bounds and their duration --


def figure(*shares: float, window_s: float = 600, n: int = 100, every_s: float = 60) -> str:
    found = Measured.share("reads are X", 0.05)
    for k, share in enumerate(shares):
        found.add(share * n, n, k * every_s)
        found.check((k + 1) * every_s, window_s)
    return found.fault(len(shares) * every_s, window_s)


def test_keeper_resets_after_ten_bad_minutes_in_a_row() -> None:
    assert figure(*[0.21] * 9) == ""
    assert (
        figure(*[0.21] * 10)
        == "21% of the reads are X (expected from training: 5%, the bound is 20%)"
    )
    assert figure(*[0.20] * 100) == ""
    # A minute within the bound restarts the count.
    assert figure(*[1.0] * 9, 0.1, *[1.0] * 9) == ""
    assert figure(*[1.0] * 9, 0.1, *[1.0] * 10) != ""
    # Even in a short window, one check is not enough.
    assert figure(*[1.0] * (MIN_CHECKS - 1), window_s=0) == ""
    assert figure(*[1.0] * MIN_CHECKS, window_s=0) != ""


def test_keeper_accumulates_few_reads() -> None:
    # 20 per minute: checked every five minutes, at least three times.
    assert figure(*[1.0] * 14, n=20) == ""
    assert figure(*[1.0] * 15, n=20) != ""
    # If 100 reads take more than ten minutes, there is no result for ten minutes.
    assert figure(*[1.0] * 200, n=9) == ""
    # A night without reads does not count.
    found = Measured.share("reads are X", 0.05)
    for begin_s in (*range(0, 540, 60), 30_000, 30_060):
        found.add(100, 100, begin_s)
        found.check(begin_s + 60, 600)
    assert found.fault(30_120, 600) == ""


def mirror(block: Path, seen: TrainingExpectation) -> MeasuredDrive:
    (block / "sda" / "linnos" / "threshold_us").write_text("500\n")
    return MeasuredDrive(Drive("sda"), seen, "reads are refused", seen.refused)


def test_keeper_resets_an_array_with_wrong_predictions(block: Path) -> None:
    def why(seen: TrainingExpectation, served: Served) -> str:
        found = mirror(block, seen)
        for k in range(10):
            found.add([served] * 100, 60 * k)
            found.check(60 * k + 60, 600, is_slow=False)
        return found.fault(600, 600)

    # Expected: half a doubling. The bound is one more: a factor of 2.8 in either direction.
    for latency_us in (280, 36):
        assert why(expected(100), Served(100, False, latency_us)) == ""
    for latency_us in (290, 35):
        assert why(expected(100), Served(100, False, latency_us)).startswith(
            "sda: predictions are off by a factor of 2.9 in the mean (expected from training: "
            "1.4, the bound is 2.8)"
        )
    seen = dataclasses.replace(expected(), error=0.02)
    assert why(seen, Served(0, False, 500)) == ""
    assert "100% of the reads called fast were slow" in why(seen, Served(0, False, 501))
    # Reads that were predicted slow are no error.
    assert why(seen, Served(0, True, 501)) == ""


# -- checks and resets --


@pytest.fixture
def kept(block: Path, tmp_path: Path) -> Path:
    """Return the file of an array that queries and drives that observe; sdb also refuses."""
    array = f"{tmp_path}/by-id/md-uuid-0"
    drives = {}
    for number, name in enumerate(("sda", "sdb")):
        (block / name / "dev").write_text(f"8:{16 * number}\n")
        model = random_trees(np.random.default_rng(number))
        path = tmp_path / "models" / f"{name}.linnos"
        path.parent.mkdir(exist_ok=True)
        model.save(path)
        path.with_suffix(".json").write_text(json.dumps(latency_record(model.model_id)))
        Drive(name).upload(model)
        Drive(name).set_mode("observe")
        drives[f"{tmp_path}/by-id/wwn-{name}"] = DriveEntry("observe", path, array)
    (block / "md0" / "md" / "linnos").write_text("on\n")
    conf = tmp_path / "etc" / "drives.conf"
    save_conf(conf, DrivesConf(drives, {array: ArrayEntry(True)}))
    return conf


@pytest.fixture
def block(sysfs: FakeSysfs) -> Path:
    return sysfs.block


class Clock:
    """A fake clock that advances on sleep, and the events that are sampled meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.seen: Callable[[], bytes] = lambda: b""
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(watchdog, "recording", self._recording)

    def _recording(self, events: Any, *devices: int) -> Any:
        class Recorder:
            def __enter__(_) -> Any:  # noqa: N805
                return _

            def __exit__(_, *__: Any) -> None:  # noqa: N805
                pass

            def stop(_, *__: str) -> None:  # noqa: N805
                pass

            def text(_) -> bytes:  # noqa: N805
                return self.seen()

        return Recorder()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock(monkeypatch)
    monkeypatch.setattr(time, "sleep", lambda s: None)
    return found


def check_each_minute(keeper: Watchdog, clock: Clock, n: int) -> None:
    for _ in range(n):
        keeper.check()
        clock.now_s += 60


def asked(latency_us: int, *, here_us: int = 100, there_us: int = 100, sent: str = "8,0") -> bytes:
    """Return events of reads of this latency, predicted for sda and sdb, sent to one of them."""
    event = (
        "x-1 [000] .. {t:.6f}: linnos_expected: dev=8:0 pending=1 expected=fast latency_us={a}\n"
        "x-1 [000] .. {t:.6f}: linnos_expected: dev=8:16 pending=1 expected=fast latency_us={b}\n"
        "x-1 [000] .. {t:.6f}: block_bio_queue: {d} R {s} + 8 [x]\n"
        "x-1 [000] .. {t:.6f}: block_rq_issue: {d} R 4096 () {s} + 8 [x]\n"
        "x-1 [000] .. {e:.6f}: block_rq_complete: {d} R () {s} + 8 [0]\n"
    )
    return "".join(
        event.format(
            t=k / 100, e=k / 100 + latency_us / 1e6, s=8 * k, a=here_us, b=there_us, d=sent
        )
        for k in range(1, 201)
    ).encode()


def count(block: Path, name: str, us: int, n: int) -> None:
    """Make a drive serve this many more reads of that latency."""
    path = block / name / "linnos" / "latency_us_histogram"
    counts = [int(word) for word in path.read_text().split()] if path.exists() else [0] * N_BUCKETS
    counts[bisect.bisect_right(LOWEST_US, us) - 1] += n
    path.write_text(" ".join(map(str, counts)) + "\n")


@pytest.mark.parametrize(
    ("us", "n", "rightly"),
    [(2000, MIN_SERVED, True), (2000, MIN_SERVED - 1, False), (110, 100, False), (90, 100, False)],
)
def test_steering_away_from_a_slow_mirror_is_accepted(
    kept: Path, clock: Clock, block: Path, us: int, n: int, rightly: bool
) -> None:
    """Redirect all reads unexpectedly; this is right if the mirror is slow for other reads."""
    said: list[str] = []
    keeper = Watchdog(kept, 600, 60, said.append, verbose=True)
    clock.seen = lambda: asked(100, here_us=2000, sent="8,16")
    for _ in range(30):
        count(block, "sda", us, n)
        count(block, "sdb", 100, 200)
        check_each_minute(keeper, clock, 1)
    assert bool(MdArray("md0").asks) == rightly
    assert "sda: too few reads yet" in said[1]
    assert "sda: 100% of the reads are redirected by predictions" in said[3]
    assert rightly or "reset: sda: 100% of the reads are redirected" in said[-1]


def test_array_is_reset_and_stays_off(
    run: Run,
    kept: Path,
    clock: Clock,
    block: Path,
    tmp_path: Path,
    lines: list[str],
) -> None:
    said: list[str] = []
    keeper = Watchdog(kept, 600, 60, said.append, verbose=False)
    clock.seen = lambda: asked(150)
    check_each_minute(keeper, clock, 30)
    clock.seen = lambda: asked(5000)
    check_each_minute(keeper, clock, 9)
    clock.seen = lambda: asked(150)
    check_each_minute(keeper, clock, 20)
    assert MdArray("md0").asks and len(said) == 1
    assert "md-uuid-0: is checked, models " in said[0]

    clock.seen = lambda: asked(5000)
    check_each_minute(keeper, clock, 10)
    array = f"{tmp_path}/by-id/md-uuid-0"
    assert not MdArray("md0").asks
    assert f"{array}: reset: sda: predictions are off by a factor of 50.0" in said[1]
    assert "for 10 minutes" in said[1]
    assert any("md0: linnos on -> off" in line for line in lines)
    assert any("reset: sda: predictions are off" in line for line in lines)
    conf = load_conf(kept)
    assert conf.arrays == {array: ArrayEntry(False)} and len(conf.drives) == 2
    check_each_minute(keeper, clock, 20)
    assert len(said) == 2

    # All views show it until the array is enabled again.
    for words in (["status"], ["restore"], ["status", "--json"]):
        shown = " ".join(run(*words).output.split())
        assert "predictions are off by a factor of 50.0" in shown, words
    assert (
        'linnos_switched_back_timestamp_seconds{device="md0"}' in run("exporter", "--once").output
    )
    assert (block / "md0" / "md" / "linnos").read_text().strip() == "off"
    MdArray("md0").set_asks(True)
    assert switches.current_resets() == []
    assert "predictions are off" not in run("status").output
    MdArray("md0").set_asks(False)
    assert len(switches.current_resets()) == 1
    assert run("disable").exit_code == 0
    assert switches.current_resets() == []
    # Only the last snapshot of status remains.
    left = [path.name for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert set(left) == {"status.json"}


def test_enabling_again_clears_the_reset(
    run: Run, kept: Path, clock: Clock, tmp_path: Path, recordings: Path
) -> None:
    keeper = Watchdog(kept, 600, 60, lambda line: None, verbose=False)
    clock.seen = lambda: asked(5000)
    check_each_minute(keeper, clock, 12)
    assert [found.current_name for found in switches.current_resets()] == ["md0"]
    ran = run("enable", "md0", "--recordings", recordings)
    assert ran.exit_code == 0, ran.output
    assert MdArray("md0").asks
    # Not even if it is then disabled manually.
    MdArray("md0").set_asks(False)
    assert switches.current_resets() == []


def enforcing(kept: Path, block: Path, tmp_path: Path) -> Path:
    """Make sdb refuse by a network; return its counters."""
    name, path = f"{tmp_path}/by-id/wwn-sdb", tmp_path / "models" / "net.linnos"
    model = random_model(3)
    model.save(path)
    path.with_suffix(".json").write_text(json.dumps({"model_id": model.model_id, "test": TEST}))
    Drive("sdb").upload(model)
    Drive("sdb").set_mode("enforce")
    conf = load_conf(kept)
    save_conf(
        kept, conf.updated(DrivesConf({name: DriveEntry("enforce", path)})).without(conf.arrays)
    )
    return block / "sdb" / "linnos" / "stats"


@pytest.mark.parametrize(
    ("refused", "us", "back"), [(30, 100, False), (60, 100, True), (60, 2**20, False)]
)
def test_drive_with_too_many_refusals_is_reset_to_observe(
    kept: Path, clock: Clock, block: Path, tmp_path: Path, refused: int, us: int, back: bool
) -> None:
    """Unless the reads that it serves are slower than the model's threshold."""
    stats = enforcing(kept, block, tmp_path)
    keeper = Watchdog(kept, 600, 60, lambda line: None, verbose=False)
    for k in range(12):
        (stats / "latency_critical").write_text(f"{200 * k}\n")
        (stats / "revoked").write_text(f"{refused * k}\n")
        count(block, "sdb", us, 20)
        check_each_minute(keeper, clock, 1)
    assert Drive("sdb").mode == ("observe" if back else "enforce")
    conf = load_conf(kept)
    assert conf.drives[f"{tmp_path}/by-id/wwn-sdb"].mode == Drive("sdb").mode
    if back:
        [found] = switches.current_resets()
        assert found.why.startswith("sdb: 30% of the hinted reads are refused")
        assert "linnapp recalibrate" in found.describe()


def test_keeper_waits_while_another_command_holds_the_lock(
    kept: Path,
    clock: Clock,
    block: Path,
    tmp_path: Path,
) -> None:
    """A trial switches the array itself, so a wrong mode is reset only after the trial."""
    said: list[str] = []
    keeper = Watchdog(kept, 600, 60, said.append, verbose=False)
    clock.seen = lambda: asked(5000)
    (tmp_path / "state" / "enable").mkdir(parents=True)
    with (tmp_path / "state" / "enable" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        check_each_minute(keeper, clock, 20)
        assert MdArray("md0").asks
        assert sum("must be reset, but: " in line for line in said) == 1
    check_each_minute(keeper, clock, 1)
    assert not MdArray("md0").asks


def test_margin_and_size_classes_equal_the_kernels() -> None:
    headers = [
        (ROOT / name).read_text()
        for name in ("kernel/linnos/include/linux/blk-linnos.h", "core/linnos_model.h")
    ]
    values = dict(re.findall(r"^#define (\w+) (\d+)$", "\n".join(headers), re.M))
    assert int(values["BLK_LINNOS_MARGIN_PERCENT"]) == 100 * (1 - AVOID_RATIO)
    orders = ("LINNOS_SMALL_PAGES", "LINNOS_MEDIUM_PAGES")
    assert SIZES_TO_PAGES[:-1] == tuple(int(values[name]) for name in orders)


def test_keeper_reports_an_unusable_configuration_once(
    kept: Path,
    clock: Clock,
    block: Path,
    tmp_path: Path,
) -> None:
    said: list[str] = []
    keeper = Watchdog(kept, 600, 60, said.append, verbose=False)
    (tmp_path / "models" / "sda.json").unlink()
    check_each_minute(keeper, clock, 3)
    assert len(said) == 1 and "is not checked: " in said[0] and "sda.json" in said[0]
    whole = kept.read_text()
    kept.write_text("[what]\n")
    check_each_minute(keeper, clock, 3)
    assert len(said) == 2 and "expected [drive NAME]" in said[1]
    kept.unlink()
    check_each_minute(keeper, clock, 1)
    # The active model is not that of the file, so nothing is known about it.
    kept.write_text(whole)
    Drive("sda").upload(random_trees(np.random.default_rng(9)))
    (tmp_path / "models" / "sda.json").write_text(json.dumps(latency_record("00000000")))
    check_each_minute(keeper, clock, 2)
    assert len(said) == 3 and "describes model 00000000, and " in said[2]


RULE_TEST = """
1m
linnos_switched_back_timestamp_seconds{device="md0",instance="i"} _x10 1795000000x20 stale
linnos_switched_back_timestamp_seconds{device="md1",instance="i"} _x60
at 9m of LinnosSwitchedBack:
at 12m of LinnosSwitchedBack:
  LinnosSwitchedBack{device="md0",instance="i",severity="warning"}
at 40m of LinnosSwitchedBack:
"""


@needs_prometheus
def test_alert_fires_from_the_reset_until_enabled_again(tmp_path: Path) -> None:
    check_rules(tmp_path, RULE_TEST)
