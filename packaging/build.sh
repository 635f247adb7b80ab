#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the Debian packages linnos-tools, linnos-dkms and linnos-agent, and two packages (library and development
# files) for each of liblinnos, liblinnos-cluster and liblinnos-ceph: `packaging/build.sh OUT` leaves them in OUT.
# Needs dpkg-dev, python3-venv, and the network or a wheel cache for the wheel's build. The packages of
# liblinnos-ceph are left out where librados-dev is not installed. Installs nothing and needs no root.
set -euo pipefail
umask 022	# all users may read the files of a package, independent of the umask of its builder
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: packaging/build.sh OUT" >&2; exit 2; }
mkdir -p "$1"
out=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
architecture=$(dpkg --print-architecture)
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
# The owner's address stands in SECURITY.md only; until it is filled in there, packages have no valid one.
contact=$(sed -n 's/^ *Contact: \([^ ]*@[^ ]*\)$/\1/p' SECURITY.md)
maintainer="The LinnOS developers <${contact:-maintainers@linnos.invalid}>"
# Equal sources give equal packages.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y pyproject.toml)}"
export SOURCE_DATE_EPOCH
# The compiler and linker flags of a package are those that this machine uses by default.
CFLAGS="$(dpkg-buildflags --get CFLAGS) $(dpkg-buildflags --get CPPFLAGS)"
LDFLAGS=$(dpkg-buildflags --get LDFLAGS)
export LDFLAGS

# installed_kib ROOT: as dpkg-gencontrol counts, whatever the file system takes for a file.
installed_kib() {
	find "$1" -path "$1/DEBIAN" -prune -o -printf '%y %s\n' |
		awk '{ kib += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print kib }'
}

# finish PACKAGE SECTION DEPENDS RECOMMENDS SUGGESTS SUMMARY DESCRIPTION: package the staged files.
finish() {
	local root=$work/$1 doc=$work/$1/usr/share/doc/$1 depends=$3 architecture=$architecture
	[ "$1" != linnos-dkms ] || architecture=all
	install -d -m 755 "$root/DEBIAN" "$doc"
	install -m 644 packaging/copyright "$doc/copyright"
	printf '%s (%s) unstable; urgency=medium\n\n  * See the repository.\n\n -- %s  %s\n' linnos \
		"$version" "$maintainer" "$(date -Ru -d "@$SOURCE_DATE_EPOCH")" |
		gzip -9n >"$doc/changelog.gz"
	chmod 644 "$doc/changelog.gz"
	find "$root/usr/share/man" -type f -exec gzip -9n {} + 2>/dev/null || :
	[ $architecture = all ] || shared_libraries "$1" depends
	{
		printf 'Package: %s\nSource: linnos\nVersion: %s\nArchitecture: %s\n' "$1" "$version" \
			"$architecture"
		printf 'Maintainer: %s\nSection: %s\nPriority: optional\n' "$maintainer" "$2"
		printf 'Installed-Size: %s\n' "$(installed_kib "$root")"
		[ -z "$depends" ] || printf 'Depends: %s\n' "$depends"
		[ -z "$4" ] || printf 'Recommends: %s\n' "$4"
		[ -z "$5" ] || printf 'Suggests: %s\n' "$5"
		[[ $1 != liblinnos*1 ]] || printf 'Multi-Arch: same\n'
		printf 'Description: %s\n%s\n' "$6" "$7"
	} >"$root/DEBIAN/control"
	(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z |
		xargs -0 md5sum) >"$root/DEBIAN/md5sums"
	find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group --build "$root" "$work/$1.deb" >/dev/null
	mv "$work/$1.deb" "$out/${1}_${version}_$architecture.deb"
	echo "$out/${1}_${version}_$architecture.deb"
}

