#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds what a release consists of: `packaging/release.sh OUT` leaves it in OUT. Equal sources give equal files.
#
# The wheel and the lab kernel are built on Debian 12, so that they also run with newer C libraries. The packages for
# Debian 12 and 13 are each built on that release: on this machine, or in the folder that $DEBIAN_12 or $DEBIAN_13
# names, an installation of that Debian (debootstrap); chroot needs root. The folders receive the packages that the
# build needs. `packaging/release.sh --part NAME OUT` is what runs there.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."
die() { echo "packaging/release.sh: $*" >&2; exit 1; }

declare -A code_name=([12]=bookworm [13]=trixie)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
kernel=linnos-lab-kernel-$version
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
# Older versions of pip apply the first to build environments, newer ones the second.
# The path is relative: pip takes a space for the end of a name.
export PIP_CONSTRAINT=packaging/wheel/constraints.txt PIP_BUILD_CONSTRAINT=packaging/wheel/constraints.txt

# archive FOLDER OUT: as OUT, a tar.xz with equal bytes for equal content.
archive() {
	tar -C "$(dirname "$1")" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX \
		--mtime="@$SOURCE_DATE_EPOCH" --format=gnu -cf - "$(basename "$1")" | xz -9e -T1 >"$2"
}

# tracked DESTINATION PATH...: copy files that git knows.
tracked() {
	local destination=$1
	shift
	mkdir -p "$destination"
	git ls-files -z -- "$@" | tar --null -T - -cf - | tar -C "$destination" -xf -
}

