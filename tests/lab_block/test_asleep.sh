# SPDX-License-Identifier: MIT
# A disk without hinted reads falls asleep and counts nothing; a hinted read
# wakes it; what is in flight at either moment is counted out as it was counted in.
. "$TESTS/lib.sh"

asleep_after=21 # seconds; the kernel looks every ten
null_disk nullb_s
disk=nullb_s
dir=$(linnos_dir $disk)
use_model $disk slow enforce
expect "at first" "ok=0 busy=4 other=0" "$(lcread -n 4 /dev/$disk)"
lcread -u -n 4 /dev/$disk >/dev/null
expect "reads, awake" 8 "$(stat_of $disk reads)"

sleep $asleep_after
expect "unhinted, asleep" "ok=4 busy=0 other=0" "$(lcread -u -n 4 /dev/$disk)"
expect "reads, asleep" 8 "$(stat_of $disk reads)"
expect "the read that wakes" "ok=1 busy=0 other=0" "$(lcread /dev/$disk)"
expect "it is counted" "9 5 1" "$(stat_of $disk reads) $(stat_of $disk latency_critical) \
$(stat_of $disk admitted)"
sleep 0.1
expect "awake again" "ok=0 busy=4 other=0" "$(lcread -n 4 /dev/$disk)"
lcread -u /dev/$disk >/dev/null
expect "reads, awake again" 14 "$(stat_of $disk reads)"

# a hinted read now and then keeps it awake, whatever else it is given
for i in $(seq 10); do
	sleep 7
	expect "after a pause" "ok=0 busy=1 other=0" "$(lcread /dev/$disk)"
done

# the mode, changed while it sleeps
sleep $asleep_after
echo observe >$dir/mode
expect "observing, asleep" "ok=1 busy=0 other=0" "$(lcread /dev/$disk)"
sleep $asleep_after
echo off >$dir/mode
lcread /dev/$disk >/dev/null
echo enforce >$dir/mode
expect "off and on again" "ok=0 busy=2 other=0" "$(lcread -n 2 /dev/$disk)"
expect_idle $disk

# reads that take longer than it takes to fall asleep
null_disk nullb_l completion_nsec=24000000000
use_model nullb_l fast observe
# with something counted before it sleeps,
"$LCREAD" -p -u /dev/nullb_l &
first=$!
sleep 1
expect "in flight, awake" "1 pages, 1 reads" "$(in_flight nullb_l)"
sleep 20
# something not counted while it does, the reads that wake it among them,
"$LCREAD" -p -u -s 8192 /dev/nullb_l &
second=$!
"$LCREAD" -p /dev/nullb_l &
third=$!
sleep 0.5
expect "in flight, asleep" "1 pages, 1 reads" "$(in_flight nullb_l)"
# and something after
"$LCREAD" -p -s 16384 /dev/nullb_l &
fourth=$!
sleep 0.5
expect "in flight, awake again" "5 pages, 2 reads" "$(in_flight nullb_l)"
wait $first $second $third
expect "in flight, the last" "4 pages, 1 reads" "$(in_flight nullb_l)"
wait $fourth
expect_idle nullb_l

# disks that go while they sleep, and while they wake up
sleep $asleep_after
remove_null_disk nullb_l
lcread /dev/$disk >/dev/null
remove_null_disk $disk
clean_log
