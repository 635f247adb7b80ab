# SPDX-License-Identifier: MIT
"""Two writers of one rule's ranges, on two CPUs, under a load that matches the rule."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.qemu

ROUNDS = 300

SCRIPT = f"""
drive=/sys/kernel/config/flashsim/flashrace
mkdir $drive
echo 1 >$drive/power
mkdir $drive/rules/r
ranges=$drive/rules/r/ranges
# Each writer adds a range of its own, and sometimes removes all ranges.
writer() {{
    for i in $(seq {ROUNDS}); do
        echo "$((i * 32 + $1)) 8" >$ranges
        if [ $((i % 10)) = 0 ]; then echo none >$ranges; fi
    done
}}
reader() {{ for i in $(seq {ROUNDS}); do cat $ranges >/dev/null; done; }}
writer 0 & one=$!
writer 16 & two=$!
reader & three=$!
wait $one
wait $two
wait $three
echo none >$ranges
(for i in $(seq 100); do echo "$((i * 32)) 8" >$ranges; done) & one=$!
(for i in $(seq 100); do echo "$((i * 32 + 16)) 8" >$ranges; done) & two=$!
wait $one
wait $two
wc -l <$ranges >$OUT/ranges
rmdir $drive/rules/r
echo 0 >$drive/power
rmdir $drive
"""


def test_no_range_is_lost_to_another_writer(boot_qemu) -> None:
    assert boot_qemu(SCRIPT).numbers("ranges") == [200]
