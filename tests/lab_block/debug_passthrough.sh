# SPDX-License-Identifier: MIT
# Passthrough commands (SG_IO to scsi_debug, the NVMe ioctl and io_uring's NVMe command to
# nvme-loop) are neither decided nor counted, whatever the policy. Zeroes that an NVMe drive
# writes are not counted either.

# passes KIND DISK DEVICE: 1 command, then 32
passes()
{
	device=$3
	use_model $2 slow enforce
	reads=$(stat_of $2 reads)
	hinted=$(stat_of $2 latency_critical)
	"$TOOLS/passthrough" $1 $device >"$OUT/output" &
	sleep 0.005
	expect "$1 in flight" "0 pages, 0 reads" "$(in_flight $2)"
	[ "$(cat /sys/block/$2/inflight | tr -s ' ')" = " 0 0" ] ||
		echo "$1: counted by the block layer itself"
	wait
	expect "$1" "ok=1" "$(cat "$OUT/output")"
	expect "$1, many" "ok=32" "$("$TOOLS/passthrough" $1 $device 32)"
	expect "$1: reads" "$reads" "$(stat_of $2 reads)"
	expect_idle $2

	# between reads that are revoked, and reads that are admitted
	"$TOOLS/passthrough" $1 $device 200 >"$OUT/output" &
	revokes 50 "$1, hinted, slow" /dev/$2
	use_model $2 fast enforce
	admits 50 "$1, hinted, fast" /dev/$2
	wait
	expect "$1" "ok=200" "$(cat "$OUT/output")"
	expect "$1: hinted reads" 100 $(($(stat_of $2 latency_critical) - hinted))
	expect_idle $2
}

# SCSI: each command takes 20 ms
scsi_disk 20000000
passes scsi $disk /dev/$disk
no_scsi_disk
no_leaks

# NVMe over a loop target on a null_blk disk: the ioctl, and io_uring's command
null_disk nullb_l completion_nsec=20000000 discard=1
use_model nullb_l fast enforce
nvme_over nullb_l
passes nvme $nvme /dev/$nvme
passes uring $nvme $nvme_commands
expect_idle nullb_l

# The NVMe drive writes zeroes. The disk below it cannot write zeroes, so it gets writes.
use_model $nvme slow enforce
use_model nullb_l slow enforce
[ "$(cat /sys/block/$nvme/queue/write_zeroes_max_bytes)" -gt 0 ] || fail "no write zeroes"
# -f: blkdiscard does not check first whether the disk has a file system
for zero in "blkdiscard -f -z -l 4194304" "fallocate -z -l 4194304"; do
	before=$(awk '{ print $5 }' /sys/block/nullb_l/stat)
	$zero /dev/$nvme || fail "$zero" &
	most=0
	for i in $(seq 20); do
		pages=$(in_flight nullb_l)
		[ "${pages%% *}" -le $most ] || most=${pages%% *}
		expect "$zero" "0 pages, 0 reads" "$(in_flight $nvme)"
		revokes 1 "$zero, hinted" /dev/$nvme
		sleep 0.003
	done
	wait $! || exit 1
	[ $most -gt 0 ] || fail "$zero: no page was pending below"
	[ "$(awk '{ print $5 }' /sys/block/nullb_l/stat)" -gt "$before" ] || fail "$zero: no writes"
	expect_idle $nvme
	expect_idle nullb_l
done
blkdiscard /dev/$nvme || fail "blkdiscard"
expect_idle $nvme
expect_idle nullb_l
no_nvme
# no_leaks is not called: DEBUG_KOBJECT_RELEASE makes the namespace leak its character device.
remove_null_disk nullb_l