# shared_libraries PACKAGE VARIABLE: add to it the packages whose libraries the programs need.
shared_libraries() {
	local -n list=$2
	local found needed
	mapfile -t found < <(find "$work/$1/usr" -type f \( -perm /111 -o -name '*.so*' \) -exec sh -c \
		'head -c4 "$1" | grep -q ELF && echo "$1"' _ {} \;)
	[ ${#found[@]} != 0 ] || return 0
	mkdir -p "$work/shlibs/debian"
	printf 'Source: linnos\n\nPackage: %s\nArchitecture: any\n' "$1" >"$work/shlibs/debian/control"
	needed=$(cd "$work/shlibs" && dpkg-shlibdeps -O -l"$work/liblinnos-cluster1/usr/lib/$multiarch" \
		"${found[@]/#/-e}" 2>/dev/null |
		sed -n 's/^shlibs:Depends=//p')
	list=${list:+$list, }$needed
}

# stage_library NAME FOLDER [VARIABLE=VALUE]...: what is built and installed from FOLDER, parted between NAME1
# and NAME-dev.
stage_library() {
	local root=$work/$1-installed lib=usr/lib/$multiarch runtime=$work/${1}1 dev=$work/$1-dev
	make -s -C "$2" OUT="$work/lib-$1" CFLAGS="$CFLAGS" DESTDIR="$root" PREFIX=/usr "${@:3}" install \
		>/dev/null
	install -d "$runtime/$lib" "$dev/$lib/pkgconfig"
	mv "$root/usr/lib/$1".so.* "$runtime/$lib/"
	strip --strip-unneeded "$runtime/$lib/$1".so.*.*
	chmod 644 "$runtime/$lib/$1".so.*.*
	mv "$root/usr/lib/$1.so" "$root/usr/lib/$1.a" "$dev/$lib/"
	strip --strip-debug "$dev/$lib/$1.a"
	sed "s|/lib\$|/lib/$multiarch|" "$root/usr/lib/pkgconfig/$1.pc" >"$dev/$lib/pkgconfig/$1.pc"
	mv "$root/usr/include" "$root/usr/share" "$dev/usr/"
	install -d "$runtime/DEBIAN"
	echo "$1 1 ${1}1" >"$runtime/DEBIAN/shlibs"
	echo "activate-noawait ldconfig" >"$runtime/DEBIAN/triggers"
}

library() {
	stage_library liblinnos liblinnos
	finish liblinnos1 libs "" "" "" \
		"reads from the replica that is predicted to answer first" \
		" A program that has its data on several drives opens them as an array. Each
 read goes to the drive whose model of latencies predicts the shortest time;
 errors fail over, and late reads are hedged under a cap. Works on any kernel."
	# pkg-config finds no library whose own needs it does not find.
	finish liblinnos-dev libdevel "liblinnos1 (= $version), liburing-dev" "" "" \
		"reads from the replica that is predicted to answer first: development" \
		" Header, static library, pkg-config file and manual pages of liblinnos."
}

cluster_library() {
	stage_library liblinnos-cluster cluster/client
	# liblinnos-dev has it.
	rm "$work/liblinnos-cluster-dev/usr/include/linnos_choose.h"
	finish liblinnos-cluster1 libs "" "" "linnos-agent" \
		"chooses the node of a cluster that is expected to answer first" \
		" For a client whose data is on several nodes: the library chooses the node
 for each read, from the latencies of the client's own reads and from the
 predictions of linnos-agent, if the nodes run it. It does no I/O."
	finish liblinnos-cluster-dev libdevel \
		"liblinnos-cluster1 (= $version), liblinnos-dev (= $version), libsodium-dev" "" "" \
		"chooses the node that is expected to answer first: development" \
		" Header, static library, pkg-config file and manual page of liblinnos-cluster."
}

ceph_library() {
	stage_library liblinnos-ceph cluster/ceph CLUSTER="$work/lib-liblinnos-cluster"
	finish liblinnos-ceph1 libs "" "" "linnos-agent" \
		"reads Ceph from the OSD that is expected to answer first" \
		" For clients of librados: reads are sent to the OSD that holds the object and is
 expected to answer first, as liblinnos-cluster chooses. Ceph is not changed.
 Writes and all other operations use librados as before."
	finish liblinnos-ceph-dev libdevel \
		"liblinnos-ceph1 (= $version), liblinnos-cluster-dev (= $version), librados-dev" "" "" \
		"reads Ceph from the OSD that is expected to answer first: development" \
		" Header, static library, pkg-config file and manual page of liblinnos-ceph."
}

tools() {
	local root=$work/linnos-tools
	local python_dir=$root/usr/lib/python3/dist-packages
	# `linnapp completion` needs click; nothing here needs TensorFlow.
	"${PYTHON:-python3}" -m venv "$work/venv"
	local python=$work/venv/bin/python
	"$python" -m pip install -q --disable-pip-version-check click
	"$python" -m pip wheel -q --disable-pip-version-check --no-deps -w "$work/wheel" .
	install -d "$python_dir" "$root/usr/bin" "$root/usr/lib/systemd/system"
	"$python" -m zipfile -e "$work"/wheel/linnapp-*.whl "$python_dir"
	# RECORD has the hash of a library that is stripped below, and dpkg's own list takes its place. The
	# replayer is built again below, with Debian's flags.
	rm -rf "$python_dir"/linnapp/systemd "$python_dir"/linnapp-*.dist-info/RECORD "$python_dir"/linnapp-*.data
	find "$python_dir" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
	# A wheel does not say which of its files are scripts.
	chmod 755 "$python_dir"/linnapp/lab/init.sh "$python_dir"/linnapp/lab/init-qemu.sh
	strip --strip-unneeded "$python_dir"/linnapp/native/*.so
	install -m 644 linnapp/systemd/*.service linnapp/systemd/*.timer "$root/usr/lib/systemd/system/"
	install -m 755 packaging/linnapp "$root/usr/bin/linnapp"
	make -s -C replayer OUT="$work/replayer" CFLAGS="$CFLAGS" DESTDIR="$root" PREFIX=/usr install \
		>/dev/null
	make -s -C liblinnos/ublk OUT="$work/ublk" CFLAGS="$CFLAGS" DESTDIR="$root" PREFIX=/usr install \
		>/dev/null
	strip "$root/usr/bin/replayer" "$root/usr/sbin/linnos-ublk"
	install -D -m 644 docs/linnapp.1 "$root/usr/share/man/man1/linnapp.1"
	install -d "$root/usr/share/bash-completion/completions" "$root/usr/share/doc/linnos-tools"
	PYTHONPATH=. "$python" -m linnapp completion bash \
		>"$root/usr/share/bash-completion/completions/linnapp"
	install -D -m 644 packaging/linnos-tools.lintian-overrides \
		"$root/usr/share/lintian/overrides/linnos-tools"
	install -m 644 docs/*.md docs/ABI-sysfs-block-linnos "$root/usr/share/doc/linnos-tools/"
	install -d "$root/DEBIAN"
	install -m 755 packaging/linnos-tools.postinst "$root/DEBIAN/postinst"
	install -m 755 packaging/linnos-tools.prerm "$root/DEBIAN/prerm"
	install -m 755 packaging/linnos-tools.postrm "$root/DEBIAN/postrm"
	finish linnos-tools admin \
		"python3 (>= 3.11), python3-cffi (>= 1.15), python3-click (>= 8.1), python3-numpy (>= 1:1.24), python3-rich (>= 13), \
python3-scipy (>= 1.10), blktrace, python3-venv, python3-prometheus-client (>= 0.16), python3-jinja2" \
		"xz-utils, zstd, bzip2" \
		"python3-matplotlib" \
		"train, upload and watch models that predict slow reads of SSDs" \
		" linnapp records drives with blktrace, finds their inflection points, trains a
 model for each, uploads it to a kernel with LinnOS and shows what it does.
 replayer replays traces on an array of replicas under several policies, and
 linnos-ublk serves a mirror that reads from the best one as a block device.
 .
 Recording, labelling, evaluating and all commands for drives work with the
 packages that this one depends on. Training of networks requires TensorFlow;
 models of latencies need no other package. Watching programs requires pyarrow,
 duckdb and, for Elasticsearch, elasticsearch 8, all of which are on PyPI."
}

dkms() {
	local root=$work/linnos-dkms script
	install -d "$root/usr/src" "$root/usr/share/doc/linnos-dkms" "$root/DEBIAN"
	kernel/module/build.sh --dkms "$root/usr/src/linnos-$version"
	install -m 644 kernel/module/README.md "$root/usr/share/doc/linnos-dkms/"
	for script in postinst prerm; do
		sed "s/@VERSION@/$version/" packaging/linnos-dkms.$script >"$root/DEBIAN/$script"
	done
	chmod 755 "$root"/DEBIAN/*
	grep -v '^#' packaging/linnos-dkms.triggers >"$root/DEBIAN/triggers"
	finish linnos-dkms kernel \
		"dkms (>= 3), dwarves, xz-utils, linux-source-6.1 | linux-source-6.12 | linux-source-7.3" \
		"linux-headers-amd64 | linux-headers-generic | linux-headers" "linnos-tools, mokutil" \
		"md raid1 and raid10 that read from the best mirror, for Debian's kernels" \
		" The module linnos observes drives and predicts, by a model of each, which of
 them would answer a read first. raid1 and raid10 ask it. DKMS builds them for
 Debian's own Linux 6.1, 6.12 and 7.3, from the package with the source of
 exactly that kernel; they are loaded instead of the kernel's own, which stay.
 The device-mapper target linnos-faults damages a device by rules, for tests.
 .
 Nothing asks and nothing is observed before it is switched on; linnapp enable,
 of the package linnos-tools, does."
}

agent() {
	local root=$work/linnos-agent script
	make -s -C cluster/agent OUT="$work/agent" CFLAGS="$CFLAGS" DESTDIR="$root" PREFIX=/usr install \
		>/dev/null
	strip "$root/usr/sbin/linnos-agent"
	install -d "$root/DEBIAN" "$root/etc/linnos"
	for script in postinst prerm postrm; do
		install -m 755 packaging/linnos-agent.$script "$root/DEBIAN/$script"
	done
	install -D -m 644 packaging/linnos-agent.lintian-overrides \
		"$root/usr/share/lintian/overrides/linnos-agent"
	finish linnos-agent admin "" "" "linnos-tools" \
		"serves latency predictions for this node's drives to other nodes" \
		" A client whose data has replicas on several nodes queries their agents by UDP
 for the predicted latency of a read, and reads from the fastest node. The agent
 queries the kernel, which needs LinnOS or the module of linnos-dkms.
 .
 Nothing is started until /etc/linnos/agent.conf exists and the service is
 enabled. Only the addresses that it allows are answered."
}

# has HEADER
has() {
	"${CC:-gcc}" -E -include "$1" -x c /dev/null >/dev/null 2>&1
}

rm -f "$out"/{linnos-{tools,dkms,agent},liblinnos{,-cluster,-ceph}{1,-dev}}_*.deb
library
cluster_library
if has rados/librados.h; then
	ceph_library
else
	echo "liblinnos-ceph1 and liblinnos-ceph-dev are left out: no librados-dev; \`make ceph\` installs it" >&2
fi
dkms
agent
tools
