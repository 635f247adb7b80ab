# SPDX-License-Identifier: MIT
# Sourced by scripts that run in the QEMU lab's guest.

# wait_for COMMAND...: until it succeeds, at most a minute
wait_for() {
    for try in $(seq 600); do
        if "$@"; then return 0; fi
        sleep 0.1
    done
    echo "waited in vain for: $*" >&2
    exit 1
}
