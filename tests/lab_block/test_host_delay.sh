# SPDX-License-Identifier: MIT
# What the host adds to a read is not the drive's: the wait for a tag, a scheduler.
. "$TESTS/lib.sh"

trace=/sys/kernel/tracing
[ -d $trace/events ] || trace=/sys/kernel/debug/tracing
echo 1 >$trace/events/linnos/enable

# drive_time DISK WHAT: the last hinted read, from another cgroup, saw a drive that
# takes 100 us, and nothing pending but itself
drive_time()
{
	expect "$2: a read of another cgroup" "ok=1 busy=0 other=0" \
		"$("$LCREAD" -p "/dev/$1")"
	last=$(grep linnos_decision: $trace/trace | tail -n 1)
	for us in $(echo "$last" | sed 's/.*hist_latency_us=//; s/ .*//; s/[{},]/ /g'); do
		[ $((us)) -le 2000 ] || fail "$2: in the history: $last"
	done
}

# what the last hinted read found pending
pending_of()
{
	grep linnos_decision: $trace/trace | tail -n 1 | sed 's/.* pending=//; s/ .*//'
}

expect_no_slow()
{
	expect "$2: slow reads" 0 "$(stat_of "$1" slow)"
}

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
clean_log
