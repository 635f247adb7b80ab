# SPDX-License-Identifier: MIT
# Sourced by the block-layer tests that run in the lab's guest.
#
# $LCREAD is the hinted reader (lcread.c), $MODELS holds slow.linnos, which calls
# every read slow, fast.linnos, queue.linnos and deep.linnos, slow from 10 and 300
# pending pages; of latencies last.linnos, slow if the last read took more than 50 us,
# region.linnos, slow if another read is in flight in its region.

set -u

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

# nvme_over DISK: an NVMe drive $nvme over a loop target on the disk; no_nvme ends it.
# Its name is free again only some time after it is gone.
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

# scsi_disk NSEC: a disk of scsi_debug's, $disk, that takes so long for a command
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

# use_model DISK MODEL MODE: no probes, which would admit reads that are to be
# revoked whenever the guest takes its time
use_model()
{
	echo 0 >"/sys/block/$1/linnos/probe_after_us"
	echo 0 >"/sys/block/$1/linnos/probe_after_revokes"
	cat "$MODELS/$2.linnos" >"/sys/block/$1/linnos/model" ||
		fail "$1: model $2 refused"
	echo "$3" >"/sys/block/$1/linnos/mode" || fail "$1: mode $3 refused"
}

# fault_every DIRECTORY PERCENT: faults DIRECTORY says how often it has struck since
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

# Nothing may be left in the account when nothing is in flight.
expect_idle()
{
	sync
	expect "$1: in flight" "0 pages, 0 reads" "$(in_flight "$1")"
}

# One line: ok=N busy=N other=N
lcread()
{
	"$LCREAD" -p "$@" || fail "lcread $*"
}

# refuses WHAT FILE [OPTION...]: no answer but EOPNOTSUPP, by any interface
refuses()
{
	what=$1 file=$2
	shift 2
	for interface in preadv2 uring fixed aio; do
		expect "$what, $interface, hinted" "EOPNOTSUPP EOPNOTSUPP " \
			"$("$LCREAD" -e $interface -n 2 "$@" "$file" | tr '\n' ' ')"
		expect "$what, $interface, unhinted" "ok=2 busy=0 other=0" \
			"$(lcread -u -e $interface -n 2 "$@" "$file")"
	done
}

# What the kernel says of mistakes. One kind is no concern of ours: under
# CONFIG_DEBUG_KOBJECT_RELEASE a disk may go before the kobject of its queue/ directory,
# which is a part of it, and an NVMe namespace before that of its character device. KCSAN tells of
# races of the kernel at large: those with one of our functions on a stack are ours.
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

# no_leaks [BYTES]: nothing leaks, but for what the kernel itself is known to, objects of
# so many bytes. Twice: an object that somebody still held at the first look may be gone.
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
