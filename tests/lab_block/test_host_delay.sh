# SPDX-License-Identifier: MIT
# Delays in the host do not count as latency of the drive: the limits of a cgroup (io.max,
# iocost), the wait for a tag, a scheduler. Delayed I/O does not count as pending either. So
# the limit of one cgroup does not make the drive look slow to another.

cgroups=/run/cgroup
mount_cgroups $cgroups
mkdir $cgroups/limited $cgroups/free

echo 1 >$trace/events/linnos/enable

# in_cgroup NAME COMMAND...
in_cgroup()
{
	group=$1
	shift
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$cgroups/$group" "$@"
}

# drive_time DISK WHAT: check that the last hinted read, from another cgroup, saw latencies of
# 100 us and only itself pending
drive_time()
{
	expect "$2: a read of another cgroup" "ok=1 busy=0 other=0" \
		"$(in_cgroup free "$LCREAD" -p "/dev/$1")"
	last=$(grep linnos_decision: $trace/trace | tail -n 1)
	for us in $(echo "$last" | sed 's/.*hist_latency_us=//; s/ .*//; s/[{},]/ /g'); do
		[ $((us)) -le 2000 ] || fail "$2: in the history: $last"
	done
}

# pending_of: print the pages that were pending at the last hinted read
pending_of()
{
	grep linnos_decision: $trace/trace | tail -n 1 | sed 's/.* pending=//; s/ .*//'
}

expect_no_slow()
{
	expect "$2: slow reads" 0 "$(stat_of "$1" slow)"
}

# io.max delays the parts of a split read one by one
null_disk nullb_m max_sectors=8
use_model nullb_m fast observe
lcread -n 2 /dev/nullb_m >/dev/null
device=$(cat /sys/block/nullb_m/dev)
echo "$device riops=20" >$cgroups/limited/io.max || fail "no io.max"
in_cgroup limited "$LCREAD" -p -n 1 -s 262144 /dev/nullb_m >/dev/null &
sleep 1
drive_time nullb_m "io.max, while"
[ "$(pending_of)" -le 2 ] || fail "io.max: $(pending_of) pages pending"
wait
drive_time nullb_m "io.max, after"
expect_no_slow nullb_m io.max
expect_idle nullb_m

# with iocost a reader must wait for its share
null_disk nullb_c
use_model nullb_c fast observe
lcread -n 2 /dev/nullb_c >/dev/null
device=$(cat /sys/block/nullb_c/dev)
echo "$device ctrl=user model=linear rbps=4096000 rseqiops=100 rrandiops=100 wbps=4096000 wseqiops=100 wrandiops=100" \
	>$cgroups/io.cost.model || fail "no io.cost.model"
echo "$device enable=1 ctrl=user rpct=0 wpct=0 min=100.00 max=100.00" \
	>$cgroups/io.cost.qos || fail "no io.cost.qos"
before=$(awk '{ print $1 }' /proc/uptime)
in_cgroup limited fio --name=many --filename=/dev/nullb_c --direct=1 --rw=randread \
	--bs=4k --ioengine=psync --numjobs=16 --thread --number_ios=12 \
	--clocksource=clock_gettime --output=/dev/null &
sleep 1
drive_time nullb_c "iocost, while"
[ "$(pending_of)" -le 4 ] || fail "iocost: $(pending_of) pages pending"
wait
after=$(awk '{ print $1 }' /proc/uptime)
awk -v a="$after" -v b="$before" 'BEGIN { exit !(a - b > 1) }' ||
	fail "iocost delayed no reader: $before to $after"
drive_time nullb_c "iocost, after"
expect_no_slow nullb_c iocost
expect_idle nullb_c

# one tag, many readers
null_disk nullb_q hw_queue_depth=1
use_model nullb_q fast observe
for scheduler in none mq-deadline; do
	echo $scheduler >/sys/block/nullb_q/queue/scheduler
	fio --name=many --filename=/dev/nullb_q --direct=1 --rw=randread --bs=4k \
		--ioengine=psync --numjobs=16 --thread --number_ios=20 \
		--clocksource=clock_gettime --output=/dev/null || fail "fio"
	drive_time nullb_q "$scheduler"
	expect_no_slow nullb_q "$scheduler"
done
expect_idle nullb_q
