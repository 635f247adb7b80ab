# SPDX-License-Identifier: MIT
# Commands that user space sends past the block layer's reads, SG_IO to scsi_debug and
# the NVMe ioctl to nvme-loop: neither decided nor counted, whatever the policy.
. "$TESTS/lib.sh"

# passes KIND DISK: 1 command, then 32
passes()
{
	sleep 2 # the partition table has been read
	use_model $2 slow enforce
	reads=$(stat_of $2 reads)
	"$TOOLS/passthrough" $1 /dev/$2 >"$OUT/said" &
	sleep 0.005
	expect "$1 in flight" "0 pages, 0 reads" "$(in_flight $2)"
	[ "$(cat /sys/block/$2/inflight | tr -s ' ')" = " 0 0" ] ||
		echo "$1: counted by the block layer itself"
	wait
	expect "$1" "ok=1" "$(cat "$OUT/said")"
	expect "$1, many" "ok=32" "$("$TOOLS/passthrough" $1 /dev/$2 32)"
	expect "$1: reads" "$reads" "$(stat_of $2 reads)"
	expect_idle $2

	# between reads that are revoked, and reads that are admitted
	"$TOOLS/passthrough" $1 /dev/$2 200 >"$OUT/said" &
	expect "$1, hinted, slow" "ok=0 busy=50 other=0" "$(lcread -n 50 /dev/$2)"
	use_model $2 fast enforce
	expect "$1, hinted, fast" "ok=50 busy=0 other=0" "$(lcread -n 50 /dev/$2)"
	wait
	expect "$1" "ok=200" "$(cat "$OUT/said")"
	expect "$1: hinted reads" 100 "$(stat_of $2 latency_critical)"
	expect_idle $2
}

# SCSI: 20 ms a command
host=/sys/bus/pseudo/drivers/scsi_debug
echo 20000000 >$host/ndelay || fail "no scsi_debug"
echo 1 >$host/add_host || fail "no SCSI host"
for i in $(seq 100); do
	disk=$(ls $host/adapter*/host*/target*/*/block 2>/dev/null | grep -o 'sd.*')
	[ -n "$disk" ] && [ -b /dev/$disk ] && break
	sleep 0.1
done
[ -b "/dev/$disk" ] || fail "no SCSI disk"
passes scsi $disk
echo -1 >$host/add_host
for i in $(seq 100); do [ -e /sys/block/$disk ] || break; sleep 0.1; done
[ ! -e /sys/block/$disk ] || fail "the SCSI disk is still there"
no_leaks

# NVMe over a loop target on a null_blk disk
null_disk nullb_l completion_nsec=20000000
nvmet=/sys/kernel/config/nvmet
subsystem=$nvmet/subsystems/linnos-test
mkdir $subsystem $subsystem/namespaces/1 $nvmet/ports/1 || fail "no NVMe target"
echo 1 >$subsystem/attr_allow_any_host
echo /dev/nullb_l >$subsystem/namespaces/1/device_path
echo 1 >$subsystem/namespaces/1/enable || fail "the namespace"
echo loop >$nvmet/ports/1/addr_trtype
ln -s $subsystem $nvmet/ports/1/subsystems/linnos-test || fail "the NVMe port"
echo transport=loop,nqn=linnos-test >/dev/nvme-fabrics || fail "nvme connect"
for i in $(seq 100); do [ -b /dev/nvme0n1 ] && break; sleep 0.1; done
[ -b /dev/nvme0n1 ] || fail "no NVMe disk"
passes nvme nvme0n1
expect_idle nvme0n1
echo 1 >/sys/class/nvme/nvme0/delete_controller
[ ! -e /sys/block/nvme0n1 ] || fail "the NVMe disk is still there"
rm $nvmet/ports/1/subsystems/linnos-test
echo 0 >$subsystem/namespaces/1/enable
# no_leaks: not here. DEBUG_KOBJECT_RELEASE makes the namespace leak its character device.
rmdir $nvmet/ports/1 $subsystem/namespaces/1 $subsystem
clean_log
