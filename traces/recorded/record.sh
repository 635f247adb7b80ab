#!/bin/sh
# SPDX-License-Identifier: MIT
# Records nullblk.blktrace.0, the real recording that the tests compare with blkparse. To be run as
# root on a kernel with null_blk and blktrace, e.g. in the lab:
#
#   linnapp lab run --drives 1 --out DIR -- traces/recorded/record.sh DIR
#
# All actions are recorded; small queue limits and plugging make splits and merges.
set -e
out=$1
drive=/sys/kernel/config/nullb/recorded
mkdir $drive
echo 2 >$drive/irqmode
echo 80000 >$drive/completion_nsec
echo 256 >$drive/size
echo 4 >$drive/hw_queue_depth
echo 1 >$drive/memory_backed
echo 1 >$drive/discard
echo 1 >$drive/power
echo 64 >/sys/block/recorded/queue/max_sectors_kb
echo mq-deadline >/sys/block/recorded/queue/scheduler

blktrace -d /dev/recorded -o nullblk -D "$out" &
tracer=$!
sleep 1
fio --clocksource=clock_gettime --filename=/dev/recorded --direct=1 --ioengine=libaio \
	--randseed=1 --output=$out/fio.txt \
	--name=random --rw=randrw --bsrange=4k-128k --iodepth=8 --number_ios=280 --thinktime=100 \
	--name=sequential --rw=write --bs=4k --iodepth=32 --iodepth_batch=16 --number_ios=160 \
	--thinktime=500 \
	--name=trim --ioengine=psync --rw=trim --bs=64k --number_ios=10
kill -INT $tracer
wait $tracer
echo 0 >$drive/power
rmdir $drive
