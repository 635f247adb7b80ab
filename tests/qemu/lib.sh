# SPDX-License-Identifier: MIT
# Sourced by scripts that run in the QEMU lab's guest.

# wait_for COMMAND...: wait until it succeeds, at most ten minutes
wait_for() {
    for try in $(seq 6000); do
        if "$@"; then return 0; fi
        sleep 0.1
    done
    echo "timeout while waiting for: $*" >&2
    exit 1
}

# load DEVICE OPTION...: see hinted_load.py
load() {
    python3 $TESTS/hinted_load.py "$@"
}

# enforce DISK MODEL: let the disk refuse reads that the model predicts slow
enforce() {
    cat $2 >/sys/block/$1/linnos/model
    echo enforce >/sys/block/$1/linnos/mode
}
