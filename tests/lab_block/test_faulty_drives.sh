# SPDX-License-Identifier: MIT
# Drives that the plain lab kernel does not have: one that requeues requests,
# and a zoned one.
. "$TESTS/lib.sh"

null_disk nullb_q
requeue=/sys/kernel/config/nullb/nullb_q/requeue_inject
[ -d $requeue ] || skip "null_blk cannot inject faults in this kernel"
disk=nullb_q
use_model $disk fast enforce
echo 30 >$requeue/probability
echo -1 >$requeue/times
echo 0 >$requeue/verbose 2>/dev/null
fio --name=requeue --filename=/dev/$disk --direct=1 --rw=randrw --bs=4k \
	--ioengine=io_uring --iodepth=16 --number_ios=2000 --size=32m \
	--clocksource=clock_gettime --output=/dev/null || fail fio
expect "hinted, requeued" "ok=64 busy=0 other=0" "$(lcread -n 64 /dev/$disk)"
expect_idle $disk
echo 0 >$requeue/probability

null_disk nullb_z zoned=1 zone_size=4 zone_nr_conv=0
disk=nullb_z
use_model $disk fast enforce
for bytes in 4096 65536; do
	dd if=/dev/zero of=/dev/$disk bs=$bytes count=16 oflag=direct 2>/dev/null ||
		fail "sequential write of a zone"
	expect_idle $disk
	expect "hinted, zoned" "ok=4 busy=0 other=0" "$(lcread -n 4 /dev/$disk)"
	blkzone reset /dev/$disk || fail "blkzone reset"
	expect_idle $disk
done
# many writers of one zone: the block layer holds their bios back
fio --name=zones --filename=/dev/$disk --direct=1 --zonemode=zbd --rw=write --bs=16k \
	--ioengine=io_uring --iodepth=16 --size=16m --clocksource=clock_gettime \
	--output=/dev/null || fail "fio on zones"
expect_idle $disk
# not at the write pointer: an error, and counted out
dd if=/dev/zero of=/dev/$disk bs=4096 count=1 seek=5000 oflag=direct 2>/dev/null &&
	fail "a write off the write pointer succeeded"
expect_idle $disk
use_model $disk slow enforce
expect "hinted, zoned, slow" "ok=0 busy=4 other=0" "$(lcread -n 4 /dev/$disk)"
expect_idle $disk
clean_log
