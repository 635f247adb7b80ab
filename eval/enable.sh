# SPDX-License-Identifier: MIT
# Enable LinnOS on an md raid1 under load, run a trial, and disable it again. Each of the mirrors is
# slow for 400 ms in turn. Runs in the lab, with a folder that the guest may write to:
#
#	linnapp lab run --out OUT -- sh eval/enable.sh OUT
set -e
export LINNAPP_STATE="$1/state" LINNAPP_CONF="$1/drives.conf" TMPDIR="$1"
mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --level=1 --raid-devices=3 \
	/dev/flash0 /dev/flash1 /dev/flash2 2>/dev/null
for k in 0 1 2; do
	for setting in pattern=all op=read latency_us=2000 window_us=400000 window_every_us=400000 \
		window_turns=3 window_turn_mask=$((1 << k)) arm=1; do
		echo "${setting#*=}" >"/sys/kernel/config/flashsim/flash$k/inject/${setting%=*}"
	done
done
fio --name=load --filename=/dev/md0 --rw=randread --bs=4k --direct=1 --iodepth=4 --ioengine=io_uring \
	--rate_iops=2000 --time_based --runtime=1000 --clocksource=clock_gettime --output=/dev/null &
load=$!
linnapp enable /dev/md0 --for 10
linnapp trial /dev/md0 --hours 0.01 --block-s 1 --seed 1
linnapp disable
kill "$load"
