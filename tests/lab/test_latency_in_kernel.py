# SPDX-License-Identifier: MIT
"""Models of both kinds in the kernel: each decision is computed again from its trace event, and its
inputs from the blktrace recording; upload, refusal and replacement under load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from guest_runs import GuestResult

from linnapp.engine import digits, infer, predict_us
from linnapp.insight.explain import Choice, explain, from_events, typical_inputs
from linnapp.model import CAP, FEATURES, LATENCIES, N_LEAVES, N_SPLITS, LatencyModel, Model
from linnapp.trace import decisions
from linnapp.trace.blktrace import (
    MERGED,
    REVOKED,
    SPLIT,
    BlktraceReader,
    IoChunk,
    parse_device,
)

pytestmark = pytest.mark.lab

#: Values that features exceed at times under a small load, by the end of their names.
USUAL = {
    **{"oldest_us": 60, "flight": 2, "overdue": 1, "latency_us": 80, "age_us": 400, "pending": 3},
    "in_region": 0,
}

#: Record the reads and the decisions of the demo's workload.
RECORD = """
linnapp generate demo -o /run/tmp/w --drives 3 --duration SECONDS --seed 7
# The drives' contents are not inspected, because that would be recorded.
replay="replayer --devices $LINNOS_DRIVES --force $LINNOS_DRIVES --policy linnos --prefill none \\
    --fit --trace /run/tmp/w/flash0.iolog,/run/tmp/w/flash1.iolog,/run/tmp/w/flash2.iolog --json"
cd /sys/kernel/debug/tracing
echo 65536 >buffer_size_kb
echo 1 >events/linnos/linnos_decision/enable
for d in flash0 flash1 flash2; do
    linnapp upload --model $OUT/KIND.linnos --device /dev/$d --mode MODE >>$OUT/uploaded
    cmp $OUT/KIND.linnos /sys/block/$d/linnos/model
    # Compare the model's own decisions, without probes.
    echo 1000000000 >/sys/block/$d/linnos/probe_after_us
    echo 1000000000 >/sys/block/$d/linnos/probe_after_revokes
    cat /sys/block/$d/dev >>$OUT/devs
done
linnapp status flash0 flash1 flash2 --json >$OUT/status.json
linnapp trace $(echo $LINNOS_DRIVES | tr , ' ') -o $OUT -- $replay $OUT/run.json
cat trace >$OUT/decisions.txt
cat per_cpu/cpu0/stats >$OUT/stats
"""

#: Then, with a latency model: refused models, and replacement under load.
REPLACED = """
for name in revoked latency_critical inferences false_revokes; do
    echo $name $(cat /sys/block/flash?/linnos/stats/$name) >>$OUT/counts
done

# The old model stays, and the log says why.
model=/sys/block/flash0/linnos/model
for bad in cut magic crc; do
    cat $OUT/$bad.linnos >$model 2>/dev/null && exit 1
    cmp $OUT/trees.linnos $model
done
dmesg | grep 'model refused' >$OUT/refused


for d in flash0 flash1 flash2; do
    echo 10000 >/sys/block/$d/linnos/probe_after_us
    echo 100 >/sys/block/$d/linnos/probe_after_revokes
    echo enforce >/sys/block/$d/linnos/mode
done
echo >trace
$replay $OUT/swapped.json &
for i in $(seq 6); do
    for kind in network trees; do
        for d in flash0 flash1 flash2; do cat $OUT/$kind.linnos >/sys/block/$d/linnos/model; done
        sleep 0.16
    done
done
wait
cat trace >$OUT/swapped.txt

