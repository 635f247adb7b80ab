# SPDX-License-Identifier: MIT
# Functions for the scripts of the applications: the array and its data. Each drive has two parts
# (../lab.py): the first is a mirror, and the background is replayed on the second.

here=/run/linnos/linnapp/eval/experiments/apps/guest
files=/run/mnt

# fs_up DEVICE FILE_SYSTEM FOLDER: make and mount an empty file system.
fs_up()
{
	case $2 in
	ext4) mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 "$1" ;;
	xfs | btrfs | f2fs) mkfs.$2 -f "$1" >/dev/null ;;
	*) echo "no file system $2 here" >&2 && return 1 ;;
	esac
	mount -t "$2" "$1" "$3"
}

# array_up KIND FILE_SYSTEM STATE MIRROR...: make and mount an empty file system. KIND is md or
# btrfs; STATE is the value of md's attribute.
array_up()
{
	kind=$1 system=$2 state=$3 device=/dev/md0
	shift 3
	if [ $kind = btrfs ]; then
		mkfs.btrfs -q -f -m raid1c3 -d raid1c3 "$@"
		mount -o device=/dev/flash0p1,device=/dev/flash1p1,device=/dev/flash2p1 /dev/flash0p1 $files
		return
	fi
	mdadm --create $device --run --metadata=1.2 --assume-clean --bitmap=internal --level=1 \
		--raid-devices=$# "$@"
	fs_up $device $system $files
	echo $state >/sys/block/md0/md/linnos
}

# fill FOLDER...: unpack the prepared data, and empty the page cache.
fill()
{
	for folder in "${@:-$files}"; do
		tar -C "$folder" -xf "$LINNOS_OUT/data.tar"
	done
	sync
	echo 3 >/proc/sys/vm/drop_caches
}

# write_counters NAME: write the reads of each mirror, inferences and probes so far into a file.
write_counters()
{
	for k in 0 1 2; do
		set -- "$1" $(cat /sys/class/block/flash${k}p1/stat)
		echo "mirror$k $2"
	done >"$LINNOS_OUT/$1"
	# of the patched kernel, or of the module
	of=/sys/block/flash?/linnos
	[ ! -e /sys/kernel/linnos ] || of=/sys/kernel/linnos/flash?
	for what in inferences probes; do
		echo $what $(cat $of/stats/$what)
	done >>"$LINNOS_OUT/$1"
}

# array_down KIND: unmount, and fail if mirrors differ.
array_down()
{
	if [ "$1" = btrfs ]; then
		found=$(btrfs scrub start -B $files 2>/dev/null)
		umount $files
		case $found in
		*"no errors found"*) return ;;
		esac
		echo "$found" >&2
		return 1
	fi
	umount $files
	md=/sys/block/md0/md
	echo 2000000 >$md/sync_speed_max
	echo check >$md/sync_action
	until [ "$(cat $md/sync_action)" = idle ]; do sleep 0.05; done
	if [ "$(cat $md/mismatch_cnt) $(cat $md/degraded)" != "0 0" ]; then
		echo "the mirrors differ: mismatch_cnt $(cat $md/mismatch_cnt), degraded $(cat $md/degraded)" >&2
		return 1
	fi
}

# wait_until EPOCH_S: wait until exactly this second.
wait_until()
{
	left_ns=$(($1 * 1000000000 - $(date +%s%N)))
	if [ $left_ns -lt 0 ]; then
		echo "not ready in time: $left_ns ns too late" >&2
		return 1
	fi
	sleep "$((left_ns / 1000000000)).$(printf %09d $((left_ns % 1000000000)))"
}

# check_background_length EPOCH_S SECONDS: fail unless the replay has ended this long after the start.
check_background_length()
{
	took=$(($(date +%s) - $1))
	if [ $took -lt $(($2 - 1)) ] || [ $took -gt $(($2 + 2)) ]; then
		echo "the background ended $took s after the application began, not $2" >&2
		return 1
	fi
}
