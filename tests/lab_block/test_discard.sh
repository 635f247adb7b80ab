# SPDX-License-Identifier: MIT
# Discards and zeroes written by the drive are not counted as load and never revoked. If
# the drive cannot write zeroes, the block layer writes them, and these writes count.

queued=$trace/events/block/block_bio_queue
echo 1 >$queued/enable || fail "no block events"

# did DISK RWBS: count bios of this kind that were queued to the disk since the last clear
did()
{
	grep -c " $(cat /sys/block/$1/dev | tr : ,) $2 " $trace/trace
}

# erases DISK: erase the disk in each way that user space has
erases()
{
	disk=$1
	can_discard=$(cat /sys/block/$disk/queue/discard_max_bytes)
	can_zero=$(cat /sys/block/$disk/queue/write_zeroes_max_bytes)
	echo "$disk: discards $can_discard, zeroes $can_zero"
	for model in slow fast; do
		use_model $disk $model enforce
		revoked=$(stat_of $disk revoked)
		: >$trace/trace
		if [ $can_discard -gt 0 ]; then
			blkdiscard /dev/$disk || fail "$disk: blkdiscard"
			expect_idle $disk
			blkdiscard -o 4096 -l 4096 /dev/$disk || fail "$disk: blkdiscard of a page"
			[ "$(did $disk 'D[A-Z]*')" -ge 2 ] || fail "$disk: no discards"
		else
			blkdiscard /dev/$disk 2>/dev/null && fail "$disk: discarded"
		fi
		expect_idle $disk
		for way in "blkdiscard -z -l 1048576" "fallocate -z -l 1048576" \
			"fallocate -p -l 1048576"; do
			: >$trace/trace
			if ! $way /dev/$disk 2>/dev/null; then
				# only this way requires that the drive itself writes zeroes
				[ $can_zero = 0 ] && [ "${way#*-p}" != "$way" ] ||
					fail "$disk: $way"
				expect_idle $disk
				continue
			fi
			expect_idle $disk
			if [ $can_zero -gt 0 ]; then
				[ "$(did $disk 'N[A-Z]*')" -gt 0 ] || fail "$disk: $way: no zeroes"
				expect "$disk: $way: writes" 0 "$(did $disk 'W[A-Z]*')"
			else
				expect "$disk: $way: zeroes" 0 "$(did $disk 'N[A-Z]*')"
				[ "$(did $disk 'W[A-Z]*')" -gt 0 ] || fail "$disk: $way: no writes"
			fi
		done
		expect "$disk: still zero" 0 "$(head -c 1048576 /dev/$disk | tr -d '\0' | wc -c)"
		expect_idle $disk
		expect "$disk: revoked" "$revoked" "$(stat_of $disk revoked)"

		# under hinted reads
		for i in 1 2 3 4 5 6 7 8; do
			blkdiscard -z -l 1048576 /dev/$disk
			[ $can_discard = 0 ] || blkdiscard -l 1048576 /dev/$disk
		done &
		output=$(lcread -n 64 /dev/$disk)
		case $model in
		slow)	expect "$disk, hinted" "ok=0 busy=64 other=0" "$output" ;;
		fast)	expect "$disk, hinted" "ok=64 busy=0 other=0" "$output" ;;
		esac
		wait
		expect_idle $disk
	done
}

null_disk nullb_d discard=1
erases nullb_d
null_disk nullb_n
erases nullb_n

# a loop device asks the file system of its file, and so writes zeroes itself
mkfs.ext4 -q -F /dev/nullb_n || fail mkfs.ext4
mkdir -p /run/mnt/fs
mount /dev/nullb_n /run/mnt/fs || fail mount
truncate -s 32M /run/mnt/fs/image
losetup /dev/loop0 /run/mnt/fs/image || fail losetup
[ "$(cat /sys/block/loop0/queue/write_zeroes_max_bytes)" -gt 0 ] || fail "loop0 writes no zeroes"
erases loop0
losetup -d /dev/loop0
umount /run/mnt/fs || fail umount
expect_idle nullb_n

erases flash0
remove_null_disk nullb_d
remove_null_disk nullb_n
