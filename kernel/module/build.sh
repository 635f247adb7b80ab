#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Build the modules for a kernel that is not patched, out of tree.
#
#	kernel/module/build.sh [--kernel RELEASE] [--raid] [--stock DIR] [--out DIR] [--chroot DIR]
#	kernel/module/build.sh --built DIR [--raid] [--out DIR]
#	kernel/module/build.sh [--kernel RELEASE] --check
#	kernel/module/build.sh --dkms DIR
#
# --kernel RELEASE	release of the kernel, as printed by `uname -r`; its headers must be
#			installed. The default is the running kernel.
# --raid		also build raid1.ko and raid10.ko that query LinnOS, from Debian's
#			package of the source of exactly this kernel
# --stock DIR		folder of the kernel's own modules; /lib/modules/RELEASE
# --out DIR		output folder; build/module/RELEASE
# --chroot DIR		build in this folder, which holds another Debian with the compiler and the
#			packages (root); the other folders are in this clone
# --built DIR		build for the kernel that ../build.sh has left in DIR, built from the same
#			package of the source, and not for a kernel of Debian
# --check		build nothing; report what would prevent building raid1.ko and raid10.ko
# --dkms DIR		build nothing; copy what DKMS needs to DIR
#
# Writes linnos.ko and dm-linnos-faults.ko to the output folder, and raid/raid1.ko and raid/raid10.ko if both build.

set -euo pipefail

module_dir=$(cd "$(dirname "$0")" && pwd)
kernel_dir=$module_dir/..
# In the source for DKMS, core/ lies next to module/.
core_dir=$kernel_dir/core
[ -d "$core_dir" ] || core_dir=$kernel_dir/../core
# The patches of md, newest first.
md_series=("$kernel_dir"/patches/{7.3,6.12,md-6.1})
# The fault rules of emulated drives, for dm-linnos-faults.ko.
fault_files=(fault.c fault.h flashsim.h setting.c setting.h settings.h)
release=$(uname -r)
out_dir=
stock_dir=
with_raid=no
only_check=no
dkms_dir=
built_dir=
chroot=
arguments=("$@")

die() { echo "kernel/module/build.sh: $*" >&2; exit 1; }
usage() { sed -n 's/^#\t\{0,1\}//; 4,25p' "$0" >&2; exit 2; }

while [ $# -gt 0 ]; do
	case $1 in
	--kernel)
		[ $# -ge 2 ] || usage
		release=$2; shift ;;
	--stock)
		[ $# -ge 2 ] || usage
		stock_dir=$2; shift ;;
	--out)	[ $# -ge 2 ] || usage
		out_dir=$2; shift ;;
	--chroot)
		[ $# -ge 2 ] || usage
		chroot=$2; shift ;;
	--built)
		[ $# -ge 2 ] || usage
		built_dir=$(realpath "$2"); shift ;;
	--dkms)	[ $# -ge 2 ] || usage
		dkms_dir=$2; shift ;;
	--raid)	with_raid=yes ;;
	--check)
		only_check=yes ;;
	*)	usage ;;
	esac
	shift
done

# Copy everything that this script needs, in the same layout, so that it also runs in the copy.
dkms_source() {
	local version

	version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$kernel_dir/../pyproject.toml")
	[ -n "$version" ] || die "no version in $kernel_dir/../pyproject.toml"
	mkdir -p "$dkms_dir"/{module,linnos,patches}
	cp -r "$kernel_dir"/linnos/{*.[ch],include} "$dkms_dir/linnos"
	cp -r "$core_dir" "$dkms_dir/core"
	mkdir -p "$dkms_dir/flashsim"
	cp "${fault_files[@]/#/$kernel_dir/flashsim/}" "$dkms_dir/flashsim"
	cp -r "${md_series[@]}" "$dkms_dir/patches"
	cp -r "$module_dir"/{Kbuild,*.[ch],build.sh,compat,interfaces,raid} "$dkms_dir/module"
	sed "s/@VERSION@/$version/" "$module_dir/dkms.conf" >"$dkms_dir/dkms.conf"
}

if [ -n "$dkms_dir" ]; then
	dkms_source
	exit
fi

# The clone has the same path inside the chroot, so that the arguments are valid there.
if [ -n "$chroot" ] && [ -z "${LINNOS_INSIDE:-}" ]; then
	[ "$(id -u)" = 0 ] || die "--chroot needs root"
	[ -x "$chroot/usr/bin/make" ] || die "$chroot holds no Debian with make"
	exec unshare --mount bash -ec '
		mkdir -p "$1$2"
		mount --bind "$2" "$1$2"
		mountpoint -q "$1/proc" || mount -t proc proc "$1/proc"
		mountpoint -q "$1/dev" || mount --rbind /dev "$1/dev"
		exec chroot "$1" env LINNOS_INSIDE=yes "$2/kernel/module/build.sh" "${@:3}"' \
		bash "$(realpath "$chroot")" "$(realpath "$kernel_dir/..")" "${arguments[@]}"
fi