cat /sys/kernel/debug/block/flash?/rqos/linnos/in_flight >$OUT/in_flight
"""


def recorded(boot: Any, kind: str, mode: str, seconds: int, further: str = "") -> GuestResult:
    """Run `RECORD` and further commands; no event may be lost, and no read may fail."""
    script = RECORD.replace("KIND", kind).replace("MODE", mode).replace("SECONDS", str(seconds))
    result: GuestResult = boot(script + further)
    assert "overrun: 0\n" in result.text("stats")
    assert result.json("run.json")["io_errors"] == 0
    return result


def decisions_in(result: GuestResult, name: str) -> npt.NDArray[Any]:
    return decisions.parse_decisions((result.out / name).read_bytes())


def rows_of(decisions: npt.NDArray[Any], reads: IoChunk) -> list[int]:
    """Return the row of the recording for each decision about a drive.

    Reads of a block are taken in their order; if some reads were refused, the first one with the
    same outcome and pending pages. The last try of a read carries no hint and leaves no event.
    """
    rows: dict[tuple[int, int], list[int]] = {}
    for row, key in enumerate(zip(reads.sector.tolist(), reads.size_bytes.tolist(), strict=True)):
        rows.setdefault(key, []).append(row)
    found = []
    is_enforced = decisions["revoked"].any()
    for decision in decisions:
        candidates = rows[int(decision["sector"]), int(decision["n_sectors"]) * 512]
        same = (
            row
            for row in candidates
            if bool(reads.flags[row] & REVOKED) == decision["revoked"]
            and (not is_enforced or reads.pending[row] == decision["pending"])
        )
        row = next(same, None)
        assert row is not None, decision
        candidates.remove(row)
        found.append(row)
    return found


def check_network(seen: npt.NDArray[Any], model: Model) -> npt.NDArray[Any]:
    """Check the outputs of a network; return which reads were predicted slow."""
    inputs = digits(seen["pending"], seen["hist_pending"], seen["hist_latency_us"])
    out = infer(model, inputs, engine="numpy")
    np.testing.assert_array_equal(seen["out_fast"], out[:, 0])
    np.testing.assert_array_equal(seen["out_slow"], out[:, 1])
    slow: npt.NDArray[Any] = out[:, 1] > out[:, 0]
    assert slow.any() and not slow.all()
    return slow


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_kernel_and_blktrace_see_the_same(
    boot: Any, tmp_path: Path, queue_model: Path, mode: str
) -> None:
    model = Model.load(queue_model)
    model.save(tmp_path / "network.linnos")
    result = recorded(boot, "network", mode, 4)
    seen = decisions_in(result, "decisions.txt")
    compared = flags_seen = 0
    for k, dev in enumerate(result.words("devs")):
        decisions = seen[seen["device"] == parse_device(dev)]
        (chunk,) = BlktraceReader(tmp_path / f"flash{k}.blk")
        reads = chunk.take(chunk.is_read)
        row = rows_of(decisions, reads)
        for name in ("pending", "hist_pending", "hist_latency_us"):
            np.testing.assert_array_equal(decisions[name], getattr(reads, name)[row])
        slow = check_network(decisions, model)
        np.testing.assert_array_equal(decisions["revoked"], slow if mode == "enforce" else False)
        compared += len(decisions)
        flags_seen |= int(np.bitwise_or.reduce(reads.flags))
    assert compared == len(seen) > 5000
    # Requests are counted, and a read may have several.
    assert flags_seen & (MERGED | SPLIT)


def made_trees() -> LatencyModel:
    """Return trees over all features that predict both if a few reads are in flight."""
    rng = np.random.default_rng(12)
    usual = np.array(
        [next((us for end, us in USUAL.items() if f.rstrip("_1234").endswith(end)), 8)
         for f in FEATURES]
    )  # fmt: skip
    features = rng.permuted(np.resize(np.arange(len(FEATURES)), 24 * N_SPLITS))
    thresholds = (usual[features] * rng.uniform(0.3, 1.7, features.size)).astype(np.uint32)
    splits = (features.astype(np.uint32) << 24 | thresholds).reshape(-1, N_SPLITS)
    leaves = rng.integers(-200, 201, (len(splits), N_LEAVES)).astype(np.int16)
    return LatencyModel(
        splits, leaves, base=7 << 10, threshold_us=200, refuse_us=128, overdue_us=100
    )


def check(seen: npt.NDArray[Any], model: LatencyModel, *, enforced: bool) -> None:
    """Check that every decision of the trees equals that of numpy for the same features."""
    features = seen["features"]
    us = predict_us(model, features, engine="numpy")
    np.testing.assert_array_equal(seen["out_slow"], us)
    assert (seen["out_fast"] == model.refuse_us).all()
    slow = us > model.refuse_us
    assert slow.any() and not slow.all()
    probe = seen["reason"] == decisions.PROBE
    np.testing.assert_array_equal(seen["reason"] != decisions.FAST, slow)
    np.testing.assert_array_equal(seen["revoked"], slow & ~probe & enforced)
    np.testing.assert_array_equal(features[:, :3].sum(axis=1), seen["pending"])
    # The other columns of the event show the same reads, oldest first.
    known = features[:, [at + 3 for at in LATENCIES]] < CAP
    for ahead, column in ((0, "hist_latency_us"), (1, "hist_pending")):
        same = features[:, [at + ahead for at in LATENCIES]] == seen[column][:, ::-1]
        assert same[known].all()


def test_predictions_of_the_kernel_equal_recomputed_ones(
    boot: Any, tmp_path: Path, queue_model: Path
) -> None:
    trees, network = made_trees(), Model.load(queue_model)
    trees.save(tmp_path / "trees.linnos")
    data = (tmp_path / "trees.linnos").read_bytes()
    network.save(tmp_path / "network.linnos")
    (tmp_path / "cut.linnos").write_bytes(data[:-1])
    (tmp_path / "magic.linnos").write_bytes(b"X" + data[1:])
    (tmp_path / "crc.linnos").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    result = recorded(boot, "trees", "observe", 1, REPLACED)

    drives = result.json("status.json")["drives"]
    assert [drive["model_kind"] for drive in drives] == ["latency"] * 3
    assert {drive["model_id"] for drive in drives} == {trees.model_id}
    assert result.text("uploaded").count(f"latency model {trees.model_id}") == 3
    for why in ("truncated file", "bad magic", "checksum mismatch"):
        assert f"flash0: model refused: {why}" in result.text("refused")

    seen = decisions_in(result, "decisions.txt")
    assert len(seen) > 2000 and seen["of_latency"].all()
    check(seen, trees, enforced=False)
    check_against_recording(seen, result, trees.overdue_us)
    counts = {
        name: sum(map(int, each))
        for name, *each in map(str.split, result.text("counts").splitlines())
    }
    assert counts["latency_critical"] == counts["inferences"] == len(seen)
    assert counts["revoked"] == 0 < counts["false_revokes"]
    device = result.words("devs")[0]
    text = (tmp_path / "decisions.txt").read_bytes()
    selection = from_events(text, trees, Choice(3), "flash0", device=device)
    assert selection.n_seen == np.count_nonzero(seen["device"] == parse_device(device))
    assert len(explain(selection, typical_inputs(selection))) == 3

    swapped = decisions_in(result, "swapped.txt")
    by_latency = swapped["of_latency"]
    assert np.count_nonzero(by_latency) > 200 and np.count_nonzero(~by_latency) > 200
    check(swapped[by_latency], trees, enforced=True)
    check_network(swapped[~by_latency], network)
    assert result.json("swapped.json")["io_errors"] == 0
    assert set(result.text("in_flight").splitlines()) == {"0 pages, 0 reads"}
    assert not any(word in result.dmesg for word in ("BUG", "WARNING", "Call Trace"))


def check_against_recording(seen: npt.NDArray[Any], result: GuestResult, overdue_us: int) -> None:
    """Check that training features equal those in the kernel, except for the location."""
    compared = n_known = 0
    place = FEATURES.index("in_region")
    for k, dev in enumerate(result.words("devs")):
        (chunk,) = BlktraceReader(result.out / f"flash{k}.blk", overdue_us=overdue_us)
        reads = chunk.take(chunk.is_served_read)
        assert reads.features is not None
        decisions = seen[seen["device"] == parse_device(dev)]
        taught = reads.features[rows_of(decisions, reads)]
        np.testing.assert_array_equal(decisions["features"][:, :place], taught[:, :place])
        # The kernel does not report it for hinted reads.
        assert (decisions["features"][:, place] == CAP).all()
        n_known += np.count_nonzero(taught[:, place])
        compared += len(decisions)
    assert compared > 2000 and n_known > 10
