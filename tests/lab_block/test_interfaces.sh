# SPDX-License-Identifier: MIT
# The hint works through every interface, on the disk and on direct I/O of files.
. "$TESTS/lib.sh"

null_disk nullb_i size=512
disk=nullb_i
check()
{
	for interface in preadv2 uring aio; do
		use_model $disk slow enforce
		expect "$2, $interface, hinted" "ok=0 busy=3 other=0" \
			"$(lcread -e $interface -n 3 "$1")"
		expect "$2, $interface, unhinted" "ok=3 busy=0 other=0" \
			"$(lcread -u -e $interface -n 3 "$1")"
		# the hint has no effect there, so it is not accepted
		expect "$2, $interface, buffered" "EOPNOTSUPP EOPNOTSUPP " \
			"$("$LCREAD" -b -e $interface -n 2 "$1" | tr '\n' ' ')"
		expect "$2, $interface, buffered, unhinted" "ok=3 busy=0 other=0" \
			"$(lcread -b -u -e $interface -n 3 "$1")"
		for how in "" -b; do
			expect "$2, $interface, write $how" "EOPNOTSUPP EOPNOTSUPP " \
				"$("$LCREAD" -w $how -e $interface -n 2 "$1" | tr '\n' ' ')"
			expect "$2, $interface, write $how, unhinted" "ok=3 busy=0 other=0" \
				"$(lcread -w $how -u -e $interface -n 3 -o 32768 "$1")"
		done
		use_model $disk fast enforce
		expect "$2, $interface, fast" "ok=3 busy=0 other=0" \
			"$(lcread -e $interface -n 3 "$1")"
	done
	expect_idle $disk
}

check /dev/$disk disk
expect "unknown flag" "ok=0 busy=0 other=1" "$(lcread -f 0x4000 /dev/$disk)"

mkdir -p /run/mnt/fs
for fs in ext4 xfs f2fs; do
	case $fs in
	ext4)	mkfs.ext4 -q -F /dev/$disk ;;
	xfs)	mkfs.xfs -q -f /dev/$disk ;;
	f2fs)	mkfs.f2fs -q -f /dev/$disk ;;
	esac || fail "mkfs.$fs"
	echo off >/sys/block/$disk/linnos/mode
	mount -t $fs /dev/$disk /run/mnt/fs || fail "mount $fs"
	dd if=/dev/urandom of=/run/mnt/fs/file bs=64k count=16 conv=fsync 2>/dev/null
	check /run/mnt/fs/file $fs
	# the file system itself never asks for what may be revoked
	use_model $disk slow enforce
	cp /run/mnt/fs/file /run/mnt/fs/copy && sync && cmp /run/mnt/fs/file /run/mnt/fs/copy ||
		fail "$fs under enforcement"
	umount /run/mnt/fs || fail "umount $fs"
done
clean_log
