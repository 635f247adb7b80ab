# SPDX-License-Identifier: MIT
"""md raid1 over drives with LinnOS reads from a mirror that is not slow, and keeps md's
guarantees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
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

#: Three ways to read, 2 s each: a database's, the same through the page cache, and readahead.
WAYS = {"direct": "4000 500", "buffered": "3800 500 --buffered", "readahead": "4000 --sequential"}

BEGIN = f"""
levels linnos on
mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --bitmap=internal --level=1 \
	--raid-devices=3 /dev/flash0 /dev/flash1 /dev/flash2 2>&1
cat $md/linnos >$OUT/attribute
refuses linnos 1 ON enforce ''
setpriv --reuid=65534 --clear-groups sh -c "echo on | tee $md/linnos" 2>>$OUT/refused && exit 1
cat $md/linnos >>$OUT/attribute

{READS} --fill
models recent
sleep 1
"""

#: With latency models, the mirror that is expected to answer first.
LOWEST = f"""
models latency
cat /sys/block/flash?/linnos/stats/reads >$OUT/reads_before
bursts 1
{READS} {WAYS["direct"]} >$OUT/lowest
cat /sys/block/flash?/linnos/stats/reads >$OUT/reads_after
models recent
"""

#: Under load, a mirror fails and is resynced by the bitmap, another is wiped and fully resynced.
LOSSES = """
bursts 1
echo on >$md/linnos
lose 6000 losses
wipe
finish
state >$OUT/after_losses
"""

#: A mirror with bad blocks, and a write-mostly one.
ODD_MIRRORS = f"""
echo writemostly >$md/dev-flash2/state
before=$(cat /sys/block/flash2/linnos/stats/reads)
spoil
{READS} 1000 500 >$OUT/odd
echo $(($(cat /sys/block/flash2/linnos/stats/reads) - before)) >$OUT/write_mostly_reads
mend
state >$OUT/after_odd
cat $md/dev-flash0/bad_blocks >$OUT/bad_blocks
echo -writemostly >$md/dev-flash2/state
bursts 0
mismatches >$OUT/mismatches
stats latency_critical revoked probes >$OUT/stats
"""

#: The visible state in sysfs.
SEEN = f"""
export LINNAPP_STATE=/run/tmp/state
linnapp status --json >$OUT/status_before
for state in off on; do
	echo $state >$md/linnos
	bursts 1
	{READS} {WAYS["direct"]} >/dev/null &
	linnapp top --once --json --interval 1.8 >$OUT/top_$state
	wait $!
done
linnapp status --json >$OUT/status
mdadm --stop /dev/md0
"""


@EACH_KERNEL
def test_raid1_reads_from_a_mirror_that_is_not_slow(boot: Any, tmp_path: Path, kernel: str) -> None:
    save_models(tmp_path)
    script = FUNCTIONS + BEGIN
    for state in ("off", "on"):
        script += f"echo {state} >$md/linnos\n"
        for way, how in WAYS.items():
            script += f"bursts 1\n{READS} {how} >$OUT/{way}_{state}\n"
        script += f"stats inferences >$OUT/asked_{state}\n"
    ran = boot(
        script + LOWEST + LOSSES + ODD_MIRRORS + SEEN,
        Array(size_mb=32, precondition=False),
        kernel=built(kernel),
    )

    def text(name: str) -> str:
        return (tmp_path / name).read_text()

    def run(name: str) -> dict[str, Any]:
        return result(tmp_path / name)

    # The files belong to the level, and appear and disappear with it.
    assert text("levels").splitlines() == ["raid0", "raid10 off"]
    assert text("attribute").split() == ["off", "off"]
    refused = text("refused").splitlines()
    assert len(refused) == 5
    assert all("Invalid argument" in line for line in refused[:4]), refused
    assert "Permission denied" in refused[4]

    assert text("asked_off").split() == ["inferences", "0"]
    for way in WAYS:
        assert_avoids_bursts(run(f"{way}_off"), run(f"{way}_on"))
    on = run("lowest")
    assert_avoids_bursts(run("direct_off"), on)
    before, after = (list(map(int, text(f"reads_{when}").split())) for when in ("before", "after"))
    served = [b - a for a, b in zip(before, after, strict=True)]
    assert sum(served) == on["reads"] and min(served) > on["reads"] / 100

    assert run("losses")["reads"] == 6000
    assert run("losses")["written"] > 500
    assert_whole(text("after_losses"))
    assert text("write_mostly_reads").split() == ["0"]
    assert_odd_mirrors(tmp_path, 1000)

    for state in ("off", "on"):
        top = json.loads(text(f"top_{state}"))
        seen = top["drives"]
        shares = [row["array_read_share"] for row in seen]
        asked_per_s = [row["per_second"]["inferences"] for row in seen]
        print(f"{kernel}, {state}: shares {shares}, asked/s {asked_per_s}")
        assert {row["array"] for row in seen} == {"md0"}
        (guard,) = top["arrays"]
        assert guard["state"] == ("redirecting" if state == "on" else "off")
        assert (
            state == "off" or guard["redirected"] > 500 < guard["classes"]["over_p90"]["redirected"]
        )
        assert sum(shares) == pytest.approx(1)
        # 500 us from read to read: md's own choice is asked each time, the others where it is slow.
        assert max(asked_per_s) < 2100
        assert sum(asked_per_s) == 0 if state == "off" else 1900 < sum(asked_per_s) < 4500
    before, after = (
        [row["stats"]["inferences"] for row in json.loads(text(name))["drives"]]
        for name in ("status_before", "status")
    )
    asked = [late - early for early, late in zip(before, after, strict=True)]
    print(f"{kernel}: asked of 4000 reads {asked}")
    # Except for slices without queries, one in 64.
    assert 3750 < sum(asked) < 9000 and max(asked) < 4050
    assert_clean(ran.dmesg)


@pytest.mark.lab
def test_raid1_of_two_mirrors_reads_from_the_one_that_is_not_slow(
    boot: Any, tmp_path: Path
) -> None:
    save_models(tmp_path)
    script = f"""{FUNCTIONS}
mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --level=1 --raid-devices=2 \\
	/dev/flash0 /dev/flash1 2>&1
{READS} --fill
models latency
for state in off on; do
	echo $state >$md/linnos
	bursts 1
	{READS} {WAYS["direct"]} >$OUT/$state
done
"""
    ran = boot(script, Array(n_drives=2, size_mb=32, precondition=False))
    off, on = (result(tmp_path / state) for state in ("off", "on"))
    print({state: of["mean_us"] for state, of in (("off", off), ("on", on))})
    assert_avoids_bursts(off, on)
    assert_clean(ran.dmesg)
