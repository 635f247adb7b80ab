#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs tests TIMES times, while two processes spin and one writes to the disk. Fails unless the
# same tests pass each time:
#
#	tests/busy.sh TIMES COMMAND...		COMMAND is pytest with its arguments
set -eu
times=$1
shift

results=$(mktemp -d)
# On the disk, whatever /tmp is.
written=$(mktemp -d -p "${BUSY_DIR:-/var/tmp}")
others=()
end() {
	kill "${others[@]}" 2>/dev/null || true
	wait "${others[@]}" 2>/dev/null || true
	rm -rf "$written" "$results"
}
trap end EXIT
trap 'exit 130' INT TERM

for _ in 1 2; do
	(while :; do :; done) &
	others+=($!)
done
(while :; do dd if=/dev/zero of="$written/file" bs=1M count=256 conv=fsync status=none; done) &
others+=($!)

for ((i = 1; i <= times; i++)); do
	echo "run $i of $times"
	"$@" -q --junitxml="$results/$i.xml" || echo "run $i: status $?"
done

python3 - "$results" "$times" <<'PYTHON'
"""Tells which tests did not pass in every run."""
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

folder, times = Path(sys.argv[1]), int(sys.argv[2])
passed, failed = Counter(), set()
for i in range(1, times + 1):
    path = folder / f"{i}.xml"
    if not path.exists():
        sys.exit(f"run {i} ended without results")
    for case in ET.parse(path).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        results = {result.tag for result in case} & {"failure", "error", "skipped"}
        passed[name] += not results
        if results - {"skipped"}:
            failed.add(name)
differ = {name for name, n in passed.items() if 0 < n < times}
for name in sorted(differ | failed):
    print(f"{name}: passed {passed[name]} of {times} times")
print(f"{sum(n == times for n in passed.values())} tests passed in each of {times} runs")
sys.exit(1 if differ or failed else 0)
PYTHON
