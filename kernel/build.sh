#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Build a kernel: unpack the source, apply patches, copy our sources, configure, make.
#
#	kernel/build.sh FLAVOUR [--ksrc DIR] [--config FILE]
#
# FLAVOUR	um		LinnOS and flashsim, runs as an ordinary process
#		um-debug	the same with KASAN, lockdep and UBSAN
#		um-cluster	the same with networks of several nodes
#		um-unpatched	without LinnOS, for comparison; has flashsim
#		x86		LinnOS and flashsim on x86-64, SMP, for QEMU
#		x86-kasan	the same with KASAN, which finds invalid memory accesses
#		x86-kcsan	the same with KCSAN, which finds races between CPUs
#		x86-functions	the same without debugging, its functions traceable
#		um-module, x86-kasan-module, x86-kcsan-module
#				without LinnOS, for the modules of kernel/module
#		deb		LinnOS for a real machine: Debian packages, x86-64
# --ksrc DIR	use a copy of this tree instead of Debian's package
# --config FILE	for deb: the configuration that LinnOS is added to, instead of
#		that of Debian's own kernel (package linux-config-6.12)
#
# V=1		print each step and command
#
# The result is build/linux-FLAVOUR/linux (x86: bzImage); *-module has its own
# modules in root/lib/modules there; deb leaves linux-image-*.deb and
# linux-headers-*.deb in build/kernel-deb. Only changed parts are built again: a
# changed patch needs a new source tree, one of our own files a few seconds.

set -euo pipefail

kernel_dir=$(cd "$(dirname "$0")" && pwd)
core_dir=$(cd "$kernel_dir/../core" && pwd)
build_dir=${BUILD:-$kernel_dir/../build}
mkdir -p "$build_dir"
build_dir=$(cd "$build_dir" && pwd)
version=6.12

# The log has each step. A terminal shows the current one on a line that the result
# replaces; with V=1 each step and each command is printed.
say() {
	echo "kernel: $*" >>"$log"
	if [ -n "${V:-}" ]; then
		echo "kernel: $*"
	elif [ -t 1 ]; then
		printf '\r\033[Kkernel: %s' "$*"
	fi
}
result() {
	[ ! -t 1 ] || printf '\r\033[K'
	echo "kernel: $*"
}
die() {
	[ ! -t 1 ] || printf '\r\033[K'
	echo "kernel/build.sh: $*" >&2
	exit 1
}
usage() { sed -n 's/^#\t\{0,1\}//; 4,27p' "$0" >&2; exit 2; }

flavour=
base_config=
ksrc=${KSRC:-}
while [ $# -gt 0 ]; do
	case $1 in
	--ksrc)	[ $# -ge 2 ] || usage
		ksrc=$2; shift ;;
	--config)
		[ $# -ge 2 ] || usage
		base_config=$2; shift ;;
	um|um-debug|um-cluster|um-unpatched|um-module|deb|\
	x86|x86-kasan|x86-kcsan|x86-functions|x86-kasan-module|x86-kcsan-module)
		flavour=$1 ;;
	*)	usage ;;
	esac
	shift
done
[ -n "$flavour" ] || usage
[ -z "$base_config" ] || [ "$flavour" = deb ] ||
	die "--config is for deb; the lab's kernels have configurations of their own"
tarball=/usr/src/linux-source-$version.tar.xz

