# SPDX-License-Identifier: MIT
# Flushes carry no data and are not counted as load. A write that requests a flush counts
# until its data are written, however many requests the block layer makes of it.

# Each I/O takes 10 ms, and the disk has a cache. Without FUA a write that must be durable becomes a
# write and a flush.
null_disk nullb_f cache_size=8 fua=0 completion_nsec=10000000
disk=nullb_f
expect "write cache" "write back" "$(cat /sys/block/$disk/queue/write_cache)"
expect fua 0 "$(cat /sys/block/$disk/queue/fua)"
use_model $disk slow enforce
flushes() { awk '{ print $16 }' /sys/block/$disk/stat; }

# an empty flush
before=$(flushes)
sync /dev/$disk &
sleep 0.005
expect "during a flush" "0 pages, 0 reads" "$(in_flight $disk)"
wait
expect "empty flushes" 1 $(($(flushes) - before))
expect_idle $disk

# a write and then a flush: four pages are pending until the flush
before=$(flushes)
dd if=/dev/zero of=/dev/$disk bs=16k count=1 oflag=direct,dsync 2>/dev/null &
sleep 0.005
expect "5 ms into a durable write" "4 pages, 0 reads" "$(in_flight $disk)"
sleep 0.01
expect "15 ms into a durable write" "0 pages, 0 reads" "$(in_flight $disk)"
wait
[ $(($(flushes) - before)) -ge 1 ] || fail "no flush"
expect_idle $disk

# many at once, and hinted reads between them
fio --name=durable --filename=/dev/$disk --direct=1 --rw=randwrite --bsrange=4k-64k --size=16m \
	--ioengine=io_uring --iodepth=8 --number_ios=200 --fsync=3 \
	--clocksource=clock_gettime --output=/dev/null &
load=$!
revokes 16 "hinted among flushes" /dev/$disk
wait $load || fail fio
expect_idle $disk
expect reads 16 "$(stat_of $disk reads)"
