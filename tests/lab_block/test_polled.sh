# SPDX-License-Identifier: MIT
# Reads whose submitter polls for the completion are decided and counted like others.

# An I/O takes 50 ms with an interrupt, but none when it is polled. The disk is not backed by
# memory, which null_blk would allocate while it polls and may not sleep.
null_disk nullb_p memory_backed=0 submit_queues=1 poll_queues=1 completion_nsec=50000000
disk=nullb_p
expect "polling" 1 "$(cat /sys/block/$disk/queue/io_poll)"
use_model $disk fast enforce

milliseconds() { echo $(($(date +%s%N) / 1000000)); }
before=$(milliseconds)
admits 64 "polled, admitted" -e poll -s 16384 /dev/$disk
[ $(($(milliseconds) - before)) -lt 1000 ] || fail "nothing was polled"
expect_idle $disk
expect admitted 64 "$(stat_of $disk admitted)"

use_model $disk slow enforce
revokes 64 "polled, revoked" -e poll -s 16384 /dev/$disk
expect_idle $disk

# RWF_HIPRI | RWF_LATCRIT
revokes 8 "hipri, revoked" -f 0x8001 /dev/$disk
use_model $disk fast enforce
admits 8 "hipri, admitted" -f 0x8001 /dev/$disk
expect_idle $disk

# Many reads and writes of several sizes are in flight. None is so large that it is split: its parts
# would not be polled, and a program that spins on them would stop the virtual time of the guest.
fio --name=polled --filename=/dev/$disk --direct=1 --rw=randrw --bsrange=4k-64k --size=32m \
	--ioengine=io_uring --hipri --iodepth=16 --number_ios=4000 \
	--clocksource=clock_gettime --output=/dev/null || fail fio
expect_idle $disk

