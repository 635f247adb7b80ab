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

# no_probes FOLDER: with probes, some reads that are predicted slow would be admitted
no_probes() {
    echo 0 >$1/probe_after_us
    echo 0 >$1/probe_after_revokes
}

# remove_device FOLDER: remove the PCI device of a drive or a path; find_devices brings it back
remove_device() {
    echo 1 >$(readlink -f $1)/remove
}
find_devices() {
    echo 1 >/sys/bus/pci/rescan
}

# busy DISK READS: more than READS reads have completed since the disk appeared or returned
busy() {
    read reads rest </sys/block/$1/stat && [ $reads -gt $2 ]
}

# verify_load DEVICE: read and write its second 64 MiB and check the data, until `end_load`
verify_load() {
    fio --name=load --filename=$1 --allow_file_create=0 --offset=64m --size=64m --rw=randrw \
        --bsrange=4k-64k --direct=1 --ioengine=io_uring --iodepth=16 --verify=crc32c \
        --verify_fatal=1 --verify_backlog=32 --verify_state_save=0 --time_based --runtime=900 \
        --output=$OUT/fio &
    fio=$!
}
end_load() {
    kill -INT $fio
    wait $fio || true
    [ -s $OUT/fio ]
    if grep 'verify:' $OUT/fio >&2; then exit 1; fi
}

# An NVMe drive with two paths, whose disks are $paths; $head has no requests of its own.
has_paths() {
    paths=$(cd /sys/block && ls -d nvme*c*n1 2>/dev/null) || true
    [ $(echo "$paths" | wc -w) = $1 ]
}
find_head() {
    wait_for has_paths 2
    head=$(cd /sys/block && ls -d nvme*n1 | grep -v c)
    wait_for [ -b /dev/$head ]
    for drive in /sys/class/nvme-subsystem/*; do echo round-robin >$drive/iopolicy; done
}
all_busy() {
    for path in $paths; do wait_for busy $path 200; done
}

# replace_paths ROUNDS COMMAND...: ROUNDS times, run the command, remove one of the two paths under
# load, and bring it back. I/O on a removed path is sent on the other path.
replace_paths() {
    rounds=$1
    shift
    for round in $(seq $rounds); do
        "$@"
        all_busy
        set_aside=$(ls -d /sys/class/nvme/nvme* | sed -n $((round % 2 + 1))p)
        remove_device $set_aside/device
        wait_for has_paths 1
        find_devices
        wait_for has_paths 2
        all_busy
    done
}
