#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Export the patch series for a kernel, complete: each patch also adds the files of
# linnos/ and ../core that belong to it.
#
#	kernel/series.sh VERSION [--sources DIR] [--sign-off "NAME <ADDRESS>"]
#
# VERSION	6.12 or 7.3
# --sources	folder with Debian's linux-source-VERSION.tar.xz; /usr/src
# --sign-off	author of the patches, for Signed-off-by: and MAINTAINERS
#
# The result is build/series/VERSION/*.patch. patches/6.12 has the messages, and
# patches/VERSION what each patch changes in files of the kernel.

set -euo pipefail

kernel_dir=$(cd "$(dirname "$0")" && pwd)
core_dir=$(cd "$kernel_dir/../core" && pwd)
build_dir=${BUILD:-$kernel_dir/../build}
sources=/usr/src
owner='FULL NAME <you@example.org>'
version=

die() { echo "kernel/series.sh: $*" >&2; exit 1; }
usage() { sed -n 's/^#\t\{0,1\}//; 4,14p' "$0" >&2; exit 2; }

while [ $# -gt 0 ]; do
	case $1 in
	--sources)	[ $# -ge 2 ] || usage
			sources=$2; shift ;;
	--sign-off)	[ $# -ge 2 ] || usage
			owner=$2; shift ;;
	-*)		usage ;;
	*)		version=$1 ;;
	esac
	shift
done
[ -n "$version" ] || usage
[[ $owner =~ ^[^\<\>]+\ \<[^\<\>[:space:]]+@[^\<\>[:space:]]+\>$ ]] ||
	die "--sign-off: \"$owner\" is not a name and an address; write \"NAME <ADDRESS>\""
hooks=$kernel_dir/patches/$version
messages=$kernel_dir/patches/6.12
[ -d "$hooks" ] || die "there is no series for Linux $version, only for" \
	"$(cd "$kernel_dir/patches" && echo [0-9]*)"
tarball=$sources/linux-source-$version.tar.xz
[ -e "$tarball" ] || die "no $tarball; install Debian's linux-source-$version, or use --sources DIR"

# Print a line for each file that a patch adds: the number of the patch, the file in this
# tree, and its path in the kernel.
files() {
	local f first

	for f in Kconfig Makefile blk-linnos{,-policy}.h blk-linnos{,-expect,-model,-sysfs}.c; do
		echo "2 $kernel_dir/linnos/$f block/linnos/$f"
	done
	for f in "$core_dir"/*.[ch]; do
		[[ $f = */linnos_network.* ]] && first=7 || first=2
		echo "$first $f block/linnos/core/${f##*/}"
	done
	for f in linux/blk-linnos.h trace/events/linnos.h; do
		echo "2 $kernel_dir/linnos/include/$f include/$f"
	done
	echo "2 $kernel_dir/../docs/ABI-sysfs-block-linnos Documentation/ABI/testing/sysfs-block-linnos"
	echo "3 $kernel_dir/linnos/blk-linnos-array.c block/linnos/blk-linnos-array.c"
	f=include/linux/blk-linnos-array.h
	echo "3 $kernel_dir/linnos/$f $f"
	for f in blk-linnos-{query,ioctl}.c blk-linnos-query.h; do
		echo "4 $kernel_dir/linnos/$f block/linnos/$f"
	done
	echo "4 $core_dir/uapi/linux/blk-linnos.h include/uapi/linux/blk-linnos.h"
	for f in blk-linnos-latcrit.{c,h}; do
		echo "6 $kernel_dir/linnos/$f block/linnos/$f"
	done
	for f in "$kernel_dir"/linnos/linnos_*test*.[ch]; do
		echo "8 $f block/linnos/${f##*/}"
	done
}

