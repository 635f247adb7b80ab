# SPDX-License-Identifier: MIT
# Each read of known latency is counted once in its bucket, only while the policy is on, and
# only on completion by the drive.

# histogram DISK: "BUCKET:READS" of those that are not empty, from 0
histogram()
{
	awk '{ if (NF != 88) print NF " columns"
	       for (i = 1; i <= NF; i++) if ($i) printf "%d:%d ", i - 1, $i }' \
		"/sys/block/$1/linnos/latency_us_histogram"
}

# 100 us is in bucket 19, from 96 to 112; 1 ms in 32, from 896 to 1024; 20 ms in 49,
# from 16384 to 20480
null_disk nullb_a cache_size=0
null_disk nullb_b completion_nsec=1000000
null_disk nullb_c completion_nsec=20000000
expect "never on" "" "$(histogram nullb_a)"
expect "mode" "-r--r--r--" \
	"$(stat -c %A /sys/block/nullb_a/linnos/latency_us_histogram)"
# files in stats/ are single numbers, as programs that read all of them expect
for file in /sys/block/nullb_a/linnos/stats/*; do
	expect "$file" 1 "$(wc -w <"$file")"
done
for disk in nullb_a nullb_b nullb_c; do
	use_model $disk fast enforce
	lcread -n 7 /dev/$disk >/dev/null
	lcread -u -n 5 /dev/$disk >/dev/null
	expect "reads of $disk" 12 "$(stat_of $disk reads)"
done
expect "100 us" "19:12 " "$(histogram nullb_a)"
expect "1 ms" "32:12 " "$(histogram nullb_b)"
expect "20 ms" "49:12 " "$(histogram nullb_c)"

# each part of a split read counts
echo 4 >/sys/block/nullb_b/queue/max_sectors_kb || fail max_sectors_kb
dd if=/dev/nullb_b of=/dev/null bs=16k count=1 iflag=direct 2>/dev/null || fail split
expect "after the split" "32:16 " "$(histogram nullb_b)"

# writes, refused reads, and reads that complete while the policy is off do not count
dd if=/dev/zero of=/dev/nullb_a bs=4k count=9 oflag=direct 2>/dev/null || fail write
use_model nullb_a slow enforce
revokes 4 "refused" /dev/nullb_a
expect "writes and refused reads" "19:12 " "$(histogram nullb_a)"
echo off >/sys/block/nullb_a/linnos/mode
lcread -u -n 3 /dev/nullb_a >/dev/null
expect "off" "19:12 " "$(histogram nullb_a)"
echo observe >/sys/block/nullb_a/linnos/mode
lcread -n 3 /dev/nullb_a >/dev/null
expect "on again" "19:15 " "$(histogram nullb_a)"

# failed reads do not count
null_disk nullb_bad badblocks=+0-1023
use_model nullb_bad fast enforce
expect "bad blocks" "ok=0 busy=0 other=4" "$(lcread -n 4 /dev/nullb_bad)"
expect "failed" "" "$(histogram nullb_bad)"

# a disk is removed while it is read and its files are read
lcread -u -n 200 /dev/nullb_c >/dev/null &
while cat /sys/block/nullb_c/linnos/latency_us_histogram; do
	sleep 0.01
done >/dev/null 2>&1 &
sleep 0.1
remove_null_disk nullb_c
wait
for disk in nullb_a nullb_b nullb_bad; do
	expect_idle $disk
done
