# SPDX-License-Identifier: MIT
"""A latency model in the kernel: uploaded, asked, replaced under load; all it said is checked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from linnapp.insight.explain import Choice, explain, from_events, usual_of
from linnapp.learn.features.digits import digits
from linnapp.model import LatencyModel, Model
from linnapp.model.engine import infer
from linnapp.model.latency_engine import predict_us
from linnapp.model.latency_model import CAP, FEATURES, LATENCIES, N_LEAVES, N_SPLITS
from linnapp.trace.blktrace import BlktraceReader, parse_device
from linnapp.trace.formats import decisions

pytestmark = pytest.mark.lab

#: Thresholds that a small load passes now and then, by the end of a feature's name.
USUAL = {
    **{"oldest_us": 60, "flight": 2, "overdue": 1, "latency_us": 80, "age_us": 400, "pending": 3},
    "in_region": 0,
}

RUN = """
linnapp generate demo -o /run/tmp/w --drives 3 --duration 1 --seed 7
cd /sys/kernel/debug/tracing
echo 65536 >buffer_size_kb
echo 1 >events/linnos/linnos_decision/enable
for d in flash0 flash1 flash2; do
    linnapp upload --model $OUT/trees.linnos --device /dev/$d --mode observe >>$OUT/uploaded
    cmp $OUT/trees.linnos /sys/block/$d/linnos/model
    cat /sys/block/$d/dev >>$OUT/devs
done
linnapp status flash0 flash1 flash2 --json >$OUT/status.json
linnapp trace $(echo $LINNOS_DRIVES | tr , ' ') -o $OUT -- replayer --devices $LINNOS_DRIVES \
    --trace /run/tmp/w/flash0.iolog,/run/tmp/w/flash1.iolog,/run/tmp/w/flash2.iolog \
    --policy linnos --prefill none --fit --json $OUT/run.json --force $LINNOS_DRIVES
cat trace >$OUT/decisions.txt
cat per_cpu/cpu0/stats >$OUT/stats
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

# Back and forth under load.
for d in flash0 flash1 flash2; do echo enforce >/sys/block/$d/linnos/mode; done
echo >trace
replayer --devices $LINNOS_DRIVES \
    --trace /run/tmp/w/flash0.iolog,/run/tmp/w/flash1.iolog,/run/tmp/w/flash2.iolog \
    --policy linnos --prefill none --fit --json $OUT/swapped.json --force $LINNOS_DRIVES &
for i in $(seq 6); do
    for kind in network trees; do
        for d in flash0 flash1 flash2; do cat $OUT/$kind.linnos >/sys/block/$d/linnos/model; done
        sleep 0.16
    done
done
wait
cat trace >$OUT/swapped.txt

# Peers: mistakes first, then under load, with a fourth that comes and goes.
for d in flash0 flash1 flash2; do cat $OUT/trees.linnos >/sys/block/$d/linnos/model; done
python3 $OUT/name_peers.py >$OUT/named
dmesg | grep 'peers refused' >$OUT/peers_refused
echo flash1 flash2 >/sys/block/flash0/linnos/peers
echo flash2 flash0 >/sys/block/flash1/linnos/peers
echo flash0 flash1 >/sys/block/flash2/linnos/peers
echo 1 >events/linnos/linnos_peer/enable
echo >trace
counts() {
    for name in kept expected_gain_us revoked; do
        for d in 0 1 2; do cat /sys/block/flash$d/linnos/stats/$name; done
    done
}
counts >$OUT/before
replayer --devices $LINNOS_DRIVES \
    --trace /run/tmp/w/flash0.iolog,/run/tmp/w/flash1.iolog,/run/tmp/w/flash2.iolog \
    --policy linnos --prefill none --fit --json $OUT/peers.json --force $LINNOS_DRIVES &