# add_file NUMBER FROM TO: write a file as it is after patch NUMBER
add_file() {
	local to=$tree/$3 later=()

	[ "$1" -ge 6 ] || later+=(-UCONFIG_BLK_LATCRIT)
	[ "$1" -ge 7 ] || later+=(-UCONFIG_BLK_LINNOS_NETWORK)
	mkdir -p "${to%/*}"
	case $3 in
	# remove the code for programs, for linnos.ko and of later patches
	*.[ch])
		"$tree.unifdef" -D__KERNEL__ -UMODULE "${later[@]}" "$2" >"$to.new" || [ $? = 1 ] ||
			die "unifdef fails for $2"
		cat -s "$to.new" >"$to"
		rm "$to.new" ;;
	*/Makefile)
		awk -v dir="${to%/*}" '
			function exists(object) {
				sub(/\.o$/, ".c", object)
				return (getline line <(dir "/" object)) >= 0
			}
			/\\$/ { sub(/[ \t]*\\$/, ""); held = held $0 " "; next }
			{ $0 = held $0; held = "" }
			/^obj-/ {
				kept = ""
				for (i = 3; i <= NF; i++)
					if (exists($i))
						kept = kept " " $i
				if (kept != "")
					print $1, $2 kept
				next
			}
			{ print }' "$2" >"$to" ;;
	*/Kconfig)
		awk -v number="$1" '
			/^config / { skip = (/NETWORK/ && number < 7) || (/KUNIT_TEST/ && number < 8) }
			skip || (/select BLK_LATCRIT/ && number < 6) { next }
			{ print }' "$2" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' >"$to" ;;
	*)	awk -v number="$1" '
			/^What:/ { skip = /<md>/ && number < 3 }
			!skip' "$2" | sed -e "s/^KernelVersion:\(\t*\).*/KernelVersion:\1$version/" \
			-e :a -e '/^\n*$/{$d;N;ba' -e '}' >"$to" ;;
	esac
}

out=$build_dir/series/$version
mkdir -p "$out"
out=$(cd "$out" && pwd)
tree=$out/tree
rm -rf "$out"/*.patch "$tree"
mkdir "$tree"
touched=$(sed -n 's,^--- a/,,p' "$hooks"/*.patch | sort -u)
# this takes some seconds, because tar reads the compressed archive to its end
tar -C "$tree" --strip-components=1 -xJf "$tarball" \
	$(printf "linux-source-$version/%s\n" scripts/unifdef.c $touched) ||
	die "$tarball lacks files that the series changes"
gcc -w -O -o "$tree.unifdef" "$tree/scripts/unifdef.c"
rm -r "$tree/scripts"

export GIT_AUTHOR_NAME=${owner% <*} GIT_AUTHOR_EMAIL=${owner##*<}
GIT_AUTHOR_EMAIL=${GIT_AUTHOR_EMAIL%>}
export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
# fixed dates: the same files give the same patches
export GIT_AUTHOR_DATE='2026-11-28T00:00:00Z' GIT_COMMITTER_DATE='2026-11-28T00:00:00Z'
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
repo() { git -C "$tree" "$@"; }

repo init -q
repo add -A -f
repo commit -q -m "Linux $version"
for message in "$messages"/000[1-9]-*; do
	name=${message##*/}
	number=$((10#${name%%-*}))
	if [ -e "$hooks/$name" ] && grep -q '^diff --git' "$hooks/$name"; then
		patch -d "$tree" -p1 -f -s -F0 --no-backup-if-mismatch -i "$hooks/$name" ||
			die "$name does not apply to $tarball without fuzz"
		[ ! -e "$tree/MAINTAINERS" ] || sed -i "s/^M:\tOWNER$/M:\t$owner/" "$tree/MAINTAINERS"
	fi
	# add the Makefile last: it names only the sources that exist
	while read -r first from to; do
		[ "$first" -gt "$number" ] || add_file "$number" "$from" "$to"
	done < <(files | grep -v '/Makefile$'; files | grep '/Makefile$')
	repo add -A -f
	sed '/^diff --git/,$d; s/^Subject: \[PATCH\] //' "$message" | repo commit -q -s -F -
done
repo format-patch -q --zero-commit --no-signature -o "$out" "$(repo rev-list --max-parents=0 HEAD)"
{
	sed "s,^Subject: \[PATCH 0/[0-9]*\],Subject: [PATCH 0/$number]," "$messages/0000-cover-letter"
	echo
	repo shortlog "$(repo rev-list --max-parents=0 HEAD).."
	repo diff --stat "$(repo rev-list --max-parents=0 HEAD)" HEAD
} >"$out/0000-cover-letter.patch"
rm -rf "$tree" "$tree.unifdef"
echo "kernel: $out, $number patches"