# The patches of the source tree, and the fragments of the configuration.
patches=$kernel_dir/patches
series=("$patches/$version"/*.patch "$patches/lab/$version"/*.patch)
fragments=(uml.config flashsim.config linnos.config)
with_linnos=yes
arch=(ARCH=um SUBARCH=x86_64)
target=linux
image=linux
case $flavour in
um-debug|um-cluster)
	fragments+=($flavour.config) ;;
x86*)
	fragments[0]=x86.config
	[ $flavour = x86 ] || fragments+=(${flavour%-module}.config)
	arch=(ARCH=x86_64)
	target=bzImage
	image=arch/x86/boot/bzImage ;;
deb)
	fragments=(deb.config)
	arch=(ARCH=x86_64)
	target=bindeb-pkg ;;
esac
case $flavour in
*-unpatched|*-module)
	series=("$patches/lab/$version"/*.patch)
	unset "fragments[2]"
	with_linnos=no ;;
esac
modules=
if [[ $flavour = *-module ]]; then
	fragments+=(module.config)
	[ $flavour = um-module ] || fragments+=(x86-module.config)
	modules=modules
fi
for i in "${!fragments[@]}"; do
	fragments[i]=$kernel_dir/config/${fragments[i]}
done

source_dir=$build_dir/linux-source
[ $with_linnos = yes ] || source_dir=$build_dir/linux-source-unpatched
[ $flavour != deb ] || source_dir=$build_dir/linux-source-whole
out_dir=$build_dir/linux-$flavour
if [ $flavour = deb ]; then
	# make leaves the packages next to its output folder.
	out_dir=$build_dir/kernel-deb/linux
	mkdir -p "${out_dir%/*}"
	: "${base_config:=/usr/src/linux-config-$version/config.amd64_none_amd64.xz}"
fi
log=$out_dir.log

check_tools() {
	local missing= tool package

	if [ $flavour = deb ]; then
		command -v dh >/dev/null || missing="$missing debhelper"
		command -v dpkg-buildpackage >/dev/null || missing="$missing dpkg-dev"
		case $base_config in
		/usr/src/linux-config-$version/*)
			[ -e "$base_config" ] || missing="$missing linux-config-$version" ;;
		*)	[ -f "$base_config" ] && [ -r "$base_config" ] ||
				die "no configuration to read at $base_config; --config FILE"
			xz -dcf "$base_config" | grep '^CONFIG_BLOCK=y' >/dev/null ||
				die "$base_config is not a kernel's configuration with a block layer" ;;
		esac
	fi
	case $flavour in
	x86*)	command -v pahole >/dev/null || missing="$missing dwarves" ;;
	esac
	for tool in gcc make flex bison bc perl patch xz; do
		package=${tool/#xz/xz-utils}
		command -v $tool >/dev/null || missing="$missing $package"
	done
	if [ -z "$ksrc" ] && [ ! -e "$tarball" ]; then
		missing="$missing linux-source-$version"
	fi
	[ -z "$missing" ] ||
		die "missing Debian packages; as root: apt-get install$missing"
	if [ -n "$ksrc" ]; then
		[ -e "$ksrc/Kbuild" ] || die "$ksrc is not a kernel source tree"
		grep -q '^VERSION = 6$' "$ksrc/Makefile" &&
		grep -q "^PATCHLEVEL = ${version#6.}\$" "$ksrc/Makefile" ||
			die "$ksrc is not Linux $version"
	fi
}

# The lab's kernels are compiled from a third of the source tree. Kconfig and make read
# their own files in every folder.
unused=(
	arch/{alpha,arc,arm,arm64,csky,hexagon,loongarch,m68k,microblaze,mips,nios2,openrisc,parisc}
	arch/{powerpc,riscv,s390,sh,sparc,xtensa} sound tools/{perf,testing}
	Documentation/{devicetree,translations}
	drivers/{accel,clk,gpu,iio,infiniband,media,pinctrl,staging,usb,video}
	drivers/net/{ethernet,wireless}
)
unpack_package() {
	local folder exclude=()

	if [ $flavour != deb ]; then
		for folder in "${unused[@]}"; do
			exclude+=("--exclude=linux-source-$version/$folder/*."{c,h,S,dts,dtsi,rst,txt,yaml,json})
		done
	fi
	xz -T0 -dc "$tarball" | tar -C "$1" --strip-components=1 "${exclude[@]}" -xf -
}

# The source tree is up to date as long as its origin and the patches are the same.
source_id() {
	if [ -n "$ksrc" ]; then
		echo "tree $(cd "$ksrc" && pwd)"
		cksum "$ksrc/Makefile"
	else
		echo "package $(stat -L -c '%s %Y' "$tarball")"
	fi
	cat "${series[@]}" | sha256sum
}

# not_applied OUTPUT: print the files for which patch reports a failed hunk or that
# the file is missing (then it prints the header).
not_applied() {
	sed -n -e 's/^[0-9]* out of [0-9]* hunks\{0,1\} .* to file \(.*\)\.rej$/\1/p' \
		-e 's/^|+++ [^/]*\/\([^\t]*\).*/\1 (missing)/p' "$1" | paste -sd ,
}

