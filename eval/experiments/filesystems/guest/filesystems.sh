# SPDX-License-Identifier: MIT
# Functions for ../lab.py: a new drive with a new file system, slowness, and counts.

here=/run/linnos/linnapp/eval/experiments/filesystems/guest
files=/run/mnt
device=/dev/flash0
drive=/sys/kernel/config/flashsim/flash0
tracing=/sys/kernel/debug/tracing

# A run takes only seconds. Periodic work (5 s: commits of ext4; 30 s: commits of btrfs, the log of
# xfs, and writeback; 60 s: checkpoints of f2fs) is therefore done every second.
periods()
{
	echo 100 >/proc/sys/vm/dirty_writeback_centisecs
	echo 100 >/proc/sys/vm/dirty_expire_centisecs
	echo 100 >/proc/sys/fs/xfs/xfssyncd_centisecs
}

# drive_new AGED: reset the drive to a new state, or to that after long random writes.
drive_new()
{
	echo 0 >$drive/power
	echo 1 >$drive/power
	[ "$1" = False ] || echo 1 >$drive/precondition
}

# fs_new FILE_SYSTEM MKFS_OPTIONS: make a file system with few writes; a new drive has only zeros.
fs_new()
{
	case $1 in
	ext4) mkfs.ext4 -q -F -N 40000 -E lazy_itable_init=1,lazy_journal_init=1,nodiscard $2 $device 2>&1 ;;
	xfs) mkfs.xfs -q -f -K $2 $device 2>&1 ;;
	f2fs) mkfs.f2fs -q -f -t 0 $2 $device ;;
	btrfs) mkfs.btrfs -q -f -K $2 $device ;;
	*) echo "no file system $1 here" >&2 && return 1 ;;
	esac >/run/mkfs.txt || { cat /run/mkfs.txt >&2 && return 1; }
}

# fs_up FILE_SYSTEM MOUNT_OPTIONS FILE=VALUE...: mount it; only f2fs has such files in sysfs.
fs_up()
{
	system=$1
	options=$2
	shift 2
	case $system in
	ext4) options=$options,commit=1,noinit_itable ;;
	btrfs) options=$options,commit=1 ;;
	esac
	mount -t "$system" -o "rw,$options" $device $files
	[ "$system" = f2fs ] || return 0
	for pair in cp_interval=1 gc_min_sleep_time=100 gc_max_sleep_time=200 gc_no_gc_sleep_time=200 "$@"; do
		echo "${pair#*=}" >"/sys/fs/f2fs/${device##*/}/${pair%%=*}"
	done
}

# slow PATTERN RATIO_PERCENT ADDED_US PERIOD_IOS REGION OCCUPY: slow the drive after arm is set.
slow()
{
	echo "$1" >$drive/inject/pattern
	echo both >$drive/inject/op
	[ "$1" != none ] || return 0
	echo $(($2 * 10000)) >$drive/inject/ratio_ppm
	echo $((100 / $2)) >$drive/inject/interval
	echo "$3" >$drive/inject/latency_us
	echo "$4" >$drive/inject/period_ios
	echo "${5% *}" >$drive/inject/region_sector
	echo "${5#* }" >$drive/inject/region_sectors
	echo "$6" >$drive/inject/occupy
}

# watch_on, watch_off FILE: record commits of the journal and requests of the drive.
watch_on()
{
	echo mono >$tracing/trace_clock
	echo 20000 >$tracing/buffer_size_kb
	echo >$tracing/trace
	for event in jbd2/jbd2_start_commit jbd2/jbd2_commit_logging jbd2/jbd2_end_commit \
		block/block_rq_issue block/block_rq_complete; do
		echo 1 >$tracing/events/$event/enable
	done
}

watch_off()
{
	echo 0 >$tracing/events/enable
	grep -v '^#' $tracing/trace >"$1" || :
}
