# SPDX-License-Identifier: MIT
# Sourced by the scripts that run in the lab's guest: slow and damaged I/O of emulated drives.

flashsim=/sys/kernel/config/flashsim

# write_settings FOLDER NAME=VALUE...: write files of a folder, in this order
write_settings()
{
	folder=$1
	shift
	for setting; do
		echo "${setting#*=}" >"$folder/${setting%%=*}"
	done
}

# inject DRIVE NAME=VALUE...: make I/O of a drive slow; `inject DRIVE arm=0` ends that
inject()
{
	injected=$flashsim/$1/inject
	shift
	case $* in
	*arm=*)	write_settings $injected "$@" ;;
	*)	write_settings $injected arm=0 "$@" arm=1 ;;
	esac
}

# rule DRIVE NAME SETTING=VALUE...: delay or damage I/O of a drive; remove_rule DRIVE NAME ends that
rule()
{
	rule=$flashsim/$1/rules/$2
	shift 2
	mkdir $rule
	write_settings $rule "$@" enabled=1
}

remove_rule()
{
	rmdir $flashsim/$1/rules/$2
}

# counter DRIVE NAME: print a counter of the emulator
counter()
{
	awk -v name=$2 '$1 == name { print $2 }' /sys/kernel/debug/flashsim/$1/counters
}

# bursts 1|0 [DRIVES]: each drive in turn, of all or of the first ones, takes 2 ms longer for a read,
# for $burst_us (100 ms by default)
bursts()
{
	turns=${2:-$(ls -d /sys/block/flash? | wc -l)}
	for turn in $(seq 0 $((turns - 1))); do
		inject flash$turn arm=0 pattern=all op=read latency_us=2000 window_us=${burst_us:=100000} \
			window_every_us=$burst_us window_turns=$turns window_turn_mask=$((1 << turn)) \
			arm=$1
	done
}
