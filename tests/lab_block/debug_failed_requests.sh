# SPDX-License-Identifier: MIT
# Bios fail on submission, among them parts of a split read, and requests time out. Nothing
# stays counted as in flight.

null_disk nullb_e max_sectors=32
disk=nullb_e
use_model $disk fast enforce

# fail_make_request can fail every bio, also the remainder of a bio that was split
in=/sys/kernel/debug/fail_make_request
fault_every $in 10
echo 1 >/sys/block/$disk/make-it-fail
lcread -n 400 -s 131072 /dev/$disk >"$OUT/split"
grep -q 'ok=[1-9][0-9]* busy=0 other=[1-9]' "$OUT/split" || fail "split reads: $(cat "$OUT/split")"
[ "$(faults $in)" -gt 100 ] || fail "only $(faults $in) bios failed"
expect_idle $disk
fio --name=fail --filename=/dev/$disk --direct=1 --rw=randrw --bsrange=4k-128k --size=32m \
	--ioengine=io_uring --iodepth=16 --number_ios=2000 --continue_on_error=all \
	--clocksource=clock_gettime --output=/dev/null 2>/dev/null
expect_idle $disk
echo 0 >$in/probability
echo 0 >/sys/block/$disk/make-it-fail

# fail_io_timeout: the drive never answers, and the block layer gives up in 30 s
out=/sys/kernel/debug/fail_io_timeout
fault_every $out 10
echo 1 >/sys/block/$disk/io-timeout-fail
lcread -n 100 /dev/$disk >"$OUT/timeouts"
grep -q 'ok=[1-9][0-9]* busy=0 other=[1-9]' "$OUT/timeouts" || fail "$(cat "$OUT/timeouts")"
expect_idle $disk
fio --name=timeouts --filename=/dev/$disk --direct=1 --rw=randrw --bsrange=4k-64k --size=32m \
	--ioengine=io_uring --iodepth=16 --number_ios=500 --continue_on_error=all \
	--clocksource=clock_gettime --output=/dev/null 2>/dev/null
[ "$(faults $out)" -gt 15 ] || fail "only $(faults $out) requests timed out"
expect_idle $disk
echo 0 >$out/probability
admits 64 "afterwards" /dev/$disk

# the policy is switched off while requests time out
fault_every $out 30
lcread -n 20 -s 131072 /dev/$disk >/dev/null &
sleep 0.001
remove_null_disk $disk
wait
no_leaks
