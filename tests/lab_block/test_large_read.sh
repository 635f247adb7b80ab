# SPDX-License-Identifier: MIT
# A read of several bios is decided once, by its first: no part of a refused read
# goes to the drive, and none is refused after another has gone.
. "$TESTS/lib.sh"

null_disk nullb_l size=256
disk=nullb_l
dd if=/dev/zero of=/dev/$disk bs=1M count=256 oflag=direct 2>/dev/null
requests() { awk '{ print $1 }' /sys/block/$disk/stat; }
bytes=8388608

# check WHAT FILE
check()
{
	for interface in preadv2 uring aio; do
		use_model $disk slow enforce
		before=$(requests)
		expect "$1, $interface, slow" "ok=0 busy=2 other=0" \
			"$(lcread -e $interface -n 2 -s $bytes "$2")"
		expect "$1, $interface, requests of a refused read" "$before" "$(requests)"

		# the prediction is fast for the first bio, and slow with the others pending
		use_model $disk deep enforce
		asked=$(stat_of $disk latency_critical)
		expect "$1, $interface, first bio fast" "ok=2 busy=0 other=0" \
			"$(lcread -e $interface -n 2 -s $bytes "$2")"
		expect "$1, $interface, decisions" 2 $(($(stat_of $disk latency_critical) - asked))
	done
	expect_idle $disk
}

check disk /dev/$disk
mkfs.ext4 -q -F /dev/$disk || fail mkfs.ext4
mkdir -p /run/mnt/fs
mount -t ext4 /dev/$disk /run/mnt/fs || fail mount
dd if=/dev/urandom of=/run/mnt/fs/file bs=1M count=16 conv=fsync 2>/dev/null
check ext4 /run/mnt/fs/file
umount /run/mnt/fs
clean_log
