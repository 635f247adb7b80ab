# SPDX-License-Identifier: MIT
# In the lab, for `linnapp tour OUT MODELS`: load under the paper's policy; after 10 s one drive after the other is
# slow for 3 s. `linnapp top` runs until the load is over. The policy's
# decisions are explained afterwards.
set -e
out=$1
models=$2
bursts=all:latency_us=2000,op=read,start_ms=10000,slot_ms=3000,every_ms=5000,rotate
for drive in flash0 flash1 flash2; do
	linnapp upload --model "$models/$drive.linnos" --device /dev/$drive --mode enforce
done
(
	replayer --quiet --devices "$LINNOS_DRIVES" --fit --policy linnos --duration 25 \
		--inject "$bursts" --trace "$out/flash0.iolog,$out/flash1.iolog,$out/flash2.iolog" \
		>"$out/replay.txt"
	kill -INT "$(cat "$out/top.pid")" 2>/dev/null || true
) &
# The second drive is slow from 15 s on; before its first I/O the replayer waits for a full second.
(
	sleep 17
	linnapp explain flash1 --last 1 >"$out/refused.txt" 2>&1
	linnapp explain flash1 --slow --last 1 --duration 1 >"$out/slow.txt" 2>&1
) &
sh -c 'echo $$ >"$1"; exec linnapp top' sh "$out/top.pid" || true
wait
grep -E 'read  response|revoked|data errors' "$out/replay.txt"
echo
echo "While flash1 was slow: the last read that it was asked for, then the slowest that it let through."
cat "$out/refused.txt" "$out/slow.txt"