if [ -n "$built_dir" ]; then
	release=$(cat "$built_dir/include/config/kernel.release") ||
		die "$built_dir holds no kernel; ../build.sh makes one"
	: "${out_dir:=$kernel_dir/../build/module/${built_dir##*/}}"
	: "${stock_dir:=$built_dir/root/lib/modules/$release}"
	headers=$built_dir
	if grep -q '^CONFIG_UML=y' "$built_dir/.config"; then
		export ARCH=um
	fi
fi
: "${out_dir:=$kernel_dir/../build/module/$release}"
: "${stock_dir:=/lib/modules/$release}"
: "${headers:=/usr/src/linux-headers-$release}"
[ -e "$headers/Makefile" ] || headers=/lib/modules/$release/build

check_headers() {
	[ -e "$headers/Makefile" ] ||
		die "no headers of $release in /usr/src or /lib/modules/$release/build; on Debian, as root:" \
			"apt-get install linux-headers-$release"
}

# Copy a file only if it has changed, so that make does not rebuild what depends on it.
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
	for f in "$kernel_dir"/linnos/{blk-linnos{-array,-expect,-ioctl,-model,-query,-sysfs}.c,blk-linnos{,-policy,-query}.h}; do
		copy_in "$f" "${f##*/}"
	done
	for f in "${fault_files[@]}"; do
		copy_in "$kernel_dir/flashsim/$f" "flashsim/$f"
	done
	for f in "$core_dir"/*.[ch]; do
		copy_in "$f" "core/${f##*/}"
	done
	for f in linux/blk-linnos{,-array}.h trace/events/linnos.h; do
		copy_in "$kernel_dir/linnos/include/$f" "include/$f"
	done
	copy_in "$core_dir/uapi/linux/blk-linnos.h" include/uapi/linux/blk-linnos.h
	# Linux 6.1 has no linux/unaligned.h; newer kernels find their own first.
	copy_in "$module_dir/compat/linux/unaligned.h" include/linux/unaligned.h
}

# Compile each file of interfaces/, and write to linnos_interfaces.h whether the kernel has that interface.
find_interfaces() {
	local test name tests=$out_dir/interfaces

	rm -rf "$tests"
	cp -r "$module_dir/interfaces" "$tests"
	make -s -k -C "$headers" M="$tests" $(cd "$tests" && echo *.c | sed 's/\.c\b/.o/g') \
		>"$tests/log" 2>&1 || :
	{
		printf '/* SPDX-License-%s: GPL-2.0-only */\n' Identifier
		for test in "$tests"/*.c; do
			name=${test##*/}
			name=${name%.c}
			echo "#define LINNOS_HAS_${name^^} $([ -e "$tests/$name.o" ] && echo 1 || echo 0)"
		done
	} >"$tests/found.h"
	copy_in "$tests/found.h" linnos_interfaces.h
}

# Print the output of a command only if it fails.
quietly() {
	"$@" >"$out_dir/log" 2>&1 || {
		cat "$out_dir/log" >&2
		return 1
	}
}

# --- raid1 and raid10 ---------------------------------------------------------

# The kernel version whose source raid1 and raid10 are built from.
source_version() {
	echo "$release" | sed 's/^\([0-9]*\.[0-9]*\).*/\1/'
}

# Print the version of a package whose files are unpacked. It need not be configured yet, because
# DKMS runs while the headers or other packages are being configured.
installed_version() {
	dpkg-query -W -f '${db:Status-Status} ${Version}' "$1" 2>/dev/null |
		sed -nE 's/^(installed|unpacked|half-configured|triggers-[a-z]+) //p' || true
}

# A point release may change the patched code, or the structures that it shares with md-mod.
check_versions() {
	local headers_version source_package image_version

	headers_version=$(installed_version "linux-headers-$release")
	source_package=$(installed_version "linux-source-$1")
	image_version=$(installed_version "linux-image-$release")
	[ -n "$headers_version" ] ||
		die "linux-headers-$release is not installed as a Debian package: raid1 and raid10 are not built"
	[ "$headers_version" = "$source_package" ] ||
		die "raid1 and raid10 are not built: linux-headers-$release is $headers_version, linux-source-$1 is" \
			"${source_package:-not installed}; as root: apt-get install linux-source-$1=$headers_version"
	[ "${image_version:-$headers_version}" = "$headers_version" ] ||
		die "raid1 and raid10 are not built: linux-headers-$release is $headers_version, linux-image-$release is" \
			"$image_version; as root: apt-get install linux-headers-$release=$image_version"
}

# hunks_of PATCH: print the parts of a patch that change raid1 and raid10
hunks_of() {
	awk '/^diff --git / { wanted = $4 ~ "^b/drivers/md/raid1(0|-10)?\\.[ch]$" }
		wanted' "$1"
}

