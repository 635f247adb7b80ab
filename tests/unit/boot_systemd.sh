#!/bin/sh
# SPDX-License-Identifier: MIT
# First process of new namespaces: `boot_systemd.sh DIR` starts systemd on this machine's own files,
# under an overlay that keeps what it writes in DIR. DIR/etc is copied over /etc, DIR/bin over
# /usr/local/bin, and DIR/state is /var/lib/linnapp. The machine's own units are not started, except
# those that systemd itself needs.
set -eu
dir=$1
root=$dir/root
mkdir -p "$dir/writes" "$root" "$dir/state"
mount -t tmpfs tmpfs "$dir/writes"
mkdir "$dir/writes/upper" "$dir/writes/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/writes/upper,workdir=$dir/writes/work" "$root"
cd "$root"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs dev
for node in null zero full random urandom tty; do
	touch "dev/$node"
	mount --bind "/dev/$node" "dev/$node"
done
mkdir dev/shm
mount -t tmpfs tmpfs dev/shm
ln -s /proc/self/fd dev/fd
mkdir -p var/lib/linnapp
mount --bind "$dir/state" var/lib/linnapp
rm -rf etc/systemd/system/* var/log/journal
: >etc/fstab
cp -r "$dir/etc/." etc/
cp -r "$dir/bin/." usr/local/bin/
exec chroot . env -i container=linnos PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	/lib/systemd/systemd --unit=multi-user.target </dev/null
