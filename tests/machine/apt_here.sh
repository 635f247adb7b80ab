# SPDX-License-Identifier: MIT
# Sourced by what makes a Debian 12 of its own: packages, and certificates, are to come from where
# this machine has them.

sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
	'Created-By: Packages' 'Origin: Debian' | grep ' bookworm' | sort -u)
mirror=$(echo "$sources" | awk '$3 == "bookworm" && !found++ { print $2 }')
[ -n "$mirror" ] || { echo "${0##*/}: apt here knows no mirror of bookworm" >&2; exit 1; }

# bootstrap FOLDER ROOT OPTION...: the base system in ROOT; packages and a log are left in FOLDER
bootstrap() {
	local folder=$1 root=$2

	debootstrap --cache-dir="$folder/packages" "${@:3}" bookworm "$root" "$mirror" \
		>"$folder/debootstrap.log" || { tail "$folder/debootstrap.log" >&2; exit 1; }
	echo "$sources" >"$root/etc/apt/sources.list"
	# No questions; the settings of this machine's apt for downloads.
	{
		echo 'APT::Get::Assume-Yes "true";'
		apt-config dump Acquire |
			grep -E '^Acquire::(http|https|Check|Languages|GzipIndexes)' || :
	} >"$root/etc/apt/apt.conf.d/90here"
	cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" \
		2>/dev/null || :
}