# patch_raid FOLDER: apply the first series that applies without fuzz, for whichever kernel it was written
patch_raid() {
	local series f tried=$1.tried

	for series in "${md_series[@]}"; do
		rm -rf "$tried"
		cp -r "$1" "$tried"
		if for f in "$series"/*-md-raid*.patch; do hunks_of "$f"; done |
			patch -d "$tried" -p1 -f -s -F0 --no-backup-if-mismatch >/dev/null; then
			rm -rf "$1"
			mv "$tried" "$1"
			return
		fi
	done
	rm -rf "$tried"
	die "raid1 and raid10 are not built: our patches for Linux 6.1, 6.12 and 7.3 do not apply to md of $release" \
		"without fuzz; boot one of those kernels, or use linnos-ublk or liblinnos, which need no module"
}

unpack_raid() {
	local version=$1 tarball=/usr/src/linux-source-$1.tar.xz new=$out_dir/raid.new f id

	# do nothing if the same sources and patches were unpacked before
	id=$(stat -L -c '%s %Y' "$tarball" &&
		cat "$kernel_dir"/patches/*/*-md-raid*.patch "$module_dir/raid/Kbuild" | sha256sum)
	[ ! -e "$out_dir/raid/.source" ] || [ "$(cat "$out_dir/raid/.source")" != "$id" ] || return 0
	rm -rf "$new"
	mkdir -p "$new"
	tar -C "$new" --strip-components=1 -xJf "$tarball" "linux-source-$version/drivers/md" ||
		die "$tarball holds no drivers/md"
	patch_raid "$new"
	rm -rf "$out_dir/raid"
	mkdir "$out_dir/raid"
	# the version tells which module is loaded, and lets DKMS replace the kernel's own module
	for f in raid1 raid10; do
		echo 'MODULE_VERSION("linnos");' >>"$new/drivers/md/$f.c"
	done
	cp "$new"/drivers/md/{*.h,md*.c,raid1.c,raid10.c,raid1-10.c} "$module_dir/raid/Kbuild" \
		"$out_dir/raid"
	grep '^md-mod-' "$new/drivers/md/Makefile" >>"$out_dir/raid/Kbuild"
	echo "$id" >"$out_dir/raid/.source"
	rm -rf "$new"
}

# imports FILE: print the symbols that a module imports, with their versions if the kernel has versions
imports() {
	local found

	if grep -q '^CONFIG_MODVERSIONS=y' "$headers/include/config/auto.conf"; then
		found=$(PATH=$PATH:/usr/sbin:/sbin modprobe --dump-modversions "$1" | sort)
	else
		xz -dcf "$1" >"$out_dir/raid/unpacked.ko"
		found=$(nm -u "$out_dir/raid/unpacked.ko" | sort)
		rm "$out_dir/raid/unpacked.ko"
	fi
	[ -n "$found" ] || die "raid1 and raid10 are not built: $1 does not list the symbols that it imports"
	echo "$found"
}

# Our module must import each symbol that the kernel's own module imports, in the same version. The
# versions of the symbols of md-mod are computed here, from the headers that raid1 and raid10 are
# compiled with: if they are equal, so are the structures. All other symbols, except those of LinnOS,
# come from the kernel. If the kernel has no versions (Debian's 7.3), only the names are compared, and
# only the versions of the packages show that the structures are equal.
check_symbols() {
	local name=$1 stock stock_imports ours missing

	stock=$(find "$stock_dir/kernel/drivers/md" -name "$name.ko*" 2>/dev/null | head -n 1)
	[ -n "$stock" ] ||
		die "raid1 and raid10 are not built: $stock_dir has no $name.ko to compare with; linux-image-$release has one"
	stock_imports=$(imports "$stock")
	ours=$(imports "$out_dir/raid/$name.ko")
	missing=$(comm -23 <(echo "$stock_imports") <(echo "$ours"))
	[ -z "$missing" ] ||
		die "raid1 and raid10 are not built: $name.ko of this source and $stock belong to different kernels:" \
			"$(echo "$missing" | awk '{ print $2 }' | paste -sd ' ')"
}

build_raid() {
	local version name

	version=$(source_version)
	[ -n "$built_dir" ] || check_versions "$version"
	unpack_raid "$version"
	quietly make -s -C "$headers" M="$out_dir/raid" \
		KBUILD_EXTRA_SYMBOLS="$out_dir/Module.symvers" modules || die "raid1 and raid10 do not compile"
	for name in raid1 raid10; do
		check_symbols $name
	done
	rm "$out_dir/raid/md-mod.ko"
}

if [ $only_check = yes ]; then
	version=$(source_version)
	check_headers
	check_versions "$version"
	exit
fi
check_headers
mkdir -p "$out_dir"
out_dir=$(cd "$out_dir" && pwd)
[[ $out_dir != *[[:space:]]* ]] ||
	die "$out_dir: the kernel's Makefile takes no blanks in a path; name another place with --out"
exec 9>"$out_dir/.lock"
flock 9
copy_sources
find_interfaces
quietly make -s -C "$headers" M="$out_dir" modules ||
	die "linnos.ko or dm-linnos-faults.ko does not compile"
if [ $with_raid = yes ]; then
	trap 'rm -rf "$out_dir/raid"' EXIT
	build_raid
	trap - EXIT
fi
