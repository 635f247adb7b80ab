# SPDX-License-Identifier: MIT
# A read of several bios is decided once, by its first: no part of a refused read
# goes to the drive, and none is refused after another has gone.

null_disk nullb_l size=256
disk=nullb_l
dd if=/dev/zero of=/dev/$disk bs=1M count=256 oflag=direct 2>/dev/null
bytes=8388608

# check WHAT FILE
check()
{
	for interface in preadv2 uring aio; do
		use_model $disk slow enforce
		before=$(requests $disk)
		revokes 2 "$1, $interface, slow" -e $interface -s $bytes "$2"
		expect "$1, $interface, requests of a refused read" "$before" "$(requests $disk)"

		# the prediction is fast for the first bio, and slow with the others pending
		use_model $disk deep enforce
		asked=$(stat_of $disk latency_critical)
		admits 2 "$1, $interface, first bio fast" -e $interface -s $bytes "$2"
		expect "$1, $interface, decisions" 2 $(($(stat_of $disk latency_critical) - asked))
	done
	expect_idle $disk
}

check disk /dev/$disk
mount_ext4 $disk
dd if=/dev/urandom of=/run/mnt/fs/file bs=1M count=16 conv=fsync 2>/dev/null
check ext4 /run/mnt/fs/file
umount /run/mnt/fs
