# SPDX-License-Identifier: MIT
"""md raid10 over drives with LinnOS, in each of its layouts, reads from a copy that is not slow,
and keeps md's guarantees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from md_arrays import (
    EACH_KERNEL,
    FUNCTIONS,
    READS,
    assert_avoids_bursts,
    assert_clean,
    assert_odd_mirrors,
    assert_whole,
    built,
    result,
    save_models,
)

from linnapp.lab.array import Array

#: Copies on how many drives: two of each block on pairs, on all, far apart, and shifted by a chunk.
LAYOUTS = {"n2": 4, "n3": 3, "f2": 3, "o2": 3}

#: Two ways to read, the first for three or four turns of the bursts. A read of the second way goes
#: through the page cache, is four chunks long and uses all drives.
WAYS = {"direct": "2400 500", "readahead": "2400 --sequential"}

BEGIN = f"""
create() # LAYOUT DRIVES
{{
	tries=0 # CONFIG_DEBUG_KOBJECT_RELEASE lets go of the md0 before seconds later
	until mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --bitmap=internal \\
		--level=10 --layout=$1 --chunk=16 --raid-devices=$2 \\
		$(seq -f /dev/flash%g 0 $(($2 - 1))) 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 6 ] || exit 1
		sleep 5
	done
	{READS} --fill
}}
remove()
{{
	mdadm --stop /dev/md0
	mdadm --zero-superblock /dev/flash? || true # one of them is in none
}}
models recent
"""

#: For an array of any layout: read with and without LinnOS, then lose a drive under load.
STEERED = f"""
cat $md/linnos >$OUT/LAYOUT_attribute
for on in off on; do
	echo $on >$md/linnos
	before=$(stats inferences)
	bursts 1 DRIVES
	{READS} {WAYS["direct"]} >$OUT/LAYOUT_direct_$on
	{READS} {WAYS["readahead"]} >$OUT/LAYOUT_readahead_$on
	echo $before $(stats inferences) >$OUT/LAYOUT_asked_$on
done
lose 4000 LAYOUT_losses
finish
state >$OUT/LAYOUT_after_losses
bursts 0
mismatches >$OUT/LAYOUT_mismatches
"""

#: For pairs: latency models, bad blocks, a drive that is wiped, one that is replaced while it still
#: serves, and one more drive.
ODD = f"""
bursts 1 4
models latency
{READS} {WAYS["direct"]} >$OUT/n2_lowest
models recent

spoil
{READS} 2000 500 >$OUT/odd
mend
state >$OUT/after_odd
cat $md/dev-flash0/bad_blocks >$OUT/bad_blocks

{READS} --fill
{READS} 8000 500 --writes >$OUT/changes &
load=$!
wipe
mdadm --add /dev/md0 /dev/flash4
mdadm /dev/md0 --replace /dev/flash2 --with /dev/flash4
until grep -q faulty $md/dev-flash2/state; do sleep 0.01; done
mdadm --remove /dev/md0 /dev/flash2
finish
state >$OUT/after_changes
bursts 0
mismatches >$OUT/mismatches
stats latency_critical revoked probes >$OUT/stats

{READS} --fill
mdadm --zero-superblock /dev/flash2
mdadm --add /dev/md0 /dev/flash2
bursts 1 5
{READS} 4000 500 --writes >$OUT/grown &
load=$!
sleep 0.2
mdadm --grow /dev/md0 --raid-devices=5 2>&1
until [ "$(cat $md/sync_action)" = idle ]; do sleep 0.01; done
finish
cat $md/raid_disks >$OUT/raid_disks
bursts 0
"""


@EACH_KERNEL
def test_raid10_reads_from_a_copy_that_is_not_slow(boot: Any, tmp_path: Path, kernel: str) -> None:
    save_models(tmp_path)
    script = FUNCTIONS + BEGIN
    for layout, drives in LAYOUTS.items():
        script += f"create {layout} {drives}\n"
        script += STEERED.replace("LAYOUT", layout).replace("DRIVES", str(drives))
        script += (ODD if layout == "n2" else "") + "remove\n"
    ran = boot(script, Array(n_drives=5, size_mb=32, precondition=False), kernel=built(kernel))

    def text(name: str) -> str:
        return (tmp_path / name).read_text()

    def run(name: str) -> dict[str, Any]:
        return result(tmp_path / name)

    for layout in LAYOUTS:
        assert text(f"{layout}_attribute") == "off\n"
        _, before, _, after = text(f"{layout}_asked_off").split()
        assert before == after
        for way in WAYS:
            assert_avoids_bursts(run(f"{layout}_{way}_off"), run(f"{layout}_{way}_on"))
        assert run(f"{layout}_losses")["reads"] == 4000
        assert run(f"{layout}_losses")["written"] > 100
        assert_whole(text(f"{layout}_after_losses"))
        assert text(f"{layout}_mismatches").split() == ["0"]

    assert_avoids_bursts(run("n2_direct_off"), run("n2_lowest"))
    assert_odd_mirrors(tmp_path, 2000)
    assert run("changes")["reads"] == 8000
    assert text("after_changes").split()[0] == "0"
    assert run("grown")["reads"] == 4000
    assert text("raid_disks").split()[0] == "5"
    assert_clean(ran.dmesg)
