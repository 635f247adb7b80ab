# SPDX-License-Identifier: MIT
# The trace event has the reason of each decision. Mode observe shows which reads enforce would
# have refused. Each inference takes the time that the lab charges for it.

# each I/O takes 20 ms, so a probe is late
null_disk nullb_e completion_nsec=20000000
disk=nullb_e
event=$trace/events/linnos/linnos_decision
echo 1 >$event/enable
# found: print the fields of the last decision
found() { tail -n 1 $trace/trace | sed 's/.*revoked=/revoked=/'; }

grep -q '{ 0, "fast" }, { 1, "slow" }, { 2, "probe" }, { 3, "no-model" }' \
	$event/format || fail "no names for user space: $(tail -n 1 $event/format)"

echo enforce >/sys/block/$disk/linnos/mode
lcread /dev/$disk >/dev/null
expect "no model" "revoked=0 reason=no-model" "$(found)"
use_model $disk fast enforce
lcread /dev/$disk >/dev/null
expect fast "revoked=0 reason=fast" "$(found)"
use_model $disk slow observe
lcread /dev/$disk >/dev/null
expect "slow, observed" "revoked=0 reason=slow" "$(found)"
use_model $disk slow enforce
lcread /dev/$disk >/dev/null
expect slow "revoked=1 reason=slow" "$(found)"
echo 1 >/sys/block/$disk/linnos/probe_after_revokes
lcread /dev/$disk >/dev/null
expect probe "revoked=0 reason=probe" "$(found)"

echo 0 >$event/enable

# an inference takes 1 ms, so 100 reads that are refused at once take 100 ms
charge=/sys/module/flashsim/parameters/charge_ns
use_model $disk slow enforce
for charge_ns in 1000000 0; do
	echo $charge_ns >$charge || fail "no $charge"
	before=$(uptime_ms)
	revokes 100 "refused, $charge_ns ns" /dev/$disk
	took=$(($(uptime_ms) - before))
	case $charge_ns in
	0)	[ $took -lt 50 ] || fail "100 refused reads took $took ms" ;;
	*)	[ $took -ge 90 ] || fail "100 inferences of 1 ms took $took ms" ;;
	esac
done
expect_idle $disk
