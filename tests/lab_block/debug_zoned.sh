# SPDX-License-Identifier: MIT
# A zoned drive: the block layer delays writes until the previous one completes, zones are
# reset under writes, and writes miss the write pointer.

null_disk nullb_z zoned=1 zone_size=4 zone_nr_conv=0
disk=nullb_z
use_model $disk fast enforce
for bytes in 4096 65536; do
	dd if=/dev/zero of=/dev/$disk bs=$bytes count=16 oflag=direct 2>/dev/null ||
		fail "sequential write of a zone"
	expect_idle $disk
	admits 4 "hinted, zoned" /dev/$disk
	blkzone reset /dev/$disk || fail "blkzone reset"
	expect_idle $disk
done

# many concurrent writes to one zone: the block layer sends them one after the other
fio --name=zones --filename=/dev/$disk --direct=1 --zonemode=zbd --rw=write --bs=16k \
	--ioengine=io_uring --iodepth=16 --size=16m --clocksource=clock_gettime \
	--output=/dev/null || fail "fio on zones"
expect_idle $disk
# writes that the block layer holds back are pending
null_disk nullb_h zoned=1 zone_size=4 zone_nr_conv=0 completion_nsec=20000000
use_model nullb_h fast enforce
fio --name=held --filename=/dev/nullb_h --direct=1 --zonemode=zbd --rw=write --bs=16k \
	--ioengine=io_uring --iodepth=8 --size=4m --io_size=256k --clocksource=clock_gettime \
	--output=/dev/null &
held=$!
most=0
for i in $(seq 100); do
	pages=$(in_flight nullb_h)
	pages=${pages%% *}
	[ "$pages" -le $most ] || most=$pages
	sleep 0.005
done
wait $held || fail "fio on a slow zone"
[ $most -gt 4 ] || fail "at most $most pages pending: nothing was held back"
expect_idle nullb_h

# zones are reset under the writes: some writes fail, and none stays counted
for i in 1 2 3; do
	fio --name=reset --filename=/dev/nullb_h --direct=1 --zonemode=zbd --rw=write --bs=16k \
		--ioengine=io_uring --iodepth=8 --size=4m --io_size=256k --clocksource=clock_gettime \
		--continue_on_error=all --output=/dev/null 2>/dev/null &
	writes=$!
	sleep 0.03
	blkzone reset /dev/nullb_h || fail "blkzone reset under load"
	wait $writes
	expect_idle nullb_h
	blkzone reset /dev/nullb_h || fail "blkzone reset"
done

# a write that is not at the write pointer fails, and does not stay counted
dd if=/dev/zero of=/dev/$disk bs=4096 count=1 seek=9000 oflag=direct 2>/dev/null &&
	fail "a write off the write pointer succeeded"
expect_idle $disk
# a read across two zones is split at their border
admits 1 "hinted, two zones" -o 4128768 -s 131072 /dev/$disk
expect_idle $disk
use_model $disk slow enforce
revokes 4 "hinted, zoned, slow" /dev/$disk
expect_idle $disk
remove_null_disk nullb_z
remove_null_disk nullb_h
no_leaks
