# SPDX-License-Identifier: MIT
# Sourced before the block-layer tests that run in the lab's guest. After them, nothing may be left in
# the kernel log.
#
# $LCREAD is the hinted reader (lcread.c). $MODELS contains networks: slow.linnos and fast.linnos
# with constant predictions, queue.linnos and deep.linnos, which predict slow from 10 and 300
# pending pages; and latency models: last.linnos predicts slow if the last read took more than
# 50 us, region.linnos if another read is in flight in the same region.

set -u

trace=/sys/kernel/tracing
[ -d $trace/events ] || trace=/sys/kernel/debug/tracing

fail()
{
	echo "FAIL: $*" >&2
	exit 1
}

# expect WHAT WANTED GOT
expect()
{
	[ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
}

linnos_dir()
{
	echo "/sys/block/$1/linnos"
}

stat_of()
{
	cat "/sys/block/$1/linnos/stats/$2"
}

# null_disk NAME [ATTRIBUTE=VALUE...]: a memory-backed null_blk disk /dev/NAME,
# 100 us an I/O
null_disk()
{
	dir=/sys/kernel/config/nullb/$1
	name=$1
	shift
	mkdir "$dir" || fail "no null_blk disk $name"
	for setting in memory_backed=1 size=64 irqmode=2 completion_nsec=100000 "$@"; do
		echo "${setting#*=}" >"$dir/${setting%%=*}" ||
			fail "null_blk: $setting"
	done
	echo 1 >"$dir/power" || fail "null_blk: power"
	[ -b "/dev/$name" ] || fail "/dev/$name did not appear"
}

remove_null_disk()
{
	echo 0 >"/sys/kernel/config/nullb/$1/power"
	rmdir "/sys/kernel/config/nullb/$1"
}

# nvme_over DISK: create an NVMe drive, $nvme, over a loop target on the disk; no_nvme removes it.
# Its name becomes free some time after its removal.
nvme_over()
{
	nvmet=/sys/kernel/config/nvmet
	subsystem=$nvmet/subsystems/linnos-test
	mkdir $subsystem $subsystem/namespaces/1 $nvmet/ports/1 || fail "no NVMe target"
	echo 1 >$subsystem/attr_allow_any_host
	echo /dev/$1 >$subsystem/namespaces/1/device_path
	echo 1 >$subsystem/namespaces/1/enable || fail "the namespace"
	echo loop >$nvmet/ports/1/addr_trtype
	ln -s $subsystem $nvmet/ports/1/subsystems/linnos-test || fail "the NVMe port"
	echo transport=loop,nqn=linnos-test >/dev/nvme-fabrics || fail "nvme connect"
	nvme=
	for i in $(seq 100); do
		nvme=$(cd /sys/block && echo nvme*n1)
		[ -b "/dev/$nvme" ] && break
		sleep 0.1
	done
	[ -b "/dev/$nvme" ] || fail "no NVMe disk"
	nvme_commands=/dev/ng${nvme#nvme}
	sleep 2 # the partition table has been read
}

no_nvme()
{
	echo 1 >/sys/class/nvme/${nvme%n1}/delete_controller
	[ ! -e /sys/block/$nvme ] || fail "the NVMe disk is still there"
	rm $nvmet/ports/1/subsystems/linnos-test
	echo 0 >$subsystem/namespaces/1/enable
	rmdir $nvmet/ports/1 $subsystem/namespaces/1 $subsystem
}

# scsi_disk NSEC: create a disk of scsi_debug, $disk, with this latency of a command
scsi_disk()
{
	host=/sys/bus/pseudo/drivers/scsi_debug
	echo 0 >$host/fake_rw || fail "no scsi_debug"
	echo "$1" >$host/ndelay
	echo 1 >$host/add_host || fail "no SCSI host"
	for i in $(seq 100); do
		disk=$(ls $host/adapter*/host*/target*/*/block 2>/dev/null | grep -o 'sd.*')
		[ -n "$disk" ] && [ -e /sys/block/$disk/linnos/mode ] && [ -b /dev/$disk ] && break
		sleep 0.1
	done
	[ -b "/dev/$disk" ] || fail "no SCSI disk"
	sleep 2 # the partition table has been read
}

no_scsi_disk()
{
	echo -1 >$host/add_host
	for i in $(seq 100); do [ -e /sys/block/$disk ] || break; sleep 0.1; done
	[ ! -e /sys/block/$disk ] || fail "the SCSI disk is still there"
}

# use_model DISK MODEL MODE: use a model without probes, which would admit some reads that the
# test expects to be revoked
use_model()
{
	echo 0 >"/sys/block/$1/linnos/probe_after_us"
	echo 0 >"/sys/block/$1/linnos/probe_after_revokes"
	cat "$MODELS/$2.linnos" >"/sys/block/$1/linnos/model" ||
		fail "$1: model $2 refused"
	echo "$3" >"/sys/block/$1/linnos/mode" || fail "$1: mode $3 refused"
}

# fault_every DIRECTORY PERCENT: inject faults; faults DIRECTORY prints their number since
fault_every()
{
	echo "$2" >"$1/probability" && echo 1000000 >"$1/times" && echo 0 >"$1/verbose" ||
		fail "no fault injection in $1"
}

faults()
{
	echo $((1000000 - $(cat "$1/times")))
}

in_flight()
{
	cat "/sys/kernel/debug/block/$1/rqos/linnos/in_flight"
}

# The counts must be zero when nothing is in flight.
expect_idle()
{
	sync
	expect "$1: in flight" "0 pages, 0 reads" "$(in_flight "$1")"
}

# Print one line: ok=N busy=N other=N
lcread()
{
	"$LCREAD" -p "$@" || fail "lcread $*"
}

# admits N WHAT [OPTION...] FILE: check that N reads with these options of lcread succeed
admits()
{
	number=$1 subject=$2
	shift 2
	expect "$subject" "ok=$number busy=0 other=0" "$(lcread -n $number "$@")"
}

# revokes N WHAT [OPTION...] FILE: check that N hinted reads are revoked
revokes()
{
	number=$1 subject=$2
	shift 2
	expect "$subject" "ok=0 busy=$number other=0" "$(lcread -n $number "$@")"
}

# requests DISK: print the number of reads that the drive got
requests()
{
	awk '{ print $1 }' "/sys/block/$1/stat"
}

uptime_ms()
{
	awk '{ print int($1 * 1000) }' /proc/uptime
}

as_nobody()
{
	setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$@"
}

# mount_cgroups FOLDER: mount cgroups with an io controller
mount_cgroups()
{
	mkdir -p $1
	mount -t cgroup2 none $1 || fail "no cgroups"
	echo +io >$1/cgroup.subtree_control || fail "no io controller"
}

# mount_ext4 DISK: make a file system and mount it at /run/mnt/fs
mount_ext4()
{
	mkfs.ext4 -q -F /dev/$1 || fail mkfs.ext4
	mkdir -p /run/mnt/fs
	mount -t ext4 /dev/$1 /run/mnt/fs || fail mount
}

# refuses WHAT FILE [OPTION...]: check that hinted reads by every interface return EOPNOTSUPP
refuses()
{
	what=$1 file=$2
	shift 2
	for interface in preadv2 uring fixed aio; do
		expect "$what, $interface, hinted" "EOPNOTSUPP EOPNOTSUPP " \
			"$("$LCREAD" -e $interface -n 2 "$@" "$file" | tr '\n' ' ')"
		admits 2 "$what, $interface, unhinted" -u -e $interface "$@" "$file"
	done
}

# Fail if the kernel log has error reports. One kind is ignored: under
# CONFIG_DEBUG_KOBJECT_RELEASE a disk may go before the kobject of its queue/ directory,
# which is a part of it, and an NVMe namespace before that of its character device. KCSAN
# reports all races of the kernel; those with one of our functions on a stack are ours.
clean_log()
{
	dmesg | awk '
		/BUG: KCSAN/	{ racing = 1; race = "" }
		racing		{
			race = race $0 "\n"
			if (/====================/) {
				racing = 0
				if (race ~ /(linnos|flashsim)[a-z0-9_]*\+0x/)
					printf "%s", race
			}
			next
		}
		/cut here/	{ held = 1; report = "" }
		held		{ report = report $0 "\n" }
		!held		{ print }
		/end trace/ && held {
			held = 0
			if (report !~ /hint: kobject_delayed_cleanup/ || report ~ /linnos_/)
				printf "%s", report
		}
		END { if (held) printf "%s", report }' |
		grep -E 'BUG|WARNING|KASAN|UBSAN|INFO: |Call Trace|ODEBUG|kmemleak: [0-9]|general protection' |
		head -n 5 | grep . && fail "the kernel log is not clean"
	return 0
}

# no_leaks [BYTES]: fail if memory leaks, except objects of this size, which the kernel itself
# leaks. Two scans, because an object that was in use during the first one may be freed.
no_leaks()
{
	leaks=/sys/kernel/debug/kmemleak
	[ -e $leaks ] || return 0
	sleep 6
	echo scan >$leaks
	sleep 6
	echo scan >$leaks
	grep '^unreferenced' $leaks | grep -qv "(size ${1:-none})" &&
		fail "leaks: $(head -n 40 $leaks)"
	return 0
}