linnapp explain flash0 --last 200 --json >$OUT/explained.json &
extra=/sys/kernel/config/flashsim/flash3
for i in $(seq 4); do
    mkdir $extra
    echo 16 >$extra/size_mb
    echo 1 >$extra/power
    cat $OUT/trees.linnos >/sys/block/flash3/linnos/model
    echo observe >/sys/block/flash3/linnos/mode
    cat /sys/block/flash3/dev >>$OUT/extra_devs
    for d in 0 1 2; do
        echo $(cat /sys/block/flash$d/linnos/peers) flash3 >/sys/block/flash$d/linnos/peers
    done
    sleep 0.1
    echo 0 >$extra/power
    rmdir $extra
    cat /sys/block/flash?/linnos/peers >>$OUT/left
    sleep 0.05
done
wait
counts >$OUT/after
cat trace >$OUT/peers.txt
cat per_cpu/cpu0/stats >$OUT/stats_of_peers
cat /sys/kernel/debug/block/flash?/rqos/linnos/in_flight >$OUT/in_flight
"""

#: What naming others than drives with the same data gives.
WRONG_PEERS = {
    "flash0": "EINVAL",
    "flash1 flash0": "EINVAL",
    "flash1 nosuch": "ENODEV",
    "/dev/flash1": "ENODEV",
    "flash1,flash2": "ENODEV",
    # one that has gone, and a partition
    "flash9": "ENODEV",
    "flash1p1": "ENODEV",
    "flash1 flash2 flash1": "EEXIST",
    "flash1 flash2 loop0 loop1 loop2 loop3 loop4 loop5": "E2BIG",
}

NAME_PEERS = f"""
import errno, subprocess
from pathlib import Path
peers = Path("/sys/block/flash0/linnos/peers")
drive = Path("/sys/kernel/config/flashsim/flash9")
drive.mkdir()
(drive / "size_mb").write_text("16")
(drive / "power").write_text("1")
peers.write_text("flash9")
assert peers.read_text() == "flash9\\n"
(drive / "power").write_text("0")
drive.rmdir()
assert peers.read_text() == "\\n"
subprocess.run(["addpart", "/dev/flash1", "1", "2048", "2048"], check=True)
assert Path("/sys/block/flash1/flash1p1/partition").exists()
peers.write_text("flash2 flash1")
for names in {list(WRONG_PEERS)!r}:
    try:
        peers.write_text(names)
        print("taken:", names)
    except OSError as error:
        print(errno.errorcode[error.errno] + ":", names)
    assert peers.read_text() == "flash2 flash1\\n", peers.read_text()
