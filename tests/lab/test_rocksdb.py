# SPDX-License-Identifier: MIT
"""RocksDB on three drives, by the plug-in: Debian's own db_bench, in bursts, off and on."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from linnapp.lab.array import Array
from linnapp.lab.guest import REPOSITORY

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        shutil.which("db_bench") is None or not Path("/usr/include/rocksdb/db.h").exists(),
        reason="no RocksDB: apt-get install librocksdb-dev rocksdb-tools",
    ),
]

KEYS, READS = 40_000, 6000
DRIVES = "/dev/flash0 /dev/flash1 /dev/flash2"

SCRIPT = f"""
for k in 0 1 2; do
    mkfs.ext4 -q /dev/flash$k; mkdir /run/d$k; mount -o noatime /dev/flash$k /run/d$k
done
bench() # FILE URI BENCHMARKS OPTION...
{{
    to=$1 uri=$2 what=$3; shift 3
    LD_PRELOAD=$PLUGIN db_bench --fs_uri=linnos://$uri --db=/run/d0/db --benchmarks=$what \\
        --num={KEYS} --value_size=400 --compression_type=none --seed=7 --cache_size=4096 \\
        --use_direct_reads --use_direct_io_for_flush_and_compaction --histogram \\
        --disable_wal --cache_index_and_filter_blocks=0 --open_files=-1 "$@" \\
        >$OUT/$to 2>$OUT/$to.err ||
        {{ cat $OUT/$to.err; exit 1; }}
}}
bursts() # on or off: one of the drives at a time takes 2 ms longer for each read
{{
    for k in 0 1 2; do
        cd /sys/kernel/config/flashsim/flash$k/inject
        echo 0 >arm
        echo all >pattern; echo read >op; echo 2000 >latency_us
        echo 100000 >window_us; echo 100000 >window_every_us
        echo 3 >window_turns; echo $((1 << k)) >window_turn_mask
        echo $1 >arm
    done
    cd /
}}
reads="readrandom --use_existing_db --reads={READS}"
home=/run/d0,/run/d1,/run/d2?home
bench filled $home fillrandom,compact
for k in 1 2; do cmp /run/d0/db/*.sst /run/d$k/db/*.sst; done
bursts 1
( bench recorded $home $reads --threads=4 ) & sleep 0.01
linnapp trace {DRIVES} -o $OUT/traces --duration 5
wait
linnapp train --kind latency -o $OUT/models --trace $OUT/traces/flash0.blk \\
    --trace $OUT/traces/flash1.blk --trace $OUT/traces/flash2.blk >$OUT/trained 2>&1
m=$OUT/models/flash
best=/run/d0=${{m}}0.linnos,/run/d1=${{m}}1.linnos,/run/d2=${{m}}2.linnos
bench off $home $reads --threads=4
bench on $best $reads --threads=4
bench alone $best $reads
bursts 0

# A drive's reads fail: another's are taken. A copy is gone, or is not the same: it is not read.
mkdir /sys/kernel/config/flashsim/flash1/rules/r; cd /sys/kernel/config/flashsim/flash1/rules/r
echo read >op; echo medium_error >fault; echo interval >frequency; echo 3 >n; echo 1 >enabled; cd /
bench failing $home $reads
rmdir /sys/kernel/config/flashsim/flash1/rules/r
printf x | dd of=$(echo /run/d1/db/*.sst) bs=1 seek=$(($(stat -c %s /run/d1/db/*.sst) - 60)) \\
    conv=notrunc 2>/dev/null
rm /run/d2/db/*.sst
bench other $home $reads
export LD_PRELOAD=$PLUGIN
! db_bench --fs_uri=linnos:///nowhere --db=/run/d0/db >$OUT/refused 2>&1 || exit 1
"""


def latencies(path: Path) -> tuple[float, float]:
    """Mean and p99 of a run's reads in us; all keys were looked up, and most are there."""
    text = path.read_text()
    found, of = map(int, re.findall(r"\((\d+) of (\d+) found\)", text)[-1])
    assert found == of
    (mean,) = re.findall(r"Average: ([\d.]+)", text)[-1:]
    (p99,) = re.findall(r"P99: ([\d.]+)", text)[-1:]
    return float(mean), float(p99)


def test_reads_of_tables_go_where_they_are_answered_first(boot: Any, tmp_path: Path) -> None:
    plugin = REPOSITORY / "build" / "rocksdb"
    make = ["make", "-s", "-C", str(REPOSITORY / "liblinnos" / "rocksdb"), f"OUT={plugin}"]
    subprocess.run(make, check=True, capture_output=True, text=True)
    boot(
        f"PLUGIN={plugin}/librocksdb_linnos.so\n{SCRIPT}",
        Array(size_mb=192, precondition=False),
    )
    off, on, alone, failing = (
        latencies(tmp_path / name) for name in ("off", "on", "alone", "failing")
    )
    print(f"mean, p99 in us: off {off}, on {on}, one thread {alone}, failing {failing}")
    assert on[0] < 0.4 * off[0]
    assert (tmp_path / "failing.err").read_text().count("rror") == 0
    latencies(tmp_path / "other")
    assert "/nowhere: no folder" in (tmp_path / "refused").read_text()
