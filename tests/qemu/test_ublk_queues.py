# SPDX-License-Identifier: MIT
"""linnos-ublk with one queue per CPU, on Debian's own kernel, keeps its guarantees between
threads. The lab's UML kernel has one CPU, and so one queue."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from debian import debian_kernel

from linnapp.lab.guest import REPOSITORY

pytestmark = pytest.mark.qemu

N_CPUS = 4

#: Each job has a processor, and therefore a queue. Jobs of `own` check the data that they have
#: written. Jobs of `over` overwrite the data of each other. Each job of `meet` has one write at a
#: time, to blocks that the others also write, so a waiting write waits for a write of another
#: queue.
SCRIPT = """
. $TESTS/lib.sh
PATH={folder}:$PATH
# The guest cannot write to the host's folder.
mount -t tmpfs none /var/lib
# TSan of Debian 12 does not support the wide address randomisation of newer kernels.
sysctl -q vm.mmap_rnd_bits=28
export TSAN_OPTIONS="log_path=$OUT/races exitcode=0"
modprobe -d $UNPACKED ublk_drv
modprobe -d $UNPACKED null_blk nr_devices=0
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
drives=/sys/kernel/config/nullb
for name in first failing last; do
    mkdir $drives/$name; cd $drives/$name
    echo 1 >memory_backed; echo 48 >size; echo 2 >hw_queue_depth
    echo 2 >irqmode; echo 200000 >completion_nsec; echo 1 >power
done
cd /
start() # OUTPUT: returns when the device is there
{{
    linnos-ublk --json --recover --device 0 --assume-clean --queues {n_cpus} \\
        --hedge-us 500 --max-duplicates 50 \\
        /dev/first /dev/failing /dev/last >$OUT/$1 2>$OUT/$1.err &
    server=$!
    wait_for [ -s $OUT/$1 ]
}}
end() {{ kill -$1 $server; status=0; wait $server || status=$?; }}
busy() # OUTPUT: each queue has been given many requests
{{
    kill -USR1 $server; sleep 0.3
    python3 -c '
import json, sys
sys.exit(min(json.loads(open(sys.argv[1]).read().splitlines()[-1])["queues"]) < 100)' $OUT/$1
}}
fails() {{ grep -q "/dev/failing DROPPED" $OUT/first.err; }}

start first
fio --filename=/dev/ublkb0 --allow_file_create=0 --ioengine=libaio --direct=1 --iodepth=8 \\
    --time_based --runtime=1500 --numjobs={n_cpus} --cpus_allowed=0-{last_cpu} \\
    --cpus_allowed_policy=split --output=$OUT/fio --output-format=json \\
    --name=own --rw=randrw --bsrange=4k-32k --size=2m --offset_increment=8m --fsync=32 \\
    --verify=crc32c --verify_fatal=1 \\
    --name=over --rw=randwrite --bsrange=4k-32k --offset=40m --size=128k --norandommap \\
    --refill_buffers &
load=$!
wait_for busy first
echo +0-98303 >$drives/failing/badblocks
wait_for fails
wait_for busy first
end KILL
start second
wait_for busy second
kill -INT $load
wait $load || [ $? = 128 ]
kill -USR1 $server; sleep 0.3; wc -l <$OUT/second >$OUT/before
fio --filename=/dev/ublkb0 --allow_file_create=0 --ioengine=libaio --direct=1 --iodepth=1 \\
    --numjobs={n_cpus} --cpus_allowed=0-{last_cpu} --cpus_allowed_policy=split \\
    --name=meet --rw=randwrite --bs=16k --offset=40m --size=16k --norandommap --io_size=2m \\
    --refill_buffers >$OUT/meet
end TERM
[ $status = 3 ]
[ ! -e /dev/ublkb0 ]
cmp /dev/first /dev/last
echo -0-98303 >$drives/failing/badblocks
! cmp -s /dev/first /dev/failing || exit 1
"""


@pytest.fixture(scope="module", params=["ublk", "ublk-tsan"])
def folder(request: pytest.FixtureRequest) -> Path:
    """Build linnos-ublk, plain and with TSan."""
    out = REPOSITORY / "build" / request.param
    make = ["make", "-s", "-C", str(REPOSITORY / "liblinnos" / "ublk"), f"OUT={out}"]
    if request.param == "ublk-tsan":
        make += ["SANITIZE=-fsanitize=thread", "CFLAGS=-O1 -g"]
    subprocess.run(make, check=True, capture_output=True, text=True)
    return out


def test_several_queues_keep_the_guarantees_of_one(folder: Path, tmp_path: Path) -> None:
    """A drive fails under load, then the server is killed: data is right, replicas equal."""
    kernel = debian_kernel("kernel-debian", ours=False)
    result = kernel.boot(
        SCRIPT.format(folder=folder, n_cpus=N_CPUS, last_cpu=N_CPUS - 1),
        tmp_path,
        n_cpus=N_CPUS,
        n_drives=0,
    )
    races = "".join(path.read_text() for path in tmp_path.glob("races.*"))
    assert not races, races[:3000]
    fio_output = result.text("fio")
    jobs = json.loads(fio_output[fio_output.index("{") :])["jobs"]
    assert len(jobs) == 2 * N_CPUS and not any(job["error"] for job in jobs)
    events = {name: result.json_lines(name) for name in ("first", "second")}
    before, after = events["second"][result.numbers("before")[0] - 1], events["second"][-1]
    assert after["writes"] == before["writes"] + N_CPUS * 128
    assert after["writes_waited"] > before["writes_waited"] + 50
    for _, *_, last in events.values():
        assert len(last["queues"]) == N_CPUS and min(last["queues"]) >= 100
        assert last["writes_waited"] > 100 and last["flushes"] > 10 and last["hedges"] > 0
        assert last["reads_failed"] == last["writes_failed"] == 0
        assert [replica["in"] for replica in last["replicas"]] == [True, False, True]
    assert result.text("first.err").count("DROPPED") == 1
    assert "/dev/failing was DROPPED before" in result.text("second.err")
