# SPDX-License-Identifier: MIT
"""md's read policy `latency`, which needs no LinnOS, reads from a mirror that is not slow."""

from __future__ import annotations

from typing import Any

import pytest
from md_arrays import EACH_KERNEL, FUNCTIONS, READS, assert_clean, built, reads_of

from linnapp.lab.array import Array

N_READS = 4000

SCRIPT = f"""
levels read_policy latency
create 3 --bitmap=internal LEVEL
cat $md/read_policy >$OUT/attribute
refuses read_policy Latency 1 ''
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
def test_read_policy_latency_avoids_a_slow_mirror(boot: Any, kernel: str, level: str) -> None:
    result = boot(
        FUNCTIONS + SCRIPT.replace("LEVEL", level),
        Array(size_mb=32, precondition=False),
        kernel=built(kernel),
    )
    assert result.text("levels").splitlines() == ["raid0", "raid10 default"]
    assert result.words("attribute") == ["default", "latency"]
    refused = result.text("refused").splitlines()
    assert len(refused) == 3 and all("Invalid argument" in line for line in refused), refused
    default, latency = (reads_of(result, policy) for policy in ("default", "latency"))
    print("default and latency:", default["mean_us"], latency["mean_us"])
    assert default["reads"] == latency["reads"] == N_READS
    # Some reads find out that a mirror has become slow, and whether it still is.
    assert latency["mean_us"] < 0.85 * default["mean_us"]
    assert 0 < latency["slow"] < 0.75 * default["slow"]
    assert reads_of(result, "losses")["reads"] == N_READS
    assert result.words("mismatches") == ["0"]
    assert_clean(result.dmesg)
