# SPDX-License-Identifier: MIT
# RWF_NOWAIT: an admitted bio that gets no request is no longer counted.

# the disk serves one request at a time, in 20 ms
null_disk nullb_n hw_queue_depth=1 completion_nsec=20000000
disk=nullb_n
use_model $disk fast enforce
lcread -u /dev/$disk >/dev/null &
sleep 0.005
# RWF_NOWAIT | RWF_LATCRIT
expect "no request" "EAGAIN EAGAIN EAGAIN EAGAIN " \
	"$("$LCREAD" -f 0x8008 -n 4 /dev/$disk | tr '\n' ' ')"
expect "the other read" "1 pages, 1 reads" "$(in_flight $disk)"
wait
expect_idle $disk
expect admitted 4 "$(stat_of $disk admitted)"
expect "a free request" ok "$("$LCREAD" -f 0x8008 /dev/$disk)"
expect_idle $disk

use_model $disk slow enforce
expect "slow" EBUSY "$("$LCREAD" -f 0x8008 /dev/$disk)"

# a read that would have to be split fails as soon as the block layer finds that out
null_disk nullb_k max_sectors=8
use_model nullb_k fast enforce
expect "too large not to wait" EAGAIN "$("$LCREAD" -f 0x8008 -s 65536 /dev/nullb_k)"
expect "admitted first" 1 "$(stat_of nullb_k admitted)"
expect_idle nullb_k
expect_idle $disk
