# SPDX-License-Identifier: MIT
# Switching the policy off and on takes effect at once, whatever is in flight. Each I/O that
# was counted when it was sent is subtracted when it completes, and no other is. A disk that
# is removed meanwhile waits for its I/O.

# each I/O takes half a minute
null_disk nullb_o completion_nsec=30000000000
disk=nullb_o
dir=$(linnos_dir $disk)
for model in fast last; do
	echo off >$dir/mode
	use_model $disk $model enforce
	"$LCREAD" -p /dev/$disk &
	before=$!
	sleep 1
	expect "$model: enforcing" "1 pages, 1 reads" "$(in_flight $disk)"
	reads=$(stat_of $disk reads)
	echo off >$dir/mode
	expect "$model: off, the read is still in flight" "1 pages, 1 reads" "$(in_flight $disk)"

	# reads with and without the hint are neither delayed nor counted
	"$LCREAD" -p -u -s 8192 /dev/$disk &
	off=$!
	"$LCREAD" -p -s 8192 /dev/$disk &
	hinted=$!
	dd if=/dev/zero of=/dev/$disk bs=16k seek=9 count=1 oflag=direct 2>/dev/null &
	write=$!
	sleep 1
	expect "$model: since it is off" "1 pages, 1 reads" "$(in_flight $disk)"
	expect "$model: reads, off" "$reads" "$(stat_of $disk reads)"

	echo observe >$dir/mode
	expect "$model: on again, the read is still in flight" "1 pages, 1 reads" "$(in_flight $disk)"
	"$LCREAD" -p -s 16384 /dev/$disk &
	after=$!
	sleep 1
	expect "$model: since it is on" "5 pages, 2 reads" "$(in_flight $disk)"
	for mode in off enforce off observe; do
		echo $mode >$dir/mode
		expect "$model: $mode" "5 pages, 2 reads" "$(in_flight $disk)"
	done

	wait $before
	expect "$model: the first has ended" "4 pages, 1 reads" "$(in_flight $disk)"
	wait $off $hinted $write
	expect "$model: so have those that were not counted" "4 pages, 1 reads" \
		"$(in_flight $disk)"
	wait $after
	expect_idle $disk
done

# a disk is removed while its policy is off, with I/O in flight from before and after that
use_model $disk fast enforce
"$LCREAD" -p /dev/$disk &
sleep 1
echo off >$dir/mode
"$LCREAD" -p /dev/$disk &
sleep 1
remove_null_disk $disk
wait
