# SPDX-License-Identifier: MIT
"""md's read policy `latency`, which needs no LinnOS, reads from a mirror that is not slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from md_arrays import EACH_KERNEL, FUNCTIONS, READS, assert_clean, built, result

from linnapp.lab.array import Array

N_READS = 4000

SCRIPT = f"""
levels read_policy latency
mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --bitmap=internal LEVEL \
	--raid-devices=3 /dev/flash0 /dev/flash1 /dev/flash2 2>&1
cat $md/read_policy >$OUT/attribute
refuses read_policy Latency 1 ''
{READS} --fill
for policy in default latency; do
	echo $policy >$md/read_policy
	bursts 1
	{READS} {N_READS} 500 >$OUT/$policy
done
cat $md/read_policy >>$OUT/attribute
lose {N_READS} losses
finish
bursts 0
mismatches >$OUT/mismatches
mdadm --stop /dev/md0
"""


@EACH_KERNEL
@pytest.mark.parametrize(
    "level", ["--level=1", "--level=10 --layout=n3", "--level=10 --layout=f3"], ids=lambda o: o[8:]
)
def test_read_policy_latency_avoids_a_slow_mirror(
    boot: Any, tmp_path: Path, kernel: str, level: str
) -> None:
    ran = boot(
        FUNCTIONS + SCRIPT.replace("LEVEL", level),
        Array(size_mb=32, precondition=False),
        kernel=built(kernel),
    )
    assert (tmp_path / "levels").read_text().splitlines() == ["raid0", "raid10 default"]
    assert (tmp_path / "attribute").read_text().split() == ["default", "latency"]
    refused = (tmp_path / "refused").read_text().splitlines()
    assert len(refused) == 3 and all("Invalid argument" in line for line in refused), refused
    default, latency = (result(tmp_path / policy) for policy in ("default", "latency"))
    print(
        {
            policy: (measured["mean_us"], measured["slow"])
            for policy, measured in (("default", default), ("latency", latency))
        }
    )
    assert default["reads"] == latency["reads"] == N_READS
    # Some reads find out that a mirror has become slow, and whether it still is.
    assert latency["mean_us"] < 0.85 * default["mean_us"]
    assert 0 < latency["slow"] < 0.75 * default["slow"]
    assert result(tmp_path / "losses")["reads"] == N_READS
    assert (tmp_path / "mismatches").read_text().split() == ["0"]
    assert_clean(ran.dmesg)
