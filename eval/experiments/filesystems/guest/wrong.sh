# SPDX-License-Identifier: MIT
# For ../wrong.py: file systems on one drive or two mirrors, of which the first stores wrong data.

. /run/linnos/linnapp/eval/experiments/filesystems/guest/filesystems.sh
md=/sys/block/md0/md

# mirrors_new KIND FILE_SYSTEM: one drive; md, a raid1; btrfs, its own raid1. Sets device and mkfs.
mirrors_new()
{
	options=
	case $1 in
	one) device=/dev/flash0 ;;
	md)
		device=/dev/md0
		mdadm --create $device --run --metadata=1.2 --assume-clean --bitmap=none --level=1 \
			--raid-devices=2 /dev/flash0 /dev/flash1 2>/run/mdadm.txt
		;;
	btrfs)
		device=/dev/flash0
		options="-m raid1 -d raid1 /dev/flash1"
		;;
	esac
	fs_new "$2" "$options"
	[ "$1" != btrfs ] || btrfs device scan >/dev/null
}

# wrong_on FAULT N: the first drive does so with every N-th block that is written.
wrong_on()
{
	mkdir $drive/rules/wrong
	for pair in op=write count=block frequency=interval "n=$2" "fault=$1" enabled=1; do
		echo "${pair#*=}" >"$drive/rules/wrong/${pair%%=*}"
	done
}

wrong_off()
{
	cat $drive/rules/wrong/injected >"$1"
	echo 0 >$drive/rules/wrong/enabled
}

# come_back FILE_SYSTEM: mounted again, or why not.
come_back()
{
	echo 3 >/proc/sys/vm/drop_caches
	mount -t "$1" -o ro $device $files 2>&1
}

# checked FILE_SYSTEM KIND: what the tools that look for damage say, as one word.
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
	if [ "$2" = md ]; then
		echo check >$md/sync_action
		until [ "$(cat $md/sync_action)" = idle ]; do sleep 0.05; done
		[ "$(cat $md/mismatch_cnt)" = 0 ] && word="$word same" || word="$word differ"
	fi
	echo "$word"
}
