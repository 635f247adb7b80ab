# SPDX-License-Identifier: MIT
# Only block devices and files of ext4, xfs and f2fs accept the hint: for direct reads, through
# every interface. All others return EOPNOTSUPP, and no drive is repaired or blamed for errors.

a=nullb_a
b=nullb_b
# xfs needs at least 300 MB
for disk in $a $b; do
	null_disk $disk size=512
	use_model $disk slow enforce
done
mnt=/run/mnt/fs
mkdir -p $mnt

# takes WHAT FILE: check that direct reads accept the hint, and buffered reads and writes refuse it
takes()
{
	use_model $a fast enforce
	for interface in preadv2 uring fixed aio; do
		admits 2 "$1, $interface, fast" -e $interface "$2"
	done
	use_model $a slow enforce
	for interface in preadv2 uring fixed aio; do
		revokes 2 "$1, $interface, hinted" -e $interface "$2"
		revokes 2 "$1, $interface, direct since" -t -e $interface "$2"
		for how in "" -b -w "-w -b"; do
			case $interface$how in
			fixed-w*)	continue ;;
			?*-*)	expect "$1, $interface $how, hinted" "EOPNOTSUPP EOPNOTSUPP " \
					"$("$LCREAD" $how -e $interface -n 2 "$2" | tr '\n' ' ')" ;;
			esac
			admits 2 "$1, $interface $how, unhinted" $how -u -e $interface -o 32768 "$2"
		done
	done
	expect_idle $a
}

make_file()
{
	dd if=/dev/urandom of="$1" bs=64k count=4 conv=fsync 2>/dev/null || fail "write $1"
}

# Read a sector, a block of the file system, and more: Linux 7.3 has a separate path for reads of
# up to a block.
takes_sizes()
{
	for bytes in 512 4096 8192 65536; do
		[ "$1-$bytes" != f2fs-512 ] || continue
		revokes 4 "$1, $bytes bytes, hinted" -s $bytes "$2"
		admits 4 "$1, $bytes bytes, unhinted" -u -s $bytes "$2"
	done
}

# a ring releases its registered file some time after its process has ended
unmount()
{
	for i in $(seq 50); do
		umount "$1" 2>/dev/null && return
		sleep 0.1
	done
	fail "umount $1"
}

writes_of() { awk '{ print $5 }' "/sys/block/$1/stat"; }

takes disk /dev/$a
expect "unknown flag" "ok=0 busy=0 other=1" "$(lcread -f 0x4000 /dev/$a)"
for fs in ext4 xfs f2fs; do
	case $fs in
	ext4)	mkfs.ext4 -q -F /dev/$a ;;
	xfs)	mkfs.xfs -q -f /dev/$a ;;
	f2fs)	mkfs.f2fs -q -f /dev/$a ;;
	esac || fail "mkfs.$fs"
	mount -t $fs /dev/$a $mnt || fail "mount $fs"
	make_file $mnt/file
	takes $fs $mnt/file
	takes_sizes $fs $mnt/file
	# reads by the file system itself have no hint
	cp $mnt/file $mnt/copy && sync && cmp $mnt/file $mnt/copy || fail "$fs under enforcement"

	# freezing, remounting read-only and thawing under an open file change nothing
	fsfreeze -f $mnt || fail "freeze $fs"
	revokes 2 "$fs frozen" $mnt/file
	fsfreeze -u $mnt
	mount -o remount,ro $mnt || fail "remount $fs"
	writes=$(writes_of $a)
	revokes 20 "$fs read-only" -s 8192 $mnt/file
	expect "$fs, writes" "$writes" "$(writes_of $a)"
	mount -o remount,rw $mnt || fail "remount $fs"

	if [ $fs = ext4 ]; then
		# overlayfs reads the file of its lower layer
		mkdir -p $mnt/lower $mnt/upper $mnt/work /run/mnt/over
		make_file $mnt/lower/file
		mount -t overlay overlay /run/mnt/over \
			-o lowerdir=$mnt/lower,upperdir=$mnt/upper,workdir=$mnt/work ||
			fail "mount overlay"
		refuses overlayfs /run/mnt/over/file
		unmount /run/mnt/over
		# a loop device is a block device
		loop=$(losetup --find --show --direct-io=on $mnt/file) || fail losetup
		admits 2 "loop device" "$loop"
		losetup -d "$loop"
	fi
	# a read that is not aligned to the blocks of f2fs goes through the page cache
	[ $fs != f2fs ] || refuses "f2fs, 512 bytes" $mnt/file -s 512
	unmount $mnt
done

# reads of ext4 files with inline or journaled data go through the page cache, too
mkfs.ext4 -q -F -O inline_data /dev/$a || fail "mkfs.ext4 -O inline_data"
mount -t ext4 -o data=journal /dev/$a $mnt || fail "mount ext4 -o data=journal"
make_file $mnt/journaled
refuses "ext4, journaled data" $mnt/journaled
unmount $mnt
mount -t ext4 /dev/$a $mnt || fail "mount ext4"
head -c 40 /dev/urandom >$mnt/inline
sync
for interface in preadv2 uring fixed aio; do
	expect "ext4, inline data, $interface" EOPNOTSUPP "$("$LCREAD" -e $interface $mnt/inline)"
done
unmount $mnt

# For btrfs an error of a read means a bad block: with one copy the read fails, with two it
# writes the block again.
btrfs_log='read error corrected|failed to repair|unable to fixup|bdev .* errs:'
for data in single raid1; do
	second=
	[ $data = single ] || second=/dev/$b
	mkfs.btrfs -q -f -d $data -m raid1 /dev/$a /dev/$b >/dev/null || fail "mkfs.btrfs $data"
	mount -t btrfs -o device=/dev/$a,device=/dev/$b,noatime /dev/$a $mnt || fail "mount btrfs $data"
	make_file $mnt/file
	sync
	sleep 1
	writes=$(($(writes_of $a) + $(writes_of $b)))
	asked=$(($(stat_of $a latency_critical) + $(stat_of $b latency_critical)))
	expect "btrfs $data" "20 EOPNOTSUPP" \
		"$("$LCREAD" -n 20 -s 4096 $mnt/file | sort | uniq -c | sed 's/^ *//')"
	refuses "btrfs $data" $mnt/file
	expect "btrfs $data, writes" "$writes" $(($(writes_of $a) + $(writes_of $b)))
	expect "btrfs $data, hints below" "$asked" \
		$(($(stat_of $a latency_critical) + $(stat_of $b latency_critical)))
	unmount $mnt
done
dmesg | grep -E "$btrfs_log" && fail "btrfs blamed the drive"

# files that are not on a disk
head -c 65536 /dev/urandom >/run/tmp/file
refuses tmpfs /run/tmp/file -b
refuses hostfs "$LCREAD" -b
refuses "a device of characters" /dev/zero -b
python3 - <<'END' || fail "pipe or socket"
import errno, os, socket
reader, writer = os.pipe()
os.write(writer, b"x")
left, right = socket.socketpair()
right.send(b"x")
for what, fd in (("pipe", reader), ("socket", left.fileno())):
    try:
        os.preadv(fd, [bytearray(1)], -1, 0x8000)
        raise SystemExit(f"{what}: read with the hint")
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise SystemExit(f"{what}: {error}")
    assert os.read(fd, 1) == b"x", what
END
expect_idle $a
expect_idle $b
