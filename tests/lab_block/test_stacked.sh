# SPDX-License-Identifier: MIT
# Stacked drivers: the hint passes where errors are returned unchanged, and is refused
# everywhere else. The drives below would revoke every hinted read.

null_disk nullb_x size=64
null_disk nullb_y size=64
for disk in nullb_x nullb_y; do
	dd if=/dev/zero of=/dev/$disk bs=1M count=64 oflag=direct 2>/dev/null
	use_model $disk slow enforce
done
revoked() { echo $(($(stat_of nullb_x revoked) + $(stat_of nullb_y revoked))); }
asked() { echo $(($(stat_of nullb_x latency_critical) + $(stat_of nullb_y latency_critical))); }
sectors=65536

# passes NAME DEVICE: check that eight hinted and eight plain reads pass
passes()
{
	before=$(revoked)
	revokes 8 "$1, hinted" -s 65536 "$2"
	[ "$(revoked)" -gt "$before" ] || fail "$1: nothing was revoked below"
	admits 8 "$1, retried" -u -s 65536 "$2"
}

dm()
{
	dmsetup create "$1" --table "$2" --noudevsync --noudevrules 2>/dev/null ||
		dmsetup create "$1" --table "$2" --noudevsync || fail "dmsetup $1"
	dmsetup mknodes "$1" || true
	device=/dev/$(dmsetup info -c --noheadings -o blkdevname "$1")
}

# a ring releases its registered file some time after its process has ended
dm_remove()
{
	for i in $(seq 50); do
		dmsetup remove --noudevsync "$1" 2>/dev/null && return
		sleep 0.1
	done
	fail "dmsetup remove $1"
}

dm linear "0 $sectors linear /dev/nullb_x 0"
passes dm-linear "$device"
dm_remove linear

dm striped "0 $sectors striped 2 16 /dev/nullb_x 0 /dev/nullb_y 0"
passes dm-striped "$device"
errors=$(dmsetup status striped)
case $errors in
*D*)	fail "dm-striped counts revocations as errors: $errors" ;;
esac
dm_remove striped

dm crypt "0 $sectors crypt aes-cbc-plain64 00112233445566778899aabbccddeeff 0 /dev/nullb_x 0"
passes dm-crypt "$device"
dm_remove crypt

dm mirror "0 $sectors mirror core 2 1024 nosync 2 /dev/nullb_x 0 /dev/nullb_y 0"
refuses dm-mirror "$device"
case $(dmsetup status mirror) in
*AA*)	;;
*)	fail "dm-mirror failed a leg: $(dmsetup status mirror)" ;;
esac
dm_remove mirror

dm multi "0 $sectors multipath 2 queue_mode bio 0 1 1 round-robin 0 2 0 /dev/nullb_x /dev/nullb_y"
refuses dm-multipath "$device"
case $(dmsetup status multi) in
*" F "*) fail "dm-multipath failed a path: $(dmsetup status multi)" ;;
esac
dm_remove multi

# a table of both kinds, and a table of linear targets one of which is over such a device
dm mixed "0 1024 linear /dev/nullb_x 0
1024 1024 mirror core 2 1024 nosync 2 /dev/nullb_x 1024 /dev/nullb_y 1024"
refuses "mixed table" "$device"
dm over "0 1024 linear /dev/nullb_x 2048
1024 1024 linear $device 1024"
refuses "linear over a mixed table" "$device"
dm_remove over
dm_remove mixed

# md serves the read, fails no mirror and records no bad block
mdadm --create /dev/md127 --run --metadata=1.2 --assume-clean --level=1 \
	--raid-devices=2 /dev/nullb_x /dev/nullb_y >/dev/null 2>&1 || fail mdadm
for i in $(seq 100); do [ -b /dev/md127 ] && break; sleep 0.1; done
before=$(asked)
refuses md-raid1 /dev/md127
expect "md-raid1, hints below" "$before" "$(asked)"
mkfs.ext4 -q -F /dev/md127 || fail "mkfs.ext4 on md"
mkdir -p /run/mnt/md
mount -t ext4 /dev/md127 /run/mnt/md || fail "mount ext4 on md"
dd if=/dev/zero of=/run/mnt/md/file bs=64k count=1 conv=fsync 2>/dev/null
refuses "ext4 on md" /run/mnt/md/file
expect "ext4 on md, hints below" "$before" "$(asked)"
for i in $(seq 50); do umount /run/mnt/md 2>/dev/null && break; sleep 0.1; done
expect "md state" "clean" "$(cat /sys/block/md127/md/array_state | sed s/active/clean/)"
expect "md degraded" 0 "$(cat /sys/block/md127/md/degraded)"
for leg in /sys/block/md127/md/rd*; do
	expect "$leg bad blocks" "" "$(cat "$leg/bad_blocks")"
	expect "$leg errors" 0 "$(cat "$leg/errors")"
done
mdadm --stop /dev/md127 >/dev/null 2>&1 || fail "mdadm --stop"

expect_idle nullb_x
expect_idle nullb_y
