#!/bin/sh
# SPDX-License-Identifier: MIT
# First process of the lab's guest, read from the folder that the host shares
# with it for this one boot: setup.sh (drives), command.sh (what the user asked
# for), terminal (rows and columns, there when output goes to one), keys (there
# when what is typed comes from there), status (the command's exit code, written
# here).
. /run/init-mounts.sh

# hostfs accepts its folder only by mount(2), which util-linux 2.39 and later use only with this variable.
LIBMOUNT_FORCE_MOUNT2=always mount -t hostfs -o /proc/self/cwd/. none /run/control

# The kernel tells there on which host, and on which kernel of it, it runs.
sed '/^host/d' /proc/cpuinfo >/run/cpuinfo
mount --bind /run/cpuinfo /proc/cpuinfo

# The scheduler's guard against starvation by real-time tasks ticks once a second from
# whenever something last ran, and so would carry a trace of the past into a run.
for runtime in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do
	[ ! -w "$runtime" ] || echo 0 >"$runtime"
done

# A message of the kernel must not end up in the middle of the command's
# output: it stays in the log, which the host collects.
stty -F /dev/ttyS0 raw -echo 2>/dev/null
stty -F /dev/ttyS1 raw -echo 2>/dev/null

if env -i PATH="$PATH" sh -eu /run/control/setup.sh >/run/setup.log 2>&1; then
	# Servers of the command's are reached on the guest itself, and nowhere else.
	ip link set lo up
	if [ -e /run/control/terminal ]; then
		read -r rows columns </run/control/terminal
		input=/dev/null
		if [ -e /run/control/keys ]; then
			# The host's terminal shows output as it comes, and no keys.
			input=/dev/ttyS0
			stty -F /dev/ttyS0 sane -opost
		fi
		(
			# A terminal that no process has open loses its size.
			for output in 1 2; do
				stty rows "$rows" cols "$columns" <&"$output"
			done
			exec sh /run/control/command.sh
		) <"$input" >/dev/ttyS0 2>/dev/ttyS1
		status=$?
	else
		# Through pipes, so that programs see no terminal.
		mkfifo /run/stdout /run/stderr
		cat </run/stdout >/dev/ttyS0 &
		cat </run/stderr >/dev/ttyS1 &
		sh /run/control/command.sh </dev/null >/run/stdout 2>/run/stderr
		status=$?
		# A daemon that the command left behind would hold the pipes
		# open forever; everything is flushed after a second.
		sleep 1
	fi
else
	cat /run/setup.log >/dev/ttyS1
	status=setup
fi
stty -F /dev/ttyS0 raw -echo 2>/dev/null # waits until the output has drained
dmesg >/run/control/dmesg 2>/dev/null
echo "$status" >/run/control/status
sync
echo o >/proc/sysrq-trigger
sleep 60
