#!/bin/bash
# SPDX-License-Identifier: MIT
# `backports_kernel.sh FOLDER` unpacks the newest kernel for Debian 13 (trixie-backports) to FOLDER, for QEMU, and
# installs in $DEBIAN_13 the tools that build its modules and the patch series for it. debootstrap creates that folder
# if it does not exist. Needs root.
set -euo pipefail
root=$DEBIAN_13
[ $# = 1 ] && [ "$(id -u)" = 0 ] || { echo "usage, as root: backports_kernel.sh FOLDER" >&2; exit 2; }
# The mounts end with the namespace.
[ -n "${LINNOS_UNSHARED:-}" ] || LINNOS_UNSHARED=yes exec unshare --mount "$0" "$1"
. "$(dirname "$0")/apt_here.sh"
rm -rf "$1"
mkdir -p "$1/packages"
folder=$(realpath "$1")
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }
install() { inside apt-get -qq -y --no-install-recommends install "$@" >"$folder/log" || { cat "$folder/log" >&2; exit 1; }; }

[ -e "$root/etc/os-release" ] || bootstrap trixie "$folder" "$root" --variant=minbase --include=ca-certificates
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
cp -L /etc/resolv.conf "$root/etc/"
sources_of trixie | awk '$3 == "trixie" { $3 = "trixie-backports"; print; exit }' \
	>"$root/etc/apt/sources.list.d/backports.list"
inside apt-get -qq update
install gcc make patch dpkg-dev xz-utils kmod flex bison bc perl libelf-dev cpio ccache
install -t trixie-backports linux-headers-amd64 linux-source
release=$(inside dpkg-query -W -f '${Depends}' linux-headers-amd64 | sed -n 's/.*linux-headers-\([^ ]*\).*/\1/p')
inside sh -c "cd /var/cache/apt/archives && rm -f *.deb && apt-get -qq -o APT::Sandbox::User=root download \
	linux-base-$release linux-binary-$release linux-modules-$release busybox-static" >/dev/null
for package in "$root"/var/cache/apt/archives/*.deb; do
	dpkg-deb -x "$package" "$folder"
	rm "$package"
done
cd "$folder"
ln -s usr/lib lib
mkdir boot
mv "lib/modules/$release/vmlinuz" "boot/vmlinuz-$release"
depmod -b . "$release"
rm -rf packages log debootstrap.log
