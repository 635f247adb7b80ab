# SPDX-License-Identifier: MIT
"""liblinnos compared with reading only from the default replica, on drives that are slow in turn.

Tested on the lab's kernel, whose policy is off after boot, and on one built without LinnOS. The
whole loop is tested: blktrace records reads from the default replica, latency models are trained
on the recording, and the library repeats the same reads.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from replays import DRIVES

from linnapp.lab.guest import REPOSITORY
from linnapp.lab.uml import DEFAULT_KERNEL
from linnapp.model import LatencyModel

TRAINED = " ".join(f"--trace traces/{Path(drive).name}.blk" for drive in DRIVES)
WITH_MODELS = " ".join(f"{drive}=models/{Path(drive).name}.linnos" for drive in DRIVES)
UPLOAD = (
    "for d in flash0 flash1 flash2; do"
    " linnapp upload --model models/$d.linnos --device /dev/$d --mode observe; done\n"
)

KERNELS = {"lab": DEFAULT_KERNEL, "stock": REPOSITORY / "build" / "linux-um-unpatched" / "linux"}

EXAMPLE = REPOSITORY / "build" / "liblinnos" / "examples" / "read_replicas"
#: For training: more than a thousand reads of each drive. With some seeds, trees are no better than
#: a constant, and the model is the prior.
RECORDED, READS = 6000, 3000


def read_counts(path: Path) -> dict[str, float]:
    return {name: float(value) for name, value in map(str.split, path.read_text().splitlines())}


@pytest.mark.parametrize(
    "kernel", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in KERNELS]
)
def test_fewer_reads_are_slow_than_at_the_default_replica(
    boot, tmp_path: Path, kernel: str
) -> None:
    if not KERNELS[kernel].exists():
        pytest.fail(f"{KERNELS[kernel]}: no kernel; `make kernel-unpatched` builds it")
    drives = " ".join(DRIVES)
    example = f"{EXAMPLE} --every-us 1000 --slow-us 1000"
    again = f"bursts 1; {example} --seed 2 --reads {READS}"
    # Only a kernel with LinnOS can answer this.
    ask = (
        "bursts 0; cat /sys/block/flash0/linnos/mode >mode\n"
        f"{UPLOAD}"
        f"{again} --best-drives {drives} >asked\n"
        "bursts 0; cat /sys/block/flash?/linnos/stats/revoked >revoked\n"
        "cat /sys/kernel/debug/block/flash?/rqos/linnos/in_flight >in_flight\n"
    )
    no_linnos = (
        "test ! -e /sys/block/flash0/linnos\n"
        f"bursts 0; if {example} --reads 1 --best-drives {drives} 2>asked; then exit 1; fi\n"
        "grep -q 'a kernel with LinnOS' asked\n"
    )
    boot(
        "cd $OUT\n"
        f"bursts 1; linnapp trace {drives} -o traces --"
        f" {example} --seed 5 --reads {RECORDED} --home-only {drives}\n"
        f"linnapp train --kind latency -o models {TRAINED}\n"
        f"{again} --home-only {drives} >home\n"
        f"{again} {WITH_MODELS} >best\n"
        f"{again} --hedge-percentile 95 {WITH_MODELS} >hedged\n"
        f"{again} --duplicates {WITH_MODELS} >by_gain\n"
        f"{ask if kernel == 'lab' else no_linnos}",
        kernel=KERNELS[kernel],
    )
    home, best, hedged, by_gain = (
        read_counts(tmp_path / name) for name in ("home", "best", "hedged", "by_gain")
    )
    print(home, best, hedged, by_gain, sep="\n")
    assert home["reads"] == best["reads"] == hedged["reads"] == by_gain["reads"] == READS
    for drive in DRIVES:
        assert LatencyModel.load(tmp_path / "models" / f"{Path(drive).name}.linnos").n_trees
    # One of three drives is slow at any time, and reads of the default replica wait for it.
    assert home["slow"] > 0.3 * READS
    assert best["slow"] < 0.05 * READS
    assert best["mean_us"] < 0.5 * home["mean_us"]
    assert best["redirected"] > 0.2 * READS and best["probes"] <= 0.01 * READS
    assert best["saved_us_estimate"] > 0
    assert hedged["hedges"] <= 0.05 * READS
    assert hedged["slow"] < best["slow"]
    # Duplicates have no limit by default; the model of their cost limits them.
    assert 0 < by_gain["hedges"] < 0.5 * READS
    assert by_gain["slow"] < best["slow"] and by_gain["mean_us"] < best["mean_us"]
    if kernel == "stock":
        return

    assert "off" in (tmp_path / "mode").read_text()
    # The same drives, chosen by queries to the kernel, which refuses no read.
    asked = read_counts(tmp_path / "asked")
    print(asked)
    assert asked["reads"] == READS and asked["slow"] < 0.05 * READS
    assert asked["mean_us"] < 0.5 * home["mean_us"]
    assert (tmp_path / "revoked").read_text().split() == ["0"] * 3
    assert set((tmp_path / "in_flight").read_text().splitlines()) == {"0 pages, 0 reads"}


#: Reads of another program, which the library does not see: 8 MB at once from one drive after the
#: other, which end soon after the library's own reads notice them.
OTHER = """
import mmap, os, sys, time
memory = mmap.mmap(-1, 8 << 20)
drives = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in sys.argv[1:]]
while os.path.exists("go"):
    for drive in drives:
        os.preadv(drive, [memory], 0)
        time.sleep(0.002)
