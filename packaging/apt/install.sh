#!/bin/bash
# SPDX-License-Identifier: MIT
# Install the Debian packages of lists that are missing.
#
#	install.sh [--missing] LIST...
#
# --missing	only print their names
#
# A line of a list is a package, perhaps with "# only on Debian N".
# On other distributions nothing is installed. Libraries and programs may be built there all the same.
set -euo pipefail

die() { echo "make: $*" >&2; exit 1; }

only_print=
if [ "$1" = --missing ]; then
	only_print=yes
	shift
fi

. "${OS_RELEASE:-/etc/os-release}"
needs_debian=
for list in "$@"; do
	case ${list##*/} in libraries.txt|cluster.txt|programs.txt) ;; *) needs_debian=yes ;; esac
done
mapfile -t packages < <(awk -v version="${VERSION_ID:-}" '
	/^#/ || !NF || / # only on Debian / && $NF != version { next }
	{ print $1 }' "$@")

case $ID-${VERSION_ID:-} in
debian-12|debian-13) ;;
*)	if [ -z "$needs_debian" ]; then
		echo "make: this is $PRETTY_NAME, where nothing is installed; as on Debian 13, needed are: ${packages[*]}" >&2
		exit
	fi
	die "this is $PRETTY_NAME; packages are installed, and the lab is built, on Debian 13 and 12 only. With" \
		"Python 3.11 or later \`pip install .\` works here (linnapp without the lab), and so do" \
		"\`make replayer\` and \`make liblinnos\` with gcc, liburing, jansson and libblkid." ;;
esac
[ -z "$needs_debian" ] || [ "$(uname -m)" = x86_64 ] ||
	die "this machine is $(uname -m); the lab's kernels run on x86-64 only. \`pip install .\`," \
		"\`make replayer\` and \`make liblinnos\` work here."

missing=()
for package in "${packages[@]}"; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ -n "$only_print" ]; then
	echo "${missing[*]}"
	exit
fi
[ ${#missing[@]} -gt 0 ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || die "as root, run: apt-get install --no-install-recommends ${missing[*]}"
	sudo=sudo
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "apt: installing ${missing[*]}"
run() {
	if [ -n "${V:-}" ]; then
		"$@"
	else
		"$@" >"$log" 2>&1 </dev/null || { tail -n 20 "$log" >&2; die "\`$*\` failed"; }
	fi
}
# Another installation, such as the automatic one of security updates, may hold the locks for minutes.
wait="-o DPkg::Lock::Timeout=600"
run $sudo apt-get update -q $wait
run $sudo env DEBIAN_FRONTEND=noninteractive ${INSTALL:-} apt-get install -q -y --no-install-recommends $wait \
	-o APT::Keep-Downloaded-Packages=false "${missing[@]}"
