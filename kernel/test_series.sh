#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Test the patch series for a kernel: export it (series.sh), apply it patch by patch to
# Debian's source, check each patch with checkpatch, compile block/, drivers/md/ and fs/
# after each, and build a UML kernel at the end.
#
#	kernel/test_series.sh VERSION [--sources DIR] [--chroot DIR]
#
# VERSION	6.12 or 7.3
# --sources	folder with Debian's linux-source-VERSION.tar.xz; /usr/src
# --chroot	compile in this folder, which has Debian 13's gcc, make, flex, bison, bc,
#		perl and patch; 7.3 does not compile on Debian 12
#
# The result is build/series/VERSION/um/linux.

set -euo pipefail

kernel_dir=$(cd "$(dirname "$0")" && pwd)
build_dir=${BUILD:-$kernel_dir/../build}
sources=/usr/src
chroot=
version=

say() { echo "kernel: $*"; }
die() { echo "kernel/test_series.sh: $*" >&2; exit 1; }
usage() { sed -n 's/^#\t\{0,1\}//; 4,17p' "$0" >&2; exit 2; }

# --- compile, also inside the chroot -------------------------------------------

kmake() {
	local cc=gcc

	! command -v ccache >/dev/null || cc="ccache gcc"
	make -C "$work/linux" O="$work/um" ARCH=um SUBARCH=x86_64 CC="$cc" -j"$(nproc)" "$@"
}

configure() {
	kmake -s tinyconfig
	(cd "$work/um" && ../linux/scripts/kconfig/merge_config.sh -m .config "$work"/*.config)
	kmake -s olddefconfig
	[ ! -e "$work/linux/block/linnos" ] || grep -qx CONFIG_BLK_LINNOS=y "$work/um/.config" ||
		die "BLK_LINNOS is not set"
}

# compile NAME TARGET...: fail at a warning, too
compile() {
	local name=$1 log=$work/log

	shift
	kmake "$@" >"$log" 2>&1 || {
		grep -E -A8 'error:|Error [0-9]|undefined reference' "$log" | head -n 40 >&2
		die "$name does not compile"
	}
	! grep -A8 'warning:' "$log" >&2 || die "$name compiles with warnings"
}

test_patches() {
	local patch name

	work=$1
	mkdir -p "$work/um"
	for patch in "$work"/000[1-9]-*.patch; do
		name=${patch##*/}
		patch -d "$work/linux" -p1 -f -s -F0 --no-backup-if-mismatch -i "$patch" ||
			die "$name does not apply"
		configure >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
		compile "$name" block/ drivers/md/ fs/ mm/filemap.o
		say "$name compiles"
	done
	compile "the whole series" linux
}

if [ "${1:-}" = --inside ]; then
	test_patches "$2"
	exit
fi

# --- outside ---------------------------------------------------------------------

while [ $# -gt 0 ]; do
	case $1 in
	--sources)	[ $# -ge 2 ] || usage
			sources=$2; shift ;;
	--chroot)	[ $# -ge 2 ] || usage
			chroot=$2; shift ;;
	-*)		usage ;;
	*)		version=$1 ;;
	esac
	shift
done
[ -n "$version" ] || usage
"$kernel_dir/series.sh" "$version" --sources "$sources"
work=$(cd "$build_dir/series/$version" && pwd)

say "unpacking linux-source-$version"
rm -rf "$work/linux"
mkdir "$work/linux"
xz -T0 -dc "$sources/linux-source-$version.tar.xz" |
	tar -C "$work/linux" --strip-components=1 -xf -

# Ignore the warnings about trace events, about names in the style of md, and about old functions
# whose replacements Linux 6.12 lacks.
ignore=ALLOC_WITH_SIZEOF,NEW_TYPEDEFS,CAMELCASE,FILE_PATH_CHANGES,OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT
for patch in "$work"/000[1-9]-*.patch; do
	perl "$work/linux/scripts/checkpatch.pl" --no-tree --strict --quiet --terse --show-types \
		--no-summary --ignore "$ignore" - <"$patch" || die "checkpatch of ${patch##*/}"
done

cp "$kernel_dir"/config/{uml,linnos}.config "$work"
cp "$0" "$work/inside.sh"
if [ -n "$chroot" ]; then
	[ -x "$chroot/usr/bin/gcc" ] || die "no gcc in $chroot"
	mkdir -p "$chroot/mnt/series"
	unshare --mount bash -ec '
		mount --bind "$1" "$2/mnt/series"
		mountpoint -q "$2/proc" || mount -t proc proc "$2/proc"
		mountpoint -q "$2/dev" || mount --rbind /dev "$2/dev"
		exec chroot "$2" bash /mnt/series/inside.sh --inside /mnt/series' \
		bash "$work" "$chroot"
else
	bash "$work/inside.sh" --inside "$work"
fi
rm -f "$work"/{uml,linnos}.config "$work/inside.sh"
say "$work/um/linux"
