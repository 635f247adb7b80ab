# SPDX-License-Identifier: MIT
# Zone appends, which user space can send through an NVMe zoned namespace only: here
# one over a null_blk disk, whose own appends or the block layer's emulation of them
# (writes at the write pointer, one after the other) do the work. Appends count as
# writes, are never revoked, and the drive's answer to where the data is, is right.
. "$TESTS/lib.sh"

# appends WHAT COUNT WANTED
appends()
{
	expect "$1" "ok=$3" "$("$TOOLS/passthrough" append $nvme_commands $2 2>/dev/null)"
	expect_idle $disk
	expect_idle $nvme
}

for kind in native emulated; do
	disk=nullb_$kind
	case $kind in
	native)		sectors=2048 at_once=16 ;;
	# one write at a time reaches the drive, the block layer holds the others back
	emulated)	sectors=0 at_once=1 ;;
	esac
	null_disk $disk zoned=1 zone_size=4 zone_nr_conv=0 zone_append_max_sectors=$sectors \
		completion_nsec=20000000
	dmesg | grep -q "$disk: using $kind zone append" || fail "no $kind zone append"
	nvme_over $disk
	expect zoned host-managed "$(cat /sys/block/$nvme/queue/zoned)"
	use_model $disk slow enforce
	use_model $nvme slow enforce
	before=$(awk '{ print $5 }' /sys/block/$disk/stat)

	# 16 at once, 20 ms each: in the account of the disk when it gets them, while the
	# NVMe drive passes them on
	"$TOOLS/passthrough" append $nvme_commands 16 >"$OUT/said" &
	sleep 0.01
	expect "$kind, in flight" "$at_once pages, 0 reads" "$(in_flight $disk)"
	expect "$kind, in flight above" "0 pages, 0 reads" "$(in_flight $nvme)"
	wait
	expect "$kind" "ok=16" "$(cat "$OUT/said")"
	expect_idle $disk
	expect_idle $nvme
	expect "$kind: writes" 16 $(($(awk '{ print $5 }' /sys/block/$disk/stat) - before))

	# among hinted reads, of either drive
	"$TOOLS/passthrough" append $nvme_commands 32 >"$OUT/said" 2>&1 &
	expect "$kind, hinted" "ok=0 busy=40 other=0" "$(lcread -n 40 /dev/$disk)"
	expect "$kind, hinted, NVMe" "ok=0 busy=40 other=0" "$(lcread -n 40 /dev/$nvme)"
	wait
	expect "$kind, with hinted reads" "ok=32" "$(cat "$OUT/said")"
	expect_idle $disk
	use_model $disk fast enforce
	use_model $nvme fast enforce
	"$TOOLS/passthrough" append $nvme_commands 32 >"$OUT/said" 2>&1 &
	expect "$kind, hinted, fast" "ok=10 busy=0 other=0" "$(lcread -n 10 /dev/$disk)"
	wait
	expect "$kind, with admitted reads" "ok=32" "$(cat "$OUT/said")"
	expect_idle $disk
	expect "$kind: revoked" 40 "$(stat_of $disk revoked)"

	# appends that fail: of a full zone, and under a reset, which aborts what the
	# block layer holds back
	blkzone finish -c 1 /dev/$disk || fail "blkzone finish"
	appends "$kind, full zone" 20 0
	blkzone reset /dev/$disk || fail "blkzone reset"
	"$TOOLS/passthrough" append $nvme_commands 32 >"$OUT/said" 2>/dev/null &
	appender=$!
	sleep 0.01
	blkzone reset /dev/$disk || fail "blkzone reset under appends"
	wait $appender
	echo "$kind, reset under appends: $(cat "$OUT/said")"
	expect_idle $disk
	expect_idle $nvme
	blkzone reset /dev/$disk || fail "blkzone reset"
	appends "$kind, after a reset" 32 32
	no_nvme
	remove_null_disk $disk
done
clean_log