unpack() {
	local id new=$source_dir.new p

	id=$(source_id)
	if [ -e "$source_dir/.linnos-source" ] &&
	   [ "$(cat "$source_dir/.linnos-source")" = "$id" ]; then
		return
	fi
	rm -rf "$new"
	mkdir -p "$new"
	if [ -n "$ksrc" ]; then
		say "copying $ksrc"
		tar -C "$ksrc" --exclude=.git -cf - . | tar -C "$new" -xf -
		# files of an earlier build in the tree would disturb ours
		make -s -C "$new" ARCH=um mrproper
	else
		say "unpacking $tarball"
		unpack_package "$new"
	fi
	for p in "${series[@]}"; do
		say "applying ${p##*/}"
		# -f: do not ask for the name of a missing file
		patch -d "$new" -p1 -f -s --no-backup-if-mismatch -i "$p" >"$new.patch" || {
			cat "$new.patch" >&2
			die "${p##*/} does not apply to ${ksrc:-$tarball}:" \
				"$(not_applied "$new.patch")"
		}
	done
	rm -f "$new.patch"
	echo "$id" >"$new/.linnos-source"
	rm -rf "$source_dir"
	mv "$new" "$source_dir"
}

# Copy a file only if it has changed, so that make does not build it again.
copy_in() {
	local from=$1 to=$source_dir/$2

	cmp -s "$from" "$to" && return
	mkdir -p "${to%/*}"
	cp "$from" "$to"
}

copy_sources() {
	local f

	for f in "$kernel_dir"/flashsim/{Kconfig,Makefile,*.c,*.h}; do
		copy_in "$f" "drivers/block/flashsim/${f##*/}"
	done
	[ $with_linnos = yes ] || return 0
	for f in "$kernel_dir"/linnos/{Kconfig,Makefile,*.[ch]}; do
		copy_in "$f" "block/linnos/${f##*/}"
	done
	for f in "$core_dir"/*.[ch]; do
		copy_in "$f" "block/linnos/core/${f##*/}"
	done
	for f in linux/blk-linnos.h linux/blk-linnos-array.h trace/events/linnos.h; do
		copy_in "$kernel_dir/linnos/include/$f" "include/$f"
	done
	copy_in "$core_dir/uapi/linux/blk-linnos.h" include/uapi/linux/blk-linnos.h
	copy_in "$kernel_dir/../docs/ABI-sysfs-block-linnos" \
		Documentation/ABI/testing/sysfs-block-linnos
}

kmake() {
	make -C "$source_dir" O="$out_dir" "${arch[@]}" "$@"
}

# Fail if the configuration lacks a symbol that a fragment sets, because of a typing
# error or a missing dependency. If several fragments set a symbol, the last one counts.
check_config() {
	local line name bad=

	while read -r line; do
		case $line in
		CONFIG_*=n|"# CONFIG_"*" is not set")
			name=${line#\# }; name=${name%%[ =]*}
			! grep -q "^$name=" "$out_dir/.config" || bad="$bad $line;" ;;
		CONFIG_*)
			grep -qxF "$line" "$out_dir/.config" || bad="$bad $line;" ;;
		esac
	done < <(cat "${fragments[@]}" | tac |
		awk '/^(# )?CONFIG_/ { match($0, /CONFIG_[A-Za-z0-9_]+/)
			if (!seen[substr($0, RSTART, RLENGTH)]++) print }')
	if [ -n "$bad" ]; then
		rm -f "$out_dir/.config" "$out_dir/.linnos-config"
		die "the configuration lacks:$bad"
	fi
}