# The programs in a wheel may need no library that is not on all distributions. Print the oldest manylinux tag for it.
manylinux() {
	local unpacked=$work/wheel-unpacked programs newest
	rm -rf "$unpacked"
	"$python" -m zipfile -e "$1" "$unpacked"
	mapfile -t programs < <(find "$unpacked" -type f -exec sh -c 'head -c4 "$1" | grep -q ELF && echo "$1"' _ {} \;)
	objdump -p "${programs[@]}" | awk '/NEEDED/ { print $2 }' | sort -u |
		grep -vxE 'lib(c|m|z|pthread|dl|rt)\.so\.[0-9]+|ld-linux-x86-64\.so\.2|lib(bpf|elf)\.so\.1' >&2 &&
		die "the wheel needs these libraries"
	newest=$(objdump -T "${programs[@]}" | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
	[ "${newest#*.}" -le 36 ] || die "the wheel needs $newest, newer than Debian 12's: build it on Debian 12"
	echo "manylinux_2_${newest#*.}_$(uname -m)"
}

build_python() {
	local tag python=$work/venv/bin/python
	python3 -m venv "$work/venv"
	"$python" -m pip install -q scikit-build-core wheel
	"$python" -c 'import sys; from scikit_build_core import build; build.build_sdist(sys.argv[1])' "$out" >/dev/null
	LINNOS_PORTABLE=1 "$python" -m pip wheel -q --no-deps --no-build-isolation -w "$work/wheel" .
	tag=$(manylinux "$work"/wheel/linnapp-*.whl)
	"$python" -m wheel tags --remove --platform-tag "$tag" "$work"/wheel/linnapp-*.whl >/dev/null
	mv "$work"/wheel/linnapp-*.whl "$out/"
}

# Section 3 of the GPL: the kernel's complete source is offered in the same place. It is that of Debian's package,
# unchanged, and the archive with patches, our files, the configuration and the script that builds it.
build_kernel() {
	local source=/usr/src/linux-source-6.12.tar.xz binary=$work/$kernel sources=$work/$kernel-source
	BUILD=${KERNEL_BUILD:-build} kernel/build.sh um >&2
	mkdir -p "$binary"
	strip -o "$binary/linux" "${KERNEL_BUILD:-build}/linux-um/linux"
	cp LICENSES/GPL-2.0-only.txt "$binary/COPYING"
	tracked "$sources" kernel core docs/ABI-sysfs-block-linnos
	cp "${KERNEL_BUILD:-build}/linux-um/.config" "$sources/config"
	cp LICENSES/GPL-2.0-only.txt "$sources/COPYING"
	sed -e "s/@VERSION@/$version/g" -e "s/@SHA256@/$(sha256sum "$source" | cut -d' ' -f1)/" \
		-e "s/@DEBIAN@/$(dpkg-query -W -f '${source:Version}' linux-source-6.12)/" \
		-e "s/@COMPILER@/$(gcc --version | head -n 1)/" packaging/lab-kernel.md >"$binary/README.md"
	cp "$binary/README.md" "$sources/"
	archive "$binary" "$out/$kernel.tar.xz"
	archive "$sources" "$out/$kernel-source.tar.xz"
	cp "$source" "$out/"
}

build_sources() {
	local library=$work/liblinnos-$version
	# The library's Makefile reads the version there.
	tracked "$library" liblinnos/{Makefile,library.mk,liblinnos.map,liblinnos.pc.in,include,predictor,io,examples} \
		core LICENSES pyproject.toml docs/'*.3'
	archive "$library" "$out/liblinnos-$version.tar.xz"
	tracked "$work/crate" liblinnos/rust LICENSES/MIT.txt
	mkdir "$work/crate-files"
	mv "$work/crate/liblinnos/rust" "$work/crate-files/linnos-$version"
	mv "$work/crate/LICENSES/MIT.txt" "$work/crate-files/linnos-$version/LICENSE"
	# What `cargo package` makes, which does not need cargo.
	tar -C "$work/crate-files" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX \
		--mtime="@$SOURCE_DATE_EPOCH" --format=ustar -cf - "linnos-$version" | gzip -9n >"$out/linnos-$version.crate"
	cp packaging/Containerfile "$out/"
	sed "s/^\*\*Version $version, not released\.\*\*$/**Version $version, $(date -Idate -ud "@$SOURCE_DATE_EPOCH").**/" \
		CHANGELOG.md >"$out/CHANGELOG.md"
	grep -q "^\*\*Version $version, 20" "$out/CHANGELOG.md" || die "CHANGELOG.md does not name version $version"
}

build_packages() {
	packaging/build.sh "$out" >&2
}

# run_on RELEASE PART OUT: here if this machine is that release of Debian, otherwise in its folder.
run_on() {
	local folder=DEBIAN_$1 needed
	# shellcheck disable=SC1091
	if [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = "${code_name[$1]}" ]; then
		packaging/release.sh --part "$2" "$3"
		return
	fi
	folder=${!folder:-}
	[ -n "$folder" ] || die "set DEBIAN_$1 to the folder of a Debian $1, or to one that debootstrap is to create"
	[ "$(id -u)" = 0 ] || die "the packages for Debian $1 are built in $folder by chroot, which needs root"
	if [ ! -e "$folder/etc/os-release" ]; then
		command -v debootstrap >/dev/null || die "$folder does not exist, and debootstrap is not installed"
		debootstrap --variant=minbase --include=ca-certificates "${code_name[$1]}" "$folder" >&2
	fi
	needed=$(sed 's/#.*//' packaging/apt/{build,lab,programs,cluster,libraries,librados}.txt | xargs)
	unshare --mount sh -ec '
		mkdir -p "$1/mnt/clone" "$1/mnt/out"
		mount --bind "$2" "$1/mnt/clone"
		mount --bind "$3" "$1/mnt/out"
		mountpoint -q "$1/proc" || mount -t proc proc "$1/proc"
		[ -e "$1/dev/null" ] || mount --bind /dev "$1/dev"
		cp -L /etc/resolv.conf "$1/etc/" 2>/dev/null || true
		chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
			SOURCE_DATE_EPOCH="$4" CCACHE_DISABLE=1 KERNEL_BUILD=/mnt/out/.kernel DEBIAN_FRONTEND=noninteractive \
			sh -ec "dpkg -s $6 >/dev/null 2>&1 || { apt-get -q update; apt-get -q install -y --no-install-recommends $6; } >&2
				cd /mnt/clone && packaging/release.sh --part $5 /mnt/out"
	' sh "$(realpath "$folder")" "$PWD" "$(realpath "$3")" "$SOURCE_DATE_EPOCH" "$2" "$needed" ||
		die "the part $2 failed in $folder"
	rm -rf "$3/.kernel"
}

if [ "${1:-}" = --part ]; then
	[ $# = 3 ] || die "usage: packaging/release.sh [--part PART] OUT"
	out=$(realpath "$3")
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	# Git refuses the clone of another user, as it is in a container or a chroot.
	export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0="$PWD"
	case $2 in
	python | kernel | sources | packages) "build_$2" ;;
	*) die "--part $2: not python, kernel, sources or packages" ;;
	esac
	exit
fi
[ $# = 1 ] || die "usage: packaging/release.sh [--part PART] OUT"
rm -rf "$1"
mkdir -p "$1/debian-12" "$1/debian-13"
for part in python kernel sources; do
	run_on 12 $part "$1"
done
run_on 12 packages "$1/debian-12"
run_on 13 packages "$1/debian-13"
(cd "$1" && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum >SHA256SUMS)
echo "$1: $(find "$1" -type f | wc -l) files, $(du -sh "$1" | cut -f1)"
