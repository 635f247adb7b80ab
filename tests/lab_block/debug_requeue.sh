# SPDX-License-Identifier: MIT
# A drive returns requests by BLK_STS_RESOURCE and by blk_mq_requeue_request() in turn: each
# read is decided once and counted once.

null_disk nullb_q
disk=nullb_q
requeue=/sys/kernel/config/nullb/$disk/requeue_inject
use_model $disk fast enforce
fault_every $requeue 30
fio --name=requeue --filename=/dev/$disk --direct=1 --rw=randrw --bsrange=4k-64k \
	--ioengine=io_uring --iodepth=16 --number_ios=2000 --size=32m \
	--clocksource=clock_gettime --output=/dev/null || fail fio
expect_idle $disk
[ "$(faults $requeue)" -gt 500 ] || fail "only $(faults $requeue) requests were requeued"

for scheduler in none mq-deadline kyber; do
	echo $scheduler >/sys/block/$disk/queue/scheduler
	before=$(stat_of $disk latency_critical)
	struck=$(faults $requeue)
	admits 200 "hinted, $scheduler" /dev/$disk
	expect "decisions, $scheduler" 200 $(($(stat_of $disk latency_critical) - before))
	[ "$(faults $requeue)" -gt $((struck + 30)) ] || fail "$scheduler: nothing was requeued"
	expect_idle $disk
done

# a revoked read does not reach the driver
use_model $disk slow enforce
struck=$(faults $requeue)
revokes 200 "hinted, slow" /dev/$disk
expect "requeued" "$struck" "$(faults $requeue)"
expect_idle $disk
no_leaks
