#!/bin/bash
# SPDX-License-Identifier: MIT
# `module_versions.sh FOLDER [N [SERIES...]]` builds linnos.ko, raid1.ko and raid10.ko in a bare
# Debian 12, as DKMS would, for the N (3) newest point releases of each series (6.1 and 6.12) that
# this machine's apt offers, and prints the result for each. Fails unless all are built, and unless the source of another
# release, which is tried last, is refused. Needs root: it makes FOLDER/root, and keeps it for the next run.
set -euo pipefail
[ $# -ge 1 ] && [ "$(id -u)" = 0 ] || { echo "usage, as root: module_versions.sh FOLDER [N [SERIES...]]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/packages"
folder=$(realpath "$1")
n=${2:-3}
series_wanted=${*:3}
root=$folder/root

finish() {
	umount "$root/dev" "$root/proc" "$root/etc/resolv.conf" 2>/dev/null || :
}
trap finish EXIT

. "$here/apt_here.sh"
if [ ! -e "$root/.made" ]; then
	rm -rf "$root"
	bootstrap bookworm "$folder" "$root" --variant=minbase \
		--include=ca-certificates,gcc,make,patch,dpkg-dev,xz-utils,dwarves,kmod,libelf1,linux-base
	chroot "$root" update-ca-certificates >/dev/null 2>&1
	touch "$root/.made"
fi
for kind in dev proc; do mount --bind "/$kind" "$root/$kind"; done
touch "$root/etc/resolv.conf"
mount --bind "$(realpath /etc/resolv.conf)" "$root/etc/resolv.conf"
proxies=$(env | grep -iE '^(http|https|no)_proxy=' || :)
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C $proxies "$@"; }
inside apt-get -q update >/dev/null

rm -rf "$root/srv/linnos"
"$here/../../kernel/module/build.sh" --dkms "$root/srv/linnos"

# headers of SERIES: print package and version of each release whose source is offered, newest first
headers_of() {
	local of_source

	of_source=$(inside apt-cache madison "linux-source-$1" | awk '{ print $3 }' | sort -u)
	inside apt-cache dumpavail |
		awk -v series="$1" '/^Package:/ { package = $2 } /^Version:/ { version = $2 }
			/^$/ { if (package ~ "^linux-headers-" series "\\.[0-9].*[0-9]-amd64$" ||
			           package ~ "^linux-headers-" series "\\.[0-9]+\\+deb12-amd64$")
			       print package, version }' |
		sort -u | while read -r package version; do
			! grep -qxF "$version" <<<"$of_source" || echo "$package $version"
		done | sort -t' ' -k2,2Vr | head -n "$n"
}

# unpack_fetched: unpack the kernel's packages that apt has fetched, without configuring them
unpack_fetched() {
	(cd "$root/var/cache/apt/archives" && ls) | grep -E '^linux-(headers|kbuild|image|source|compiler)' |
		sed 's|^|/var/cache/apt/archives/|' |
		inside xargs dpkg --force-depends --force-downgrade --unpack >"$folder/dpkg.log" 2>&1 ||
		{ tail "$folder/dpkg.log" >&2; return 1; }
	inside apt-get -q clean
}

# forget: remove the kernel's packages from dpkg's status, so that apt finds none that is half installed
forget() {
	inside sh -c "dpkg --force-all --purge \$(dpkg-query -W -f '\${Package} ' 'linux-headers-*' \
		'linux-image-*' 'linux-source-*' 'linux-kbuild-*' 'linux-compiler-*')" >/dev/null 2>&1 || :
	inside apt-get -q clean
}

# unpack PACKAGE=VERSION...: unpack only these, with their dependencies among the kernel's packages
unpack() {
	forget
	inside apt-get -qq --download-only --no-install-recommends -y install "$@" >/dev/null
	unpack_fetched
}

build() {
	inside /srv/linnos/module/build.sh --kernel "$1" --raid --out "/srv/out/$1" 2>&1
}

failed=0
printf '%-26s %-24s %s\n' kernel version outcome
for series in ${series_wanted:-6.1 6.12}; do
	found=$(headers_of $series)
	[ "$(wc -l <<<"$found")" -ge "$n" ] ||
		{ echo "apt offers fewer than $n releases of $series with their source" >&2; failed=1; }
	while read -r package version; do
		release=${package#linux-headers-}
		unpack "$package=$version" "linux-image-$release" "linux-source-$series=$version"
		if said=$(build "$release"); then
			said=built
			for module in raid1 raid10; do
				made=$root/srv/out/$release/raid/$module.ko
				said+=", $module with $(/sbin/modprobe --dump-modversions "$made" | wc -l) symbols"
			done
		else
			failed=1
		fi
		printf '%-26s %-24s %s\n' "$release" "$version" "$said"
		before=$release
		rm -rf "$root/srv/out"
	done <<<"$found"
	# Build the source of the first release with the headers of the last one.
	read -r _ version <<<"$found"
	inside sh -c "cd /var/cache/apt/archives && apt-get -qq -o APT::Sandbox::User=root download linux-source-$series=$version" >/dev/null
	unpack_fetched
	if said=$(build "$before") || [[ $said != *"raid1 and raid10 are not built"* ]]; then
		failed=1
		said="NOT REFUSED: $said"
	fi
	printf '%-26s %-24s %s\n' "$before" "$version" "$said"
	rm -rf "$root/srv/out"
	forget
done
exit $failed
