#!/bin/bash
# SPDX-License-Identifier: MIT
# `make_image.sh RELEASE FOLDER` makes FOLDER/debian.img, the disk of a machine with a release of
# Debian (bookworm or trixie) as its installer would leave it: a partition, GRUB, Debian's kernel,
# sshd, a network by DHCP. The user has also installed mdadm and fio. FOLDER/key lets root log in.
# Packages, certificates and the sources of apt and pip are those of this machine. Needs root,
# because it mounts the disk.
set -euo pipefail
[ $# = 2 ] && [ "$(id -u)" = 0 ] || { echo "usage, as root: make_image.sh RELEASE FOLDER" >&2; exit 2; }
mkdir -p "$2/packages"
folder=$(realpath "$2")
image=$folder/debian.img.new
root=$(mktemp -d)
device=

finish() {
	umount -R "$root" 2>/dev/null || :
	[ -z "$device" ] || losetup -d "$device"
	rmdir "$root"
}
trap finish EXIT

. "$(dirname "$0")/apt_here.sh"

rm -f "$image"
truncate -s 16G "$image"
echo '2048,,83,*' | sfdisk -q "$image"
# Not every kernel looks for partitions on a loop device.
device=$(losetup --offset $((2048 * 512)) --show -f "$image")
mkfs.ext4 -q -L root "$device"
mount "$device" "$root"
# Tools for building kernel modules are in the image, because unpacking them in the emulator
# takes minutes.
bootstrap "$1" "$folder" "$root" \
	--include=grub-pc,openssh-server,mdadm,fio,ca-certificates,zstd,apt-utils,gcc,make,patch,dpkg-dev,xz-utils,dwarves
pip_here "$root"

echo linnos-walk >"$root/etc/hostname"
echo 'LABEL=root / ext4 errors=remount-ro 0 1' >"$root/etc/fstab"
printf '[Match]\nType=ether\n[Network]\nDHCP=ipv4\n' >"$root/etc/systemd/network/80-dhcp.network"
# The name server of QEMU's network.
echo 'nameserver 10.0.2.3' >"$root/etc/resolv.conf"
rm -f "$folder/key" "$folder/key.pub"
ssh-keygen -q -t ed25519 -N '' -C walk -f "$folder/key"
install -D -m 600 "$folder/key.pub" "$root/root/.ssh/authorized_keys"
sed -i -e 's/^GRUB_TIMEOUT=.*/GRUB_TIMEOUT=0/' \
	-e 's/^GRUB_CMDLINE_LINUX=.*/GRUB_CMDLINE_LINUX="root=LABEL=root console=ttyS0"/' \
	-e 's/^GRUB_CMDLINE_LINUX_DEFAULT=.*/GRUB_CMDLINE_LINUX_DEFAULT=""/' "$root/etc/default/grub"

for kind in dev proc sys; do mount --bind "/$kind" "$root/$kind"; done
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }
inside update-ca-certificates >/dev/null
inside systemctl -q enable systemd-networkd
inside systemctl -q mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer
cp /etc/resolv.conf "$root/etc/resolv.conf.here"
mount --bind "$root/etc/resolv.conf.here" "$root/etc/resolv.conf"
inside apt-get -q update >/dev/null
# The kernel for guests has the drivers of QEMU's disks and is small. All packages are the newest,
# except the kernel, which is pinned to the version before the newest, until the pin is removed.
kernel=linux-image-cloud-amd64
before=$(inside apt-cache madison $kernel | awk '{ print $3 }' | sort -Vru | sed -n 2p)
[ -n "$before" ] || { echo "make_image.sh: apt here offers $kernel in one version only" >&2; exit 1; }
printf 'Package: linux-*\nPin: version %s\nPin-Priority: 1001\n' "$before" \
	>"$root/etc/apt/preferences.d/kernel"
for what in "upgrade --with-new-pkgs" "install $kernel"; do
	inside env DEBIAN_FRONTEND=noninteractive apt-get -q --no-install-recommends \
		$what >"$folder/upgrade.log" 2>&1 || { tail "$folder/upgrade.log" >&2; exit 1; }
done
inside apt-get -q clean
umount "$root/etc/resolv.conf"
rm "$root/etc/resolv.conf.here"
# Do the same as grub-install, which would ask for the disk of the partition: write GRUB's first
# sector, the core image after it, and its modules.
mkdir -p "$root/boot/grub"
cp -r "$root/usr/lib/grub/i386-pc" "$root/boot/grub/"
inside grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o /boot/grub/i386-pc/core.img \
	biosdisk part_msdos ext2
dd status=none conv=notrunc of="$image" bs=440 count=1 if="$root/usr/lib/grub/i386-pc/boot.img"
dd status=none conv=notrunc of="$image" bs=512 seek=1 if="$root/boot/grub/i386-pc/core.img"
# In the machine, where the disk is known, the first kernel that is installed writes another one.
kernel=$(cd "$root/boot" && ls -d vmlinuz-*)
cat >"$root/boot/grub/grub.cfg" <<-EOT
	search --no-floppy --label root --set=root
	linux /boot/$kernel root=LABEL=root ro console=ttyS0
	initrd /boot/initrd.img-${kernel#vmlinuz-}
	boot
EOT
cp "$root/boot/$kernel" "$folder/vmlinuz"
umount -R "$root"
losetup -d "$device"
device=
mv "$image" "$folder/debian.img"