subprocess.run(["delpart", "/dev/flash1", "1"], check=True)
"""

_PEER = re.compile(
    rb"linnos_(peer|decision): +dev=(\d+:\d+) sector=(\d+) "
    rb"(?:peer=(\d+:\d+) pending=(\d+) expected=([a-z]+) latency_us=(\d+)"
    rb"(?: features=\{([^}\n]*)\})?)?"
)


def made_trees() -> LatencyModel:
    """Trees over all features, undecided about a drive with a few reads in flight."""
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
    """Every decision of the trees is what numpy makes of what they saw."""
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


def test_all_that_it_said_is_recomputed(boot: Any, tmp_path: Path, queue_model: Path) -> None:
    trees, network = made_trees(), Model.load(queue_model)
    trees.save(tmp_path / "trees.linnos")
    data = (tmp_path / "trees.linnos").read_bytes()
    network.save(tmp_path / "network.linnos")
    (tmp_path / "cut.linnos").write_bytes(data[:-1])
    (tmp_path / "magic.linnos").write_bytes(b"X" + data[1:])
    (tmp_path / "crc.linnos").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    (tmp_path / "name_peers.py").write_text(NAME_PEERS)
    ran = boot(RUN)

    assert "overrun: 0\n" in (tmp_path / "stats").read_text()
    drives = json.loads((tmp_path / "status.json").read_text())["drives"]
    assert [one["model_kind"] for one in drives] == ["latency"] * 3
    assert {one["model_id"] for one in drives} == {trees.model_id}
    assert (tmp_path / "uploaded").read_text().count(f"latency model {trees.model_id}") == 3
    refused = (tmp_path / "refused").read_text()
    for why in ("truncated file", "bad magic", "checksum mismatch"):
        assert f"flash0: model refused: {why}" in refused

    seen = decisions.parse_decisions((tmp_path / "decisions.txt").read_bytes())
    assert len(seen) > 2000 and seen["of_latency"].all()
    check(seen, trees, enforced=False)
    check_against_recording(seen, tmp_path, trees.overdue_us)
    counts = {
        name: sum(map(int, each))
        for name, *each in map(str.split, (tmp_path / "counts").read_text().splitlines())
    }
    assert counts["latency_critical"] == counts["inferences"] == len(seen)
    assert counts["revoked"] == 0 < counts["false_revokes"]
    device = (tmp_path / "devs").read_text().split()[0]
    text = (tmp_path / "decisions.txt").read_bytes()
    looked = from_events(text, trees, Choice(3), "flash0", device=device)
    assert looked.n_seen == np.count_nonzero(seen["device"] == parse_device(device))
    assert len(explain(looked, usual_of(looked))) == 3

    swapped = decisions.parse_decisions((tmp_path / "swapped.txt").read_bytes())
    of = swapped["of_latency"]
    assert np.count_nonzero(of) > 200 and np.count_nonzero(~of) > 200
    check(swapped[of], trees, enforced=True)
    by_network = swapped[~of]
    out = infer(
        network,
        digits(by_network["pending"], by_network["hist_pending"], by_network["hist_latency_us"]),
        engine="numpy",
    )
    np.testing.assert_array_equal(by_network["out_fast"], out[:, 0])
    np.testing.assert_array_equal(by_network["out_slow"], out[:, 1])
    check_peers(tmp_path, trees)
    for name in ("run", "swapped", "peers"):
        assert json.loads((tmp_path / f"{name}.json").read_text())["io_errors"] == 0
    assert set((tmp_path / "in_flight").read_text().splitlines()) == {"0 pages, 0 reads"}
    assert not any(word in ran.dmesg for word in ("BUG", "WARNING", "Call Trace"))


def check_against_recording(seen: npt.NDArray[Any], folder: Path, overdue_us: int) -> None:
    """What trees are taught from a recording is what the kernel showed them, but for the place."""
    compared = met = 0
    place = FEATURES.index("in_region")
    for k, dev in enumerate((folder / "devs").read_text().split()):
        (chunk,) = BlktraceReader(folder / f"flash{k}.blk", overdue_us=overdue_us)
        reads = chunk.take(chunk.is_served_read)
        assert reads.features is not None
        mine = seen[seen["device"] == parse_device(dev)]
        rows: dict[tuple[int, int], list[int]] = {}
        for row, key in enumerate(
            zip(reads.sector.tolist(), reads.size_bytes.tolist(), strict=True)
        ):
            rows.setdefault(key, []).append(row)
        row = [rows[int(one["sector"]), int(one["n_sectors"]) * 512].pop(0) for one in mine]
        taught = reads.features[row]
        np.testing.assert_array_equal(mine["features"][:, :place], taught[:, :place])
        # The kernel does not say it of hinted reads.
        assert (mine["features"][:, place] == CAP).all()
        met += np.count_nonzero(taught[:, place])
        compared += len(mine)
    assert compared > 2000 and met > 10


def check_peers(folder: Path, model: LatencyModel) -> None:
    """A slow read was refused if a peer was sooner by more than a failover, and only then."""
    named = [line.split(": ", 1) for line in (folder / "named").read_text().splitlines()]
    assert {names: error for error, names in named} == WRONG_PEERS
    refused = (folder / "peers_refused").read_text()
    for words in (
        "flash0: peers refused: flash0: a disk is not its own peer",
        "flash0: peers refused: nosuch: no disk with LinnOS has this name",
        "flash0: peers refused: flash1: it is named twice",
        "flash0: peers refused: loop5: there are too many",
    ):
        assert words in refused
    left = (folder / "left").read_text().splitlines()
    assert left == ["flash1 flash2", "flash2 flash0", "flash0 flash1"] * 4

    assert "overrun: 0\n" in (folder / "stats_of_peers").read_text()
    text = (folder / "peers.txt").read_bytes()
    decided = decisions.parse_decisions(text)
    assert decided["of_latency"].all()
    us = predict_us(model, decided["features"], engine="numpy")
    np.testing.assert_array_equal(decided["out_slow"], us)
    slow = us > model.refuse_us

    # What each peer was seen like is on the lines before the decision that it was asked for.
    soonest_us = np.full(len(decided), CAP, np.int64)
    n_asked = np.zeros(len(decided), np.int64)
    asked: dict[tuple[bytes, bytes], list[tuple[bytes, ...]]] = {}
    seen: list[str] = []
    told_us: list[int] = []
    drives = [parse_device(dev) for dev in (folder / "devs").read_text().split()]
    row = 0
    for event, dev, sector, *peer in _PEER.findall(text):
        if event == b"peer":
            asked.setdefault((dev, sector), []).append(tuple(peer))
            continue
        for _, pending, expected, latency_us, features in asked.pop((dev, sector), []):
            n_asked[row] += 1
            if expected == b"unknown":
                assert not features
                continue
            assert expected in (b"fast", b"slow")
            seen.append(features.decode())
            told_us.append(int(latency_us))
            assert sum(int(n, 16) for n in seen[-1].split(",")[:3]) == int(pending)
            assert (expected == b"slow") == (told_us[-1] > model.refuse_us)
            soonest_us[row] = min(soonest_us[row], told_us[-1])
        row += 1
    assert row == len(decided) and not asked
    numbers = np.array([[int(n, 16) for n in one.split(",")] for one in seen], np.uint32)
    np.testing.assert_array_equal(predict_us(model, numbers, engine="numpy"), told_us)
    np.testing.assert_array_equal(decided["n_peers"], n_asked)
    told = decided["soonest_us"] != decisions.UNKNOWN
    np.testing.assert_array_equal(decided["soonest_us"][told], soonest_us[told])
    assert told[n_asked > 0].any() and (soonest_us[~told] == CAP).all()
    assert set(n_asked[~slow]) == {0} and set(n_asked[slow]) == {2, 3}
    extras = {f"peer={dev} ".encode() for dev in (folder / "extra_devs").read_text().split()}
    assert sum(text.count(extra) for extra in extras) > 20

    explained = json.loads((folder / "explained.json").read_text())["decisions"]
    asking = [each for each in explained if each["peers"]]
    assert {each["predicted"] for each in asking} == {"slow"}
    for each in asking:
        least_us = each["peers"]["soonest_us"]
        told_less = least_us is not None and least_us + 15 < each["out_slow"]
        assert ("kept, since no peer was sooner (" in each["outcome"]) == (not told_less)
        if told_less:
            assert f", would take {least_us} us)" in each["outcome"]
    assert any("kept" in each["outcome"] for each in asking)
    assert any("revoked (" in each["outcome"] for each in asking)

    sooner = slow & (soonest_us + 15 < us)
    reason, revoked = decided["reason"], decided["revoked"]
    np.testing.assert_array_equal(reason == decisions.FAST, ~slow)
    np.testing.assert_array_equal(reason == decisions.KEPT, slow & ~sooner)
    np.testing.assert_array_equal(revoked, sooner & (reason == decisions.SLOW))
    assert (reason[sooner & ~revoked] == decisions.PROBE).all()
    assert np.count_nonzero(revoked) > 100 < np.count_nonzero(reason == decisions.KEPT)

    before, after = (
        np.array((folder / name).read_text().split(), np.int64) for name in ("before", "after")
    )
    kept, gain_us, refusals = (after - before).reshape(3, 3)
    gains_us = us.astype(np.int64) - soonest_us - 15
    for k, drive in enumerate(drives):
        here = decided["device"] == drive
        assert kept[k] == np.count_nonzero(here & (reason == decisions.KEPT))
        assert refusals[k] == np.count_nonzero(here & revoked)
        assert gain_us[k] == gains_us[here & revoked].sum()
