#!/bin/sh
# SPDX-License-Identifier: MIT
# without-services.sh COMMAND...: run a command that installs Debian packages, and have none of them
# start a service. Debian's own way: a policy that forbids it, which is here for so long only.
set -eu
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi
"$@"
