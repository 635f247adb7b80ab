# SPDX-License-Identifier: MIT
"""md raid1 and raid10 over NVMe drives, on two CPUs: which mirrors they read from, md's rules
that LinnOS must not break, and changes of all settings under load."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from networks_by_hand import network

pytestmark = pytest.mark.qemu

#: The folder of a drive's files, by its number, in a kernel with LinnOS.
FILES = "files() { echo /sys/block/nvme$1n1/linnos; }"

#: Follows a line that defines `files`.
SCRIPT = """
. $TESTS/lib.sh
load() {{ python3 $TESTS/hinted_load.py /dev/md0 --plain --pages {pages} "$@"; }}
stat() {{ cat $(files $1)/stats/$2; }}
use() {{
    cat {models}/$2.linnos >$(files $1)/model
    echo observe >$(files $1)/mode
}}
whole() {{ [ "$(cat $md/degraded)" = 0 ]; }}
idle() {{ [ "$(cat $md/sync_action)" = idle ]; }}
reads() {{ for k in $drives; do echo $(stat $k reads) $(stat $k probes); done; }}
change() {{
    for value in off on unguarded; do
        echo $value >$md/linnos
        for k in $drives; do
            cat {models}/fast.linnos >$(files $k)/model
            echo off >$(files $k)/mode
            use $k slow
        done
    done
}}

drives="{drives}"
mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --bitmap=internal {level} \\
    --raid-devices=$(echo $drives | wc -w) $(printf '/dev/nvme%dn1 ' $drives) 2>/dev/null
md=/sys/block/md0/md
load --fill --count 1 >/dev/null
for k in $drives; do use $k fast; done
for k in {slow}; do use $k slow; done
for value in off unguarded; do
    echo $value >$md/linnos
    reads >$OUT/before_$value
    load --workers 4 --count 500 >$OUT/steered_$value
    reads >$OUT/after_$value
done

{odd}
load --workers 4 --writers 2 --seconds 600 --stop-file /run/stop --started-file /run/started \\
    >$OUT/changing &
load=$!
wait_for [ -e /run/started ]
while [ ! -e /run/stop ]; do change; done &
changes=$!
for k in {fails}; do
    mdadm --fail /dev/md0 /dev/nvme${{k}}n1
    wait_for mdadm --remove /dev/md0 /dev/nvme${{k}}n1
    sleep 1
    mdadm --add /dev/md0 /dev/nvme${{k}}n1
    wait_for whole
done 2>/dev/null
touch /run/stop
wait $load
wait $changes
wait_for idle
echo check >$md/sync_action
wait_for idle
cat $md/mismatch_cnt >$OUT/mismatches
mdadm --stop /dev/md0 2>/dev/null
"""

#: LinnOS steers every read to one mirror, unless md's own rules forbid it. The other copies come
#: before this mirror, so md alone would not choose it.
ODD = """
drive=/dev/nvme{odd}n1
for k in $drives; do
    use $k slow
    # After a probe that was fast, one read at a time would go to a drive that is predicted slow.
    no_probes $(files $k)
done
use {odd} fast
blocks=512
counted() {{ for k in {copies}; do echo $(stat $k reads) $(stat $k inferences); done; }}
read_as() {{ # NAME
    counted >$OUT/before_$1
    load --blocks $blocks --workers 4 --count 250 >$OUT/$1
    counted >$OUT/after_$1
}}
take_out() {{ # DEVICE...
    for device; do
        mdadm --fail /dev/md0 $device
        wait_for mdadm --remove /dev/md0 $device
    done
}} 2>/dev/null
bring() {{ # DEVICE...
    mdadm --add /dev/md0 "$@"
    wait_for whole
    wait_for idle
}} 2>/dev/null

read_as favoured
{write_mostly}
# The blocks recorded as bad have wrong data, until they are written again.
slave=$md/dev-nvme{odd}n1
offset=$(cat $slave/offset)
dd if=/dev/zero of=$drive bs=512 seek=$offset count=$((8 * blocks)) oflag=direct conv=notrunc \\
    2>/dev/null
