# SPDX-License-Identifier: MIT
# First part of both labs' first process, read by init.sh and init-qemu.sh: the
# kernel's own file systems, and somewhere to write.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t configfs configfs /sys/kernel/config 2>/dev/null
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts 2>/dev/null
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mkdir -p /run/tmp /run/home /run/mnt /run/lock /run/control
ln -sf /proc/self/fd /dev/fd
echo linnos >/proc/sys/kernel/hostname