# Use a distribution's configuration without its keys, which we do not have, and
# without debug information, which is ten times as large as the kernel.
begin_with_config() {
	xz -dcf "$base_config" >"$out_dir/.config"
	"$source_dir/scripts/config" --file "$out_dir/.config" \
		--set-str SYSTEM_TRUSTED_KEYS "" \
		--set-str MODULE_SIG_KEY certs/signing_key.pem \
		--disable DEBUG_INFO --disable DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT \
		--disable DEBUG_INFO_DWARF4 --disable DEBUG_INFO_DWARF5 \
		--enable DEBUG_INFO_NONE
}

configure() {
	local id

	id=$(cat "$source_dir/.linnos-source" "${fragments[@]}" ${base_config:+"$base_config"} \
		"$source_dir"/block/Kconfig "$kernel_dir"/{linnos,flashsim}/Kconfig |
		sha256sum)
	if [ -e "$out_dir/.linnos-config" ] &&
	   [ "$(cat "$out_dir/.linnos-config")" = "$id" ]; then
		return
	fi
	say "configuring $flavour"
	mkdir -p "$out_dir"
	if [ $flavour = deb ]; then
		begin_with_config
	else
		kmake -s tinyconfig >>"$log" 2>&1 || die "tinyconfig failed, see $log"
	fi
	(cd "$out_dir" && "$source_dir/scripts/kconfig/merge_config.sh" -m \
		.config "${fragments[@]}") >>"$log" 2>&1 ||
		die "merging the configuration failed, see $log"
	kmake -s olddefconfig >>"$log" 2>&1 || die "olddefconfig failed, see $log"
	check_config
	echo "$id" >"$out_dir/.linnos-config"
}

# Show how far make has come, on a terminal; with V=1 show its output.
progress() {
	local line files=0

	if [ -n "${V:-}" ]; then
		cat
	elif [ -t 1 ]; then
		while read -r line; do
			[[ $line != @(CC|AS|LD|AR|HOSTCC)\ * ]] || ((++files % 20)) ||
				printf '\r\033[Kkernel: %d files, %s' $files "${line##* }"
		done
	else
		cat >/dev/null
	fi
}

compile() {
	local cc=gcc jobs

	jobs=$(nproc)
	# With ccache, a second clone or a new source tree builds in a minute.
	if command -v ccache >/dev/null; then
		cc="ccache gcc"
		export CCACHE_BASEDIR=$build_dir CCACHE_NOHASHDIR=1
	fi
	# The guest must not depend on the time and place of its build.
	export KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 1970'
	export KBUILD_BUILD_USER=linnos KBUILD_BUILD_HOST=linnos KBUILD_BUILD_VERSION=1

	if ! kmake CC="$cc" -j"$jobs" $target $modules 2>&1 | tee -a "$log" | progress; then
		grep -E -A8 'error:|Error [0-9]|undefined reference' "$log" |
			head -n 40 >&2
		die "the build failed, see $log"
	fi
	if grep -E 'warning:' "$log" | grep -E 'linnos|flashsim'; then
		die "warnings in our own sources, see $log"
	fi
}

check_tools
exec 9>"$build_dir/.kernel.lock"
flock -n 9 || { echo "kernel: waiting for another build"; flock 9; }
start=$(date +%s)
: >"$log"
unpack
copy_sources
configure
[ $flavour != deb ] || rm -f "$out_dir"/../*.deb
compile
if [ $flavour = deb ]; then
	# We do not provide the headers of the C library.
	rm -f "$out_dir"/../linux-libc-dev_*.deb "$out_dir"/../linux-upstream_*
	for package in "$out_dir"/../*.deb; do
		result "$(realpath "$package"), $(($(date +%s) - start)) s"
	done
	exit
fi
if [ -n "$modules" ]; then
	PATH=$PATH:/sbin:/usr/sbin kmake -s INSTALL_MOD_PATH="$out_dir/root" modules_install \
		>>"$log" 2>&1 || die "installing the modules failed, see $log"
fi
[ "$image" = "$target" ] || cp "$out_dir/$image" "$out_dir/$target"
result "$out_dir/$target, $(($(date +%s) - start)) s"
