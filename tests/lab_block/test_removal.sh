# SPDX-License-Identifier: MIT
# Disks are added and removed under load.

for round in $(seq 5); do
	null_disk nullb_r
	use_model nullb_r queue enforce
	fio --name=load --filename=/dev/nullb_r --direct=1 --rw=randrw --bs=16k \
		--ioengine=io_uring --iodepth=32 --time_based --runtime=1 --size=32m \
		--clocksource=clock_gettime --output=/dev/null 2>/dev/null &
	load=$!
	lcread -n 500 -s 16384 /dev/nullb_r >/dev/null 2>&1 &
	hinted=$!
	sleep 0.0$round
	remove_null_disk nullb_r
	wait $load
	wait $hinted
	[ ! -e /sys/block/nullb_r ] || fail "the disk is still there"
done

# a disk is removed while its policy is on, and stays open long after that
null_disk nullb_r
use_model nullb_r fast enforce
lcread -n 4 /dev/nullb_r >/dev/null
exec 4</dev/nullb_r
remove_null_disk nullb_r
null_disk nullb_r
use_model nullb_r slow enforce
revokes 2 "on the next disk" /dev/nullb_r
exec 4<&-
remove_null_disk nullb_r

# a disk is removed while its files are open and written
null_disk nullb_r
exec 3<>/sys/block/nullb_r/linnos/mode
(while echo observe >/sys/block/nullb_r/linnos/mode &&
	echo off >/sys/block/nullb_r/linnos/mode; do sleep 0.0003; done) 2>/dev/null &
writer=$!
sleep 0.01
remove_null_disk nullb_r
wait $writer
echo enforce >&3 2>/dev/null && fail "wrote to a disk that is gone"
exec 3>&-