"""


@pytest.mark.lab
def test_kernel_queries_help_with_load_that_the_library_cannot_see(boot, tmp_path: Path) -> None:
    drives = " ".join(DRIVES)
    example = f"{EXAMPLE} --every-us 1000 --slow-us 500"
    again = f"{example} --seed 2 --reads {READS}"
    (tmp_path / "other.py").write_text(OTHER)
    begin = f"touch go; python3 other.py {drives} & other=$!\n"
    boot(
        f'cd "$OUT"; {begin}'
        f"linnapp trace {drives} -o traces --"
        f" {example} --seed 5 --reads {RECORDED} --home-only {drives}\n"
        f"rm go; wait $other; linnapp train --kind latency -o models {TRAINED}\n"
        f"{begin}"
        f"{again} --home-only {drives} >home\n"
        f"{again} {WITH_MODELS} >alone\n"
        # No model was uploaded, so the kernel has no prediction.
        f"{again} --query-kernel {WITH_MODELS} >without\n"
        f"{UPLOAD}"
        f"{again} --query-kernel {WITH_MODELS} >asked\n"
        f"{again} --best-drives {drives} >kernel\n"
        "rm go; wait $other\n"
    )
    names = ("home", "alone", "without", "asked", "kernel")
    counts = {name: read_counts(tmp_path / name) for name in names}
    print(counts)
    assert counts["alone"]["queried"] == counts["without"]["queried"] == 0
    assert counts["asked"]["queried"] == READS
    assert counts["asked"]["slow"] < 0.1 * min(counts["alone"]["slow"], counts["without"]["slow"])
    assert counts["asked"]["mean_us"] < min(counts["alone"]["mean_us"], counts["home"]["mean_us"])


#: Failures of one of three replicas: the latency of its reads in us, and True if they fail.
STUCK = {"fails": (500_000, True), "slow": (500_000, False), "hangs": (30_000_000, True)}


@pytest.mark.lab
@pytest.mark.parametrize("trees", [True, False])
def test_one_thread_keeps_its_rate_with_a_stuck_replica(boot, tmp_path: Path, trees: bool) -> None:
    models = REPOSITORY / "models" / "example" / "latency"
    with_models = (f"{drive}={models / Path(drive).name}.linnos" for drive in DRIVES)
    replicas = " ".join(with_models if trees else DRIVES)
    # With a read every 2 ms, only the one that hangs is slow, although the others wait for it: the
    # latency of each read counts.
    paced = f"{EXAMPLE} --every-us 2000 --slow-us 1000 --seed 3 --reads 4000"
    script = f"cd $OUT; {EXAMPLE} --seed 3 --reads 20000 {replicas} >healthy\n"
    for name, (latency_us, fails) in STUCK.items():
        n_reads = 100_000 if latency_us < 10**6 else 1000
        if fails:
            script += "rule flash1 stuck op=read fault=medium_error frequency=all\n"
        script += (
            f"inject flash1 pattern=all latency_us={latency_us} op=read\n"
            f"{paced} {replicas} >{name}\n"
            f"{EXAMPLE} --seed 3 --reads {n_reads} {replicas} >{name}_rate\n"
            "inject flash1 arm=0\n"
        )
        if fails:
            script += "remove_rule flash1 stuck\n"
    boot(script)
    healthy = read_counts(tmp_path / "healthy")
    for name, (latency_us, fails) in STUCK.items():
        counts, rate = read_counts(tmp_path / name), read_counts(tmp_path / f"{name}_rate")
        print(name, healthy, counts, rate, sep="\n")
        # The first read goes there before the library can know.
        assert counts["slow"] == rate["slow"] == 1
        assert latency_us <= counts["max_us"] < latency_us + 2000
        assert counts["failovers"] == rate["failovers"] == fails
        assert counts["probes"] <= 0.01 * counts["reads"]
        # After a failure of 0.5 s there is no probe for 50 s; other cases vary.
        assert counts["probes"] > 0 or name != "slow"
        if latency_us < 10**6:
            assert rate["mean_us"] < healthy["mean_us"] / 0.9
        without_first_us = rate["mean_us"] * rate["reads"] - rate["max_us"]
        assert without_first_us / rate["reads"] < 1.02 * healthy["mean_us"]
