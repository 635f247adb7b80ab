# SPDX-License-Identifier: MIT
# Functions for ../wrong.py: file systems and RocksDB on drives of which the first stores wrong data.

. /run/linnos/linnapp/eval/experiments/filesystems/guest/filesystems.sh
md=/sys/block/md0/md

# make_mirrors KIND FILE_SYSTEM: make a file system on one drive, md raid1, md raid10 of two pairs, or
# btrfs' own raid1 or raid1c3. Sets device.
make_mirrors()
{
	options=
	device=/dev/flash0
	case $1 in
	md10) make_md_array --level=10 --layout=n2 --raid-devices=4 /dev/flash[0-3] ;;
	md*) make_md_array --level=1 --raid-devices=2 /dev/flash[01] ;;
	btrfs) options="-m raid1 -d raid1 /dev/flash1" ;;
	btrfs1c3) options="-m raid1c3 -d raid1c3 /dev/flash1 /dev/flash2" ;;
	esac
	fs_new "$2" "$options"
	[ "${1#btrfs}" = "$1" ] || btrfs device scan >/dev/null
}

# make_md_array LEVEL...: make an array of drives that have only zeros and are therefore equal.
make_md_array()
{
	device=/dev/md0
	mdadm --create $device --run --metadata=1.2 --assume-clean --bitmap=none "$@" 2>/run/mdadm.txt
}

# run_md_action ACTION: start an action, and wait for its end.
run_md_action()
{
	echo "$1" >$md/sync_action
	until [ "$(cat $md/sync_action)" = idle ]; do sleep 0.05; done
}

# repair_mirrors: repair mirrors that differ, as an administrator might.
repair_mirrors()
{
	run_md_action repair
}

remove_first_drive()
{
	mdadm $device --fail /dev/flash0 2>/run/mdadm.txt
}

# wrong_on FAULT N RANGE: apply a fault to every N-th block written to a range of the first drive.
wrong_on()
{
	mkdir $drive/rules/wrong
	echo "$3" >$drive/rules/wrong/ranges
	for pair in op=write count=block frequency=interval "n=$2" "fault=$1" enabled=1; do
		echo "${pair#*=}" >"$drive/rules/wrong/${pair%%=*}"
	done
}

wrong_off()
{
	cat $drive/rules/wrong/injected >"$1"
	echo 0 >$drive/rules/wrong/enabled
}

# mount_again FILE_SYSTEM: mount it again; prints the reason if that fails.
mount_again()
{
	echo 3 >/proc/sys/vm/drop_caches
	mount -t "$1" -o ro $device $files 2>&1
}

# checked FILE_SYSTEM KIND: print clean or damage, and whether mirrors are the same or differ.
checked()
{
	case $1 in
	ext4) e2fsck -fn $device ;;
	xfs) xfs_repair -n $device ;;
	f2fs) fsck.f2fs --dry-run $device ;;
	btrfs) btrfs check --readonly --check-data-csum $device ;;
	esac >/run/fsck.txt 2>&1 && word=clean || word=damage
	# Its exit status is 0 either way.
	[ "$1" != f2fs ] || ! grep -q '\[FIX\]\|Fail\|ASSERT' /run/fsck.txt || word=damage
	if [ -d $md ]; then
		run_md_action check
		[ "$(cat $md/mismatch_cnt)" = 0 ] && word="$word same" || word="$word differ"
	fi
	echo "$word"
}
