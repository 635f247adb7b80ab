# SPDX-License-Identifier: MIT
# Sourced by scripts that install a Debian of their own. Packages and certificates come from the
# sources of this machine.

# sources_of RELEASE: print this machine's sources of Debian's packages for the given release
sources_of() {
	local here

	here=$(. /etc/os-release && echo "$VERSION_CODENAME")
	apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
		'Created-By: Packages' 'Origin: Debian' |
		awk -v here="$here" -v wanted="$1" 'sub(here, wanted, $3)' | sort -u
}

# bootstrap RELEASE FOLDER ROOT OPTION...: install the base system in ROOT; FOLDER keeps packages and a log
bootstrap() {
	local release=$1 folder=$2 root=$3 sources mirror

	sources=$(sources_of "$release")
	mirror=$(echo "$sources" | awk -v release="$release" '$3 == release && !found++ { print $2 }')
	[ -n "$mirror" ] || { echo "${0##*/}: apt here knows no mirror of $release" >&2; exit 1; }
	debootstrap --cache-dir="$folder/packages" "${@:4}" "$release" "$root" "$mirror" \
		>"$folder/debootstrap.log" || { tail "$folder/debootstrap.log" >&2; exit 1; }
	echo "$sources" >"$root/etc/apt/sources.list"
	# apt asks no questions, and downloads with the settings of this machine.
	{
		echo 'APT::Get::Assume-Yes "true";'
		apt-config dump Acquire |
			grep -E '^Acquire::(http|https|Check|Languages|GzipIndexes)' || :
	} >"$root/etc/apt/apt.conf.d/90here"
	mkdir -p "$root/usr/local/share/ca-certificates"
	cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" \
		2>/dev/null || :
}

# pip_here ROOT: let pip in ROOT download from the index of this machine's pip; ROOT needs certificates in /etc/ssl/certs
pip_here() {
	{
		echo '[global]'
		echo 'cert = /etc/ssl/certs/ca-certificates.crt'
		python3 -m pip config list 2>/dev/null |
			sed -nE "s/^(global|:env:)\.(index-url|extra-index-url|proxy|timeout|default-timeout|trusted-host)='(.*)'\$/\2 = \3/p"
	} >"$1/etc/pip.conf"
	env | grep -iE '^(http|https|no)_proxy=' >>"$1/etc/environment" || :
}
