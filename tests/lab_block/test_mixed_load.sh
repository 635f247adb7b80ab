# SPDX-License-Identifier: MIT
# Two disks with all kinds of I/O at once: reads with and without the hint, writes, fsync,
# discards, while model and mode of the policy change.

null_disk nullb_m discard=1
null_disk nullb_n discard=1 max_sectors=16
for disk in nullb_m nullb_n; do
	cat "$MODELS/queue.linnos" >/sys/block/$disk/linnos/model
done
for disk in nullb_m nullb_n; do
	fio --filename=/dev/$disk --direct=1 --time_based --runtime=60ms --size=32m \
		--clocksource=clock_gettime --output="$OUT/fio-$disk" --bsrange=4k-128k \
		--name=reads --rw=randread --ioengine=io_uring --iodepth=8 \
		--name=writes --rw=randwrite --ioengine=libaio --iodepth=4 --fsync=16 \
		--name=trims --rw=randtrim --ioengine=sync --thinktime=1000 \
		--name=buffered --direct=0 --rw=randrw --ioengine=psync --thinktime=500 &
	fios="${fios:-} $!"
	(while [ ! -e /run/enough ]; do
		lcread -n 8 -s 16384 -e uring /dev/$disk
		lcread -n 8 -s 131072 -e aio /dev/$disk
		sleep 0.001
	done) >"$OUT/hinted-$disk" &
	readers="${readers:-} $!"
done
for i in $(seq 4); do
	for disk in nullb_m nullb_n; do
		for step in enforce observe slow off fast enforce queue; do
			case $step in
			off|observe|enforce)
				echo $step >/sys/block/$disk/linnos/mode || fail "mode $step" ;;
			*)	cat "$MODELS/$step.linnos" >/sys/block/$disk/linnos/model ||
					fail "model $step" ;;
			esac
			sleep 0.001
		done
	done
done
for fio in $fios; do
	wait $fio || fail "fio"
done
touch /run/enough
for reader in $readers; do
	wait $reader || fail "hinted reads"
done
rm /run/enough
for disk in nullb_m nullb_n; do
	grep -q 'other=[1-9]' "$OUT/hinted-$disk" && fail "a hinted read failed otherwise"
	grep -q 'busy=[1-9]' "$OUT/hinted-$disk" || fail "nothing was revoked"
	grep -q 'ok=[1-9]' "$OUT/hinted-$disk" || fail "nothing was admitted"
	expect_idle $disk
	remove_null_disk $disk
done
