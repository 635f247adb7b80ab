#!/bin/sh
# SPDX-License-Identifier: MIT
# First process of the QEMU lab's guest. The host shares a folder for this
# boot under the 9p tag `control`: setup.sh (run before the command), command.sh
# (the user's command); began, status and dmesg (progress and outcome, written
# here).
. "${0%/*}/init-mounts.sh"
options=trans=virtio,version=9p2000.L

mount -t 9p -o "$options" control /run/control

# Each of the command's two outputs has its own port, separate from the kernel's console.
for port in /sys/class/virtio-ports/*; do
	ln -s "/dev/${port##*/}" "/run/port-$(cat "$port/name")"
done
mkfifo /run/stdout /run/stderr
cat </run/stdout >/run/port-stdout &
stdout_cat=$!
cat </run/stderr >/run/port-stderr &
stderr_cat=$!
if env -i PATH="$PATH" sh -eu /run/control/setup.sh >/run/setup.log 2>&1; then
	: >/run/control/began
	sh /run/control/command.sh </dev/null >/run/stdout 2>/run/stderr
	status=$?
else
	: >/run/stdout
	cat /run/setup.log >/run/stderr
	status=setup
fi
# A daemon that the command left behind would hold the pipes open forever.
for second in 1 2 3 4 5; do
	kill -0 "$stdout_cat" 2>/dev/null || kill -0 "$stderr_cat" 2>/dev/null || break
	sleep 1
done
dmesg >/run/control/dmesg 2>/dev/null
echo "$status" >/run/control/status
sync
echo b >/proc/sysrq-trigger
sleep 60
