#!/bin/bash
# SPDX-License-Identifier: MIT
# Build and try a clean clone of HEAD on the other supported Debian: in a chroot with
# debootstrap's minimal system, git, make and sudo, an ordinary user runs a short `make demo` and a sample
# of the unit tests.
#
# With LINNOS_LAB_KERNEL=build/linux-um/linux the demo boots that kernel and compiles none, which takes most of
# the time; only Debian 13 can run the kernel that the other one built.
#
# LINNOS_CACHE (~/.cache/linnos) keeps that system, pip's downloads and ccache for the next run. Where no
# chroot can be made (no root, no network), one line says so and the exit status is 0.
set -euo pipefail
cd "$(dirname "$0")/../.."
# These tests depend on the compiler, on Python and on programs of Debian. UNIT_TESTS=tests/unit runs all unit tests.
: "${UNIT_TESTS:=$(echo tests/unit/test_{cli,debian_packages,liblinnos,library}.py)}"

skip() { echo "other_debian.sh: skipped: $*"; exit 0; }

if [ "$(id -u)" != 0 ]; then
	sudo -n true 2>/dev/null || skip "a chroot needs root, or sudo without a password"
	exec sudo -n --preserve-env=LINNOS_CACHE,LINNOS_LAB_KERNEL,UNIT_TESTS,HOME "$0"
fi
. /etc/os-release
case ${VERSION_CODENAME:-} in
bookworm) other=trixie ;;
trixie)	other=bookworm ;;
*)	skip "this is ${PRETTY_NAME:-no Debian}; Debian 12 tries Debian 13, and 13 tries 12" ;;
esac
unshare --mount --pid --fork true 2>/dev/null || skip "this machine allows no namespaces"
packaging/apt/install.sh packaging/apt/chroot.txt || skip "debootstrap cannot be installed"
. tests/machine/apt_here.sh

cache=${LINNOS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/linnos}/other-debian/$other
mkdir -p "$cache"/{packages,pip,ccache}
exec 9>"$cache/lock"
flock 9
# debootstrap's system grows old: packages that were replaced are no longer on the mirror.
[ -z "$(find "$cache/base" -maxdepth 0 -mtime +7 2>/dev/null)" ] || rm -rf "$cache/base"
if [ ! -d "$cache/base" ]; then
	rm -rf "$cache/base.new"
	echo "other_debian.sh: debootstrap $other"
	(bootstrap $other "$cache" "$cache/base.new" --variant=minbase --include=git,make,sudo) 2>"$cache/errors" ||
		skip "debootstrap $other failed: $(tail -n 1 "$cache/errors")"
	mv "$cache/base.new" "$cache/base"
fi

root=$(mktemp -d "$cache/run.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
cp -a "$cache/base/." "$root"
cp /etc/resolv.conf "$root/etc/resolv.conf"
pip_here "$root"
install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
chroot "$root" apt-get -qq update 2>"$cache/errors" || skip "apt-get update failed: $(tail -n 1 "$cache/errors")"
chroot "$root" useradd --create-home --shell /bin/bash tester
echo 'tester ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/tester"
git -c safe.directory='*' clone -q --depth 1 "file://$PWD" "$root/home/tester/linnos"
mkdir -p "$root/home/tester/.cache/"{pip,linnos/ccache}
kernel=
if [ -n "${LINNOS_LAB_KERNEL:-}" ] && [ $other = trixie ]; then
	cp "$LINNOS_LAB_KERNEL" "$root/home/tester/linux"
	kernel='-o kernel LINNOS_LAB_KERNEL=/home/tester/linux'
fi
cat >"$root/home/tester/try.sh" <<EOF
set -eux
cd ~/linnos
time make $kernel demo DEMO_OPTIONS='--seconds 2'
du -sh . .venv build
time make deps venv native replayer liblinnos ublk agent cluster
.venv/bin/python -m pytest -q -n 2 -m 'not lab and not qemu and not debug' --durations 10 $UNIT_TESTS
EOF
chroot "$root" chown -R tester: /home/tester
chown -R --reference="$root/home/tester" "$cache"/{pip,ccache}

# The mounts end with the namespace, and so does every process.
inside='
	set -e
	mount -t proc proc "$1/proc"
	mount --rbind /sys "$1/sys"
	mount --rbind /dev "$1/dev"
	mount --bind "$2/pip" "$1/home/tester/.cache/pip"
	mount --bind "$2/ccache" "$1/home/tester/.cache/linnos/ccache"
	exec chroot "$1" su - tester -c "bash try.sh"'
start=$SECONDS
# unshare ignores SIGTERM.
timeout --foreground --signal KILL 45m unshare --mount --pid --fork --kill-child bash -c "$inside" inside "$root" "$cache" || {
	echo "other_debian.sh: failed on $other" >&2
	exit 1
}
echo "other_debian.sh: $other: the demo and ${UNIT_TESTS//tests\/unit\//} pass, $((SECONDS - start)) s"
