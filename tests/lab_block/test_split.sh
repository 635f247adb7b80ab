# SPDX-License-Identifier: MIT
# A read that the block layer splits is decided once, as a whole; its parts are counted,
# each as a request.

null_disk nullb_s max_sectors=8
disk=nullb_s
[ "$(cat /sys/block/$disk/queue/max_sectors_kb)" -le 4 ] || fail "no small requests"
use_model $disk slow enforce
echo 1 >$trace/events/linnos/enable

requests_before=$(requests $disk)
revokes 1 "revoked as a whole" -s 262144 /dev/$disk
expect "no request" "$requests_before" "$(requests $disk)"
expect decisions 1 "$(grep -c linnos_decision: $trace/trace)"

use_model $disk fast enforce
admits 1 "admitted as a whole" -s 262144 /dev/$disk
expect decisions 2 "$(grep -c linnos_decision: $trace/trace)"
requests=$(($(requests $disk) - requests_before))
[ $requests -ge 64 ] || fail "the read was not split: $requests requests"
expect reads $((requests + 1)) "$(stat_of $disk reads)"
expect_idle $disk

# all of its 64 pages are pending until the first is read
null_disk nullb_t max_sectors=8 completion_nsec=50000000
use_model nullb_t fast enforce
lcread -s 262144 /dev/nullb_t >/dev/null &
sleep 0.02
expect "a split read" "64 pages, 64 reads" "$(in_flight nullb_t)"
wait
expect_idle nullb_t

# No request has the size class of the large read itself. The read is probed in the size class of its
# parts, so that late parts are noticed.
use_model nullb_t slow enforce
echo 10 >/sys/block/nullb_t/linnos/probe_after_revokes
expect "large reads, probes among them" "ok=3 busy=97 other=0" \
	"$(lcread -n 100 -s 262144 /dev/nullb_t)"
expect_idle nullb_t
