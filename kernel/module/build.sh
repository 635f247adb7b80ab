#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Build the modules for a kernel that is not patched, out of tree.
#
#	kernel/module/build.sh [--kernel RELEASE] [--out DIR]
#
# --kernel RELEASE	as `uname -r` has it; its headers must be installed. By default
#			the kernel that runs.
# --out DIR		by default build/module/RELEASE
#
# Leaves DIR/linnos.ko.

set -euo pipefail

module_dir=$(cd "$(dirname "$0")" && pwd)
kernel_dir=$module_dir/..
release=$(uname -r)
out_dir=

die() { echo "kernel/module/build.sh: $*" >&2; exit 1; }
usage() { sed -n 's/^#\t\{0,1\}//; 4,13p' "$0" >&2; exit 2; }

while [ $# -gt 0 ]; do
	case $1 in
	--kernel)
		[ $# -ge 2 ] || usage
		release=$2; shift ;;
	--out)	[ $# -ge 2 ] || usage
		out_dir=$2; shift ;;
	*)	usage ;;
	esac
	shift
done
: "${out_dir:=$kernel_dir/../build/module/$release}"
headers=/lib/modules/$release/build
[ -d "$headers" ] || headers=/usr/src/linux-headers-$release
[ -e "$headers/Makefile" ] ||
	die "no headers of $release; as root: apt-get install linux-headers-$release"
mkdir -p "$out_dir"
out_dir=$(cd "$out_dir" && pwd)

# Keep the time of a file that has not changed, and so what was made from it.
copy_in() {
	local to=$out_dir/$2

	cmp -s "$1" "$to" && return
	mkdir -p "${to%/*}"
	cp "$1" "$to"
}

copy_sources() {
	local f

	for f in "$module_dir"/{Kbuild,*.[ch]}; do
		copy_in "$f" "${f##*/}"
	done
	for f in "$kernel_dir"/linnos/{blk-linnos{-expect,-ioctl,-model,-sysfs}.c,*.h,core/*.[ch]}; do
		copy_in "$f" "${f#"$kernel_dir"/linnos/}"
	done
	for f in linux/blk-linnos.h trace/events/linnos.h uapi/linux/blk-linnos.h; do
		copy_in "$kernel_dir/linnos/include/$f" "include/$f"
	done
}

copy_sources
make -s -C "$headers" M="$out_dir" modules
