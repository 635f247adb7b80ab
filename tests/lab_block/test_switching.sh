# SPDX-License-Identifier: MIT
# Modes and models change while I/O runs.
. "$TESTS/lib.sh"

null_disk nullb_w
disk=nullb_w
dir=$(linnos_dir $disk)
cat "$MODELS/queue.linnos" >$dir/model
fio --name=load --filename=/dev/$disk --direct=1 --rw=randrw --bsrange=4k-64k \
	--ioengine=io_uring --iodepth=4 --time_based --runtime=300ms --size=32m \
	--clocksource=clock_gettime --output="$OUT/fio" &
load=$!
# a second load of hinted reads
(while [ ! -e /run/enough ]; do lcread -n 20 -s 16384 /dev/$disk; sleep 0.001; done) \
	>"$OUT/hinted" &
hinted=$!
while [ "$(in_flight $disk)" = "0 pages, 0 reads" ]; do sleep 0.001; done
for i in $(seq 20); do
	for mode in observe enforce off; do
		echo $mode >$dir/mode || fail "mode $mode"
		expect mode $mode "$(cat $dir/mode)"
		for model in slow fast queue; do
			cat "$MODELS/$model.linnos" >$dir/model || fail "model $model"
			sleep 0.001
		done
		head -c 20000 "$MODELS/slow.linnos" >$dir/model 2>/dev/null &&
			fail "a truncated model was taken"
	done
done
wait $load || fail "fio"
touch /run/enough
wait $hinted || fail "hinted reads"
grep -q 'other=[1-9]' "$OUT/hinted" && fail "a hinted read failed otherwise"
grep -q 'busy=[1-9]' "$OUT/hinted" || fail "nothing was revoked"
grep -q 'ok=[1-9]' "$OUT/hinted" || fail "nothing was admitted"
# off counts nothing, and what was counted before has been counted out
expect mode off "$(cat $dir/mode)"
expect_idle $disk
reads=$(stat_of $disk reads)
expect "reads, off" "ok=8 busy=0 other=0" "$(lcread -n 8 /dev/$disk)"
expect "counted, off" "$reads" "$(stat_of $disk reads)"
echo observe >$dir/mode
expect_idle $disk
cmp $dir/model "$MODELS/queue.linnos" || fail "not the last model"
clean_log