for sector in $(seq $offset 512 $((offset + 8 * blocks - 1))); do
    echo $sector 512 >$slave/bad_blocks
done
read_as bad_blocks
load --fill --count 1 >/dev/null
mended() {{ [ -z "$(cat $slave/bad_blocks)" ]; }}
wait_for mended
read_as mended

# The drive can fail in part, so that md can still write its records.
table() {{ echo "0 $1 linear $drive 0"; echo "$1 $2 $3"; echo "$(($1 + $2)) $rest"; }}
size=$(blockdev --getsz $drive)
n=$((8 * blocks))
rest="$((size - offset - n)) linear $drive $((offset + n))"
sound=$(table $offset $n "linear $drive $offset")
take_out $drive
echo "$sound" | dmsetup create odd --noudevsync --noudevrules
member=/dev/$(dmsetup info -c --noheadings -o blkdevname odd)
bring $member
for slave in $md/dev-*; do echo failfast >$slave/state; done
# md sets REQ_FAILFAST_TRANSPORT in bi_opf of reads then.
traced=/sys/kernel/debug/tracing
echo 'p:submitted submit_bio_noacct opf=+16(%di):x32' >$traced/kprobe_events
submitted=$traced/events/kprobes/submitted
echo 'opf & 0x200 && !(opf & 1)' >$submitted/filter
all_reads() {{ n=0; for k in $drives; do n=$((n + $(stat $k reads))); done; echo $n; }}
n_before=$(all_reads)
echo 1 >$submitted/enable
read_as failfast
echo 0 >$submitted/enable
echo $(grep -c submitted: $traced/trace) $(($(all_reads) - n_before)) >$OUT/fail_fast
echo >$traced/kprobe_events
table $offset $n error | dmsetup load odd
dmsetup suspend --noudevsync odd
dmsetup resume --noudevsync odd
# There are few reads, one at a time: without LinnOS md would read from the others.
load --blocks $blocks --count 16 >$OUT/failing
echo $(cat $md/degraded $md/dev-${{member#/dev/}}/state) >$OUT/failed
cat $md/dev-${{member#/dev/}}/bad_blocks >>$OUT/failed
read_as without
wait_for mdadm --remove /dev/md0 $member 2>/dev/null
wait_for dmsetup remove --noudevsync --noudevrules odd
bring $drive
for slave in $md/dev-*; do echo -failfast >$slave/state; done
"""

#: raid10 has none.
WRITE_MOSTLY = """
echo writemostly >$md/dev-nvme{odd}n1/state
read_as write_mostly
others=$(printf '/dev/nvme%dn1 ' {others})
take_out $others
read_as alone
bring $others
echo -writemostly >$md/dev-nvme{odd}n1/state
read_as mostly_no_more
"""


@dataclass(frozen=True)
class Level:
    """An array: how it is made, its number of drives, which are slow, and which fail in turn."""

    options: str
    n_drives: int
    slow: tuple[int, ...]
    fails: tuple[int, ...]
    #: Drives with the same data. LinnOS is made to choose the last one against md's rules.
    copies: tuple[int, ...]
    #: Size of a read, which may span several chunks.
    pages: int = 1
    #: True if write-mostly has an effect.
    write_mostly: bool = False


LEVELS = {
    "raid1": Level("--level=1", 3, slow=(0,), fails=(1, 0), copies=(0, 1, 2), write_mostly=True),
    # The pairs are 0 and 1, 2 and 3.
    "raid10": Level(
        "--level=10 --layout=n2 --chunk=16", 4, slow=(0, 3), fails=(1, 0, 3), copies=(0, 1), pages=3
    ),
}


def numbers(values: Iterable[int]) -> str:
    return " ".join(map(str, values))


def script_of(level: Level, models: Path) -> str:
    """Return the script for an array; the folder gets models for slow and for other drives."""
    network(bias=(0, 1)).save(models / "slow.linnos")
    network(bias=(1, 0)).save(models / "fast.linnos")
    *others, odd = level.copies
    names = {"odd": odd, "others": numbers(others), "copies": numbers(level.copies)}
    write_mostly = WRITE_MOSTLY.format(**names) if level.write_mostly else ""
    return SCRIPT.format(
        models=models,
        level=level.options,
        drives=numbers(range(level.n_drives)),
        slow=numbers(level.slow),
        fails=numbers(level.fails),
        pages=level.pages,
        odd=ODD.format(write_mostly=write_mostly, **names),
    )


def counts_of(path: Path) -> dict[str, int]:
    """Return the counts of reads; all must have returned the data written."""
    counts: dict[str, int] = json.loads(path.read_text())
    assert counts["wrong_data"] == counts["errors"] == counts["gone"] == 0, path.name
    assert counts["admitted"] > 0 and counts["revoked"] == 0, path.name
    return counts


def check_odd(level: Level, out: Path) -> None:
    """Check that LinnOS steers reads of a mirror only where md allows reading it."""

    def shares_of_odd(name: str) -> tuple[float, int]:
        """Return the mirror's share of the copies' reads, and the number of its queries."""
        counts_of(out / name)
        before, after = (
            np.loadtxt(out / f"{when}_{name}", dtype=int) for when in ("before", "after")
        )
        reads, asked = (after - before).T
        assert reads.sum() >= 400, name
        return reads[-1] / reads.sum(), asked[-1]

    favoured = ["favoured", "mended", "failfast"]
    left_alone = ["bad_blocks"]
    if level.write_mostly:
        favoured += ["mostly_no_more"]
        left_alone += ["write_mostly"]
        assert shares_of_odd("alone")[0] == 1
    for name in favoured:
        share, asked = shares_of_odd(name)
        assert share > 0.9, name
        # The drive that can be made to fail is not one of LinnOS.
        assert asked > 400 or name == "failfast", name
    for name in left_alone:
        assert shares_of_odd(name) == (0, 0), name

    # These are all reads that LinnOS has sent to it, counted twice because it is under a dm device,
    # and other reads for which there was a choice.
    asked_to_fail_fast, reads = map(int, (out / "fail_fast").read_text().split())
    assert asked_to_fail_fast >= reads

    # It failed at once, and was not repaired block by block.
    assert counts_of(out / "failing")["admitted"] == 16
    degraded, state, *bad_blocks = (out / "failed").read_text().split()
    assert degraded == "1" and "faulty" in state.split(",") and not bad_blocks
    assert shares_of_odd("without") == (0, 0)


def check(level: Level, out: Path) -> None:
    """Check that slow drives were avoided, and that no data was lost during the changes."""
    for run in ("steered_off", "steered_unguarded"):
        counts_of(out / run)
    assert counts_of(out / "changing")["written"] > 100
    assert (out / "mismatches").read_text().split() == ["0"]

    for linnos in ("off", "unguarded"):
        before, after = (
            np.loadtxt(out / f"{when}_{linnos}", dtype=int) for when in ("before", "after")
        )
        reads, probes = (after - before).T
        assert reads.sum() >= 2000
        for slow in level.slow:
            if linnos == "off":
                assert reads[slow] > 100, "md avoids the slow drive by itself"
            else:
                assert reads[slow] <= probes[slow], "the slow drive was read from without a probe"
    check_odd(level, out)


@pytest.mark.parametrize("name", LEVELS)
def test_md_of_nvme_drives(boot_qemu, tmp_path: Path, name: str) -> None:
    level = LEVELS[name]
    # Small, because all data is compared in the end.
    boot_qemu(FILES + script_of(level, tmp_path), n_drives=level.n_drives, drive_mb=64)
    check(level, tmp_path)
