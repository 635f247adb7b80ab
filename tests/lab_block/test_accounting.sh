# SPDX-License-Identifier: MIT
# No operation leaves anything counted as in flight, and only hinted reads are revoked.

null_disk nullb_a discard=1 cache_size=0
disk=nullb_a
use_model $disk slow enforce

# sizes, reads and writes
for bytes in 512 4096 8192 65536 1048576; do
	dd if=/dev/zero of=/dev/$disk bs=$bytes count=4 oflag=direct 2>/dev/null ||
		fail "write of $bytes"
	expect_idle $disk
	dd if=/dev/$disk of=/dev/null bs=$bytes count=4 iflag=direct 2>/dev/null ||
		fail "read of $bytes"
	expect_idle $disk
	revokes 4 "hinted, $bytes" -s $bytes /dev/$disk
	expect_idle $disk
done
expect revoked 20 "$(stat_of $disk revoked)"

# buffered I/O is merged, read ahead and written back; it is never hinted, and never refused
echo mq-deadline >/sys/block/$disk/queue/scheduler
dd if=/dev/zero of=/dev/$disk bs=1M count=16 conv=fsync 2>/dev/null
echo 3 >/proc/sys/vm/drop_caches
dd if=/dev/$disk of=/dev/null bs=1M count=16 2>/dev/null
echo 3 >/proc/sys/vm/drop_caches
admits 4 "buffered" -b -u /dev/$disk
expect_idle $disk
echo none >/sys/block/$disk/queue/scheduler

# merges of hinted reads that are admitted
use_model $disk fast enforce
echo mq-deadline >/sys/block/$disk/queue/scheduler
fio --name=merge --filename=/dev/$disk --direct=1 --rw=read --bs=4k --size=4m \
	--ioengine=io_uring --iodepth=64 --iodepth_batch=32 \
	--clocksource=clock_gettime --output=/dev/null || fail "fio"
expect_idle $disk
[ "$(awk '{ print $2 }' /sys/block/$disk/stat)" -gt 0 ] || fail "nothing was merged"
echo none >/sys/block/$disk/queue/scheduler

# discards, zeroes and flushes do not count as load
blkdiscard /dev/$disk || fail blkdiscard
blkdiscard -z -l 1048576 /dev/$disk || fail "blkdiscard -z"
expect_idle $disk

# partitions count for their disk
addpart /dev/$disk 1 2048 8192 || fail addpart
use_model $disk slow enforce
revokes 2 "hinted, partition" /dev/${disk}1
admits 2 "unhinted, partition" -u /dev/${disk}1
expect_idle $disk

# reads beyond the end, and misaligned ones, fail before or after they are counted
lcread -u -o 67108864 /dev/$disk >/dev/null
lcread -o 511 /dev/$disk >/dev/null
expect_idle $disk

# a drive that answers with errors
null_disk nullb_bad badblocks=+0-1023
use_model nullb_bad fast enforce
expect "bad blocks" "ok=0 busy=0 other=4" "$(lcread -n 4 /dev/nullb_bad)"
expect_idle nullb_bad
expect "admitted bad" 4 "$(stat_of nullb_bad admitted)"
