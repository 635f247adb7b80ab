#!/bin/sh
# SPDX-License-Identifier: MIT
# Records fio.blk.xz: two fio jobs on one enterprise drive, without a file system. To be run as root
# in the lab:
#
#   linnapp lab run --drives 1 --out DIR -- traces/recorded/fio.sh DIR
#
# Random reads (Zipf) and random writes of mixed sizes arrive independently of each other (Poisson);
# in between a writer of large blocks sleeps and hurries by turns.
set -e
out=$1
seconds=${2:-4}
common="--filename=/dev/flash0 --direct=1 --ioengine=libaio --iodepth=256 --thread
	--clocksource=clock_gettime --time_based --runtime=$seconds --randrepeat=1 --norandommap=1"

linnapp trace /dev/flash0 -o "$out/record" -- fio --output="$out/fio.txt" $common \
	--name=reads --rw=randread --bssplit=4k/60:8k/20:16k/15:64k/5 --random_distribution=zipf:0.8 \
	--rate_process=poisson --rate_iops=3500 --randseed=1 \
	--name=writes $common --rw=randwrite --bssplit=4k/50:16k/30:64k/20 \
	--rate_process=poisson --rate_iops=900 --randseed=2 \
	--name=bursts $common --rw=write --bs=128k --iodepth=16 --thinktime=400ms \
	--thinktime_blocks=128 --randseed=3
xz -c "$out/record/flash0.blk" >"$out/fio.blk.xz"
