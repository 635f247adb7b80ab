# SPDX-License-Identifier: MIT
"""linnos-ublk: a mirror as a block device, on drives that are slow, fail or hold wrong data.

The kernel's policy is off, so linnos-ublk sees the drives as on a stock kernel.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from guest_runs import GuestResult
from md_arrays import reads_of

from linnapp.lab.array import Array
from linnapp.lab.guest import REPOSITORY

if TYPE_CHECKING:
    from conftest import Boot

pytestmark = pytest.mark.lab

CRASH = Path(__file__).with_name("crash_mirror.py")
SOURCE = REPOSITORY / "liblinnos" / "ublk"
EXAMPLE = REPOSITORY / "build" / "liblinnos" / "examples" / "read_replicas"
READS = "paced_reads /dev/ublkb0"
DRIVES = "/dev/flash0 /dev/flash1 /dev/flash2"

SHELL = """
# The guest cannot write to the host's folder.
mount -t tmpfs none /var/lib
start() # OUTPUT OPTION...: returns when the device is there
{
	to=$1; shift
	linnos-ublk --json "$@" >$OUT/$to 2>$OUT/$to.err &
	server=$!
	until [ -s $OUT/$to ]; do kill -0 $server; sleep 0.01; done
}
stop() { kill -${1:-TERM} $server; status=0; wait $server || status=$?; }
killed() { stop KILL; [ $status = 137 ]; }
stopped() { stop; [ $status = ${1:-0} ]; }
read_slowly() # OUTPUT DEVICE
{
	bursts 1
	paced_reads $2 4000 500 >$OUT/reads_$1
	bursts 0
}
fail() # DRIVE OP FREQUENCY N: let I/O fail
{
	rule flash$1 $2 op=$2 fault=medium_error frequency=$3 n=$4
}
"""


def built(out: Path, sanitize: str = "") -> Path:
    """Build linnos-ublk in a separate folder."""
    make = ["make", "-s", "-C", str(SOURCE), f"OUT={out}", f"SANITIZE={sanitize}"]
    subprocess.run(make, check=True, capture_output=True, text=True)
    return out


@pytest.fixture(scope="module")
def folder() -> Path:
    return built(REPOSITORY / "build" / "ublk")


@pytest.fixture(scope="module")
def sanitized() -> Path:
    """Build with UBSan; ASan does not fit into the guest's address space."""
    ubsan = "-fsanitize=undefined -fno-sanitize-recover=all"
    return built(REPOSITORY / "build" / "ublk-ubsan", ubsan)


Run = Callable[..., GuestResult]


@pytest.fixture
def run(boot: Boot, folder: Path) -> Run:
    """Return a function that runs a script with linnos-ublk; each command must succeed."""

    def run(script: str, programs: Path = folder, **parameters: str) -> GuestResult:
        return boot(
            f"PATH={programs}:$PATH\n{SHELL}{script}",
            Array(size_mb=32, precondition=False, parameters=parameters),
        )

    return run


RECORDINGS = [f"--trace $OUT/traces/flash{k}.blk" for k in range(3)]
#: For training: more than a thousand random reads of each drive, as default replica.
RECORDED = f"""
linnapp trace {DRIVES} -o $OUT/traces -- {EXAMPLE} --every-us 1000 --seed 5 --reads 6000 \\
    --home-only {DRIVES}
linnapp train --kind latency -o $OUT/models {" ".join(RECORDINGS)}
"""
WITH_MODELS = " ".join(f"/dev/flash{k}=$OUT/models/flash{k}.linnos" for k in range(3))


#: Options of the server for each run.
SERVERS = {
    "turns": f"--assume-clean --margin 100 --probe-after-ms 0 {DRIVES}",
    "home": f"--compare {DRIVES}",
    "best": f"--compare {WITH_MODELS}",
    "hedged": f"--compare --hedge-percentile 95 {WITH_MODELS}",
    "hedge": "--compare --margin 100 --probe-after-ms 0 --hedge-us 200 --max-duplicates 100 "
    + DRIVES,
}


def test_mirror_reads_avoid_a_slow_drive(run: Run) -> None:
    script = f"bursts 1; {RECORDED} bursts 0\n"
    for name, options in SERVERS.items():
        script += f"""
        start {name} {options}
        [ {name} != turns ] || {READS} --fill
        read_slowly {name} /dev/ublkb0
        stop {"HUP" if name == "hedged" else "TERM"}; [ $status = 0 ]
        [ ! -e /dev/ublkb0 ]; [ ! -e /dev/ublkc0 ]
        """
    result = run(
        f"""{script}
        mdadm --create /dev/md0 --run --metadata=1.0 --assume-clean --bitmap=none --level=1 \\
            --raid-devices=3 {DRIVES} >$OUT/mdadm 2>&1
        read_slowly md /dev/md0
        mdadm --stop /dev/md0 2>>$OUT/mdadm
        """
    )
    read = {name: reads_of(result, f"reads_{name}") for name in (*SERVERS, "md")}
    events = {name: result.json_lines(name) for name in SERVERS}
    turns, best, hedged = (read[name] for name in ("turns", "best", "hedged"))
    # md has the same drives, and chooses by pending I/O and the position of the last read.
    assert best["mean_us"] < read["md"]["mean_us"] and best["slow"] < read["md"]["slow"]
    # Hedging alone needs many more reads.
    assert hedged["mean_us"] < read["hedge"]["mean_us"]
    assert events["hedge"][-1]["hedges"] > 5 * events["hedged"][-1]["hedges"] > 0
    # Without models reads stay at the default replica, round robin, which is reported.
    home, stopped = read["home"], events["home"][-1]
    assert stopped["redirected"] == 0 and stopped["not_choosing"] == 3
    assert home["slow"] > 0.3 * home["reads"] and turns["slow"] > 0.3 * turns["reads"]
    assert "3 of 3 replicas have no model" in result.text("home.err")
    (anonymous,) = result.text("best.err").splitlines()
    assert "/dev/flash0 has no serial number or other identity" in anonymous
    assert best["slow"] < turns["slow"] / 3 and best["mean_us"] < 0.65 * turns["mean_us"]
    assert hedged["slow"] < best["slow"]
    ready, stopped = events["best"]
    assert (ready["state"], stopped["state"]) == ("ready", "stopped")
    assert stopped["redirected"] > 1000 and stopped["reads_failed"] == 0
    assert events["hedged"][-1]["hedges"] <= 0.05 * events["hedged"][-1]["reads"]


def test_mirror_reads_are_right_when_drives_fail(run: Run, sanitized: Path) -> None:
    """Reads fail at times on all drives, then the writes of one drive; under UBSan."""
    result = run(
        f"""
        start errors --assume-clean --hedge-percentile 90 {DRIVES}
        {READS} --fill
        fail 0 read interval 7; fail 1 read interval 11; fail 2 read interval 13
        {READS} 3000 500 --writes >$OUT/reads_errors
        for k in 0 1 2; do remove_rule flash$k read; done
        {READS} --fill
        {READS} 3000 500 --writes >$OUT/reads_dropped &
        load=$!
        sleep 0.5
        fail 1 write all_after 20
        wait $load
        before=$(counter flash1 reads)
        {READS} 500 500 >$OUT/reads_after
        [ $(counter flash1 reads) = $before ]
        fio --name=v --filename=/dev/ublkb0 --rw=randrw --bsrange=4k-128k --ioengine=libaio \\
          --iodepth=16 --direct=1 --size=8m --verify=crc32c --verify_fatal=1 --fsync=32 \\
          --clocksource=clock_gettime --output=$OUT/fio
        # Writes overlap: the last one must be the same on all replicas.
        fio --name=o --filename=/dev/ublkb0 --rw=randwrite --bsrange=4k-64k --ioengine=libaio \\
          --iodepth=32 --direct=1 --offset=16m --size=256k --norandommap --io_size=32m \\
          --refill_buffers --clocksource=clock_gettime --output=$OUT/fio
        kill -USR1 $server
        stopped 3
        remove_rule flash1 write
        cmp /dev/flash0 /dev/flash2
        status=0; linnos-ublk --compare {DRIVES} 2>$OUT/differ || status=$?
        [ $status = 1 ]
        ! linnos-ublk --assume-clean {DRIVES} 2>$OUT/stale || exit 1
        ! linnos-ublk --assume-clean /dev/flash1 /dev/flash2 2>$OUT/stale_first || exit 1
        start again --resync {DRIVES}
        stopped
        cmp /dev/flash0 /dev/flash1; cmp /dev/flash0 /dev/flash2
        start clean --assume-clean {DRIVES}
        stopped
        """,
        sanitized,
    )
    assert reads_of(result, "reads_errors")["written"] > 300
    assert reads_of(result, "reads_dropped")["written"] > 300
    assert reads_of(result, "reads_after")["reads"] == 500
    err = result.text("errors.err")
    _, no_models, dropped = err.splitlines()
    assert "3 of 3 replicas have no model" in no_models
    assert "/dev/flash1 DROPPED: write of " in dropped and "2 of 3 replicas left" in dropped
    _, running, stopped = result.json_lines("errors")
    assert running["state"] == "running" and stopped["degraded"] == 1
    assert [replica["in"] for replica in stopped["replicas"]] == [True, False, True]
    assert stopped["failovers"] > 100 and stopped["reads_failed"] == 0
    assert stopped["writes_failed"] == 0 and stopped["flushes"] > 0
    assert stopped["writes_waited"] > 100
    assert "/dev/flash0 and /dev/flash1 differ at byte" in result.text("differ")
    for name in ("stale", "stale_first"):
        stale = result.text(name)
        assert "/dev/flash1 is out of date, because a write failed on it" in stale
        assert "linnos-ublk --resync /dev/flash" in stale


def test_device_of_a_killed_server_can_be_removed(run: Run) -> None:
    result = run(
        f"""
        start killed --assume-clean --device 0 {DRIVES}
        {READS} --fill
        {READS} 2000 500 >$OUT/reads_killed 2>&1 & load=$!
        sleep 0.3
        killed
        wait $load || :
        linnos-ublk --remove 0
        [ ! -e /dev/ublkb0 ]; [ ! -e /dev/ublkc0 ]
        ! linnos-ublk --remove 0 2>$OUT/gone || exit 1

        start live --compare --device 0 {DRIVES}
        {READS} 500 500 >$OUT/reads_live
        ! linnos-ublk --assume-clean --device 0 $OUT/a $OUT/b 2>/dev/null || exit 1
        truncate -s 1M /run/a /run/b /run/c
        linnos-ublk --assume-clean --device 1 /run/a /run/b >$OUT/files & files=$!
        until [ -s $OUT/files ]; do kill -0 $files; sleep 0.01; done
        ! linnos-ublk --assume-clean --device 2 /run/c /run/b 2>$OUT/locked || exit 1
        kill $files; wait $files
        {READS} 2000 500 >$OUT/reads_removed 2>&1 & load=$!
        sleep 0.3
        linnos-ublk --remove 0
        wait $load || :
        status=0; wait $server || status=$?; [ $status = 0 ]
        [ ! -e /dev/ublkb0 ]; cmp /dev/flash0 /dev/flash1
        """,
    )
    assert "there is no such ublk device" in result.text("gone")
    # A file, like a drive, can belong to one mirror only.
    locked = result.text("locked")
    assert "/run/b is locked by another linnos-ublk" in locked
    assert reads_of(result, "reads_live")["reads"] == 500
    assert result.json_lines("live")[-1]["state"] == "stopped"


def test_server_starts_after_a_killed_server(run: Run) -> None:
    """The first is killed before it starts the device, where it waits at a FIFO, others later."""
    result = run(
        f"""
        mkdir -p /run/linnos-ublk; mkfifo /run/linnos-ublk/0.new
        linnos-ublk --recover --device 0 --assume-clean {DRIVES} 2>$OUT/before & server=$!
        until [ -e /dev/ublkc0 ]; do kill -0 $server; sleep 0.01; done
        ! linnos-ublk --device 0 --assume-clean $OUT/a $OUT/b 2>$OUT/making || exit 1
        killed; rm /run/linnos-ublk/0.new
        [ -e /dev/ublkc0 ]; [ ! -e /dev/ublkb0 ]
        start recovered --recover --device 0 --assume-clean {DRIVES}
        {READS} --fill
        stopped

        start live --device 0 --assume-clean {DRIVES}
        ! linnos-ublk --device 0 --assume-clean $OUT/a $OUT/b 2>$OUT/served || exit 1
        stop KILL
        start again --device 0 --assume-clean {DRIVES}
        {READS} 300 500 >$OUT/reads_again
        stopped

        start waits --recover --device 0 --assume-clean {DRIVES}
        stop KILL
        ! linnos-ublk --device 0 --assume-clean $OUT/a $OUT/b 2>$OUT/waiting || exit 1
        linnos-ublk --remove 0
        """,
    )
    assert reads_of(result, "reads_again")["reads"] == 300
    assert "is being created or deleted by another server" in result.text("making")
    assert "is served by process " in result.text("served")
    assert "waits for a server; take it over with --recover" in result.text("waiting")
    for name in ("recovered", "again"):
        assert "which a killed server had left, was deleted" in result.text(f"{name}.err")


def test_file_system_survives_killed_servers(run: Run) -> None:
    """The server is killed three times during I/O of a file system; nothing fails or is lost."""
    result = run(
        f"""
        same="--recover --device 0 --assume-clean --hedge-percentile 90 {DRIVES}"
        start 0 $same
        mkfs.ext4 -q /dev/ublkb0; mkdir /run/m; mount /dev/ublkb0 /run/m
        fio --directory=/run/m --ioengine=libaio --direct=1 --clocksource=clock_gettime \\
            --time_based --runtime=2 --rate_iops=1500 --verify=crc32c --verify_fatal=1 \\
            --output=$OUT/fio --output-format=json \\
            --name=mixed --rw=randrw --bsrange=4k-64k --iodepth=16 --size=8m --fsync=16 \\
            --name=over --rw=randwrite --bsrange=4k-32k --iodepth=32 --size=256k \\
            --norandommap --do_verify=0 &
        load=$!
        for k in 1 2 3; do
            sleep 0.2
            killed
            [ -b /dev/ublkb0 ]
            sleep 0.$k
            start $k $same
        done
        ! linnos-ublk $same 2>$OUT/served || exit 1
        wait $load
        umount /run/m
        e2fsck -fn /dev/ublkb0 >$OUT/fsck
        [ -e /run/linnos-ublk/0 ]
        stopped
        [ ! -e /dev/ublkb0 ]; [ ! -e /run/linnos-ublk/0 ]
        cmp /dev/flash0 /dev/flash1; cmp /dev/flash0 /dev/flash2
        """,
    )
    fio_output = result.text("fio")
    for job in json.loads(fio_output[fio_output.index("{") :])["jobs"]:
        assert job["error"] == 0 and job["write"]["runtime"] >= 1800
    for k in range(4):
        messages = result.text(f"{k}.err")
        assert "DROPPED" not in messages
        # The file system has written before each kill.
        assert ("MiB that could differ" in messages) == (k > 0)
    assert "is served by process " in result.text("served")


def test_failed_flush_is_reported_after_a_recovery(run: Run) -> None:
    """A drive fails a flush, another has not answered it yet, and the server is killed.

    A repeated flush would succeed, because the drive is back, but without the data written before.
    """
    result = run(
        f"""
        dmsetup create late --noudevsync --noudevrules \\
            --table "0 $(cat /sys/block/flash2/size) linear /dev/flash2 0"
        same="--recover --device 0 --assume-clean /dev/flash0 /dev/flash1 /dev/dm-0"
        start first $same
        {READS} --fill
        dmsetup suspend --noudevsync --nolockfs late
        echo 0 >$flashsim/flash1/power
        sync /dev/ublkb0 & flush=$!
        sleep 0.1
        kill -KILL $server
        sleep 0.1
        dmsetup resume --noudevsync late
        wait $server || :
        echo 1 >$flashsim/flash1/power
        start second $same
        wait $flush
        {READS} 300 500 >$OUT/reads_second
        stopped 3
        cmp /dev/flash0 /dev/flash2; ! cmp -s /dev/flash0 /dev/flash1 || exit 1
        """,
        volatile_cache="1",
    )
    assert reads_of(result, "reads_second")["reads"] == 300
    assert "/dev/flash1 DROPPED: flush of " in result.text("first.err")
    assert "/dev/flash1 was DROPPED before the device was recovered" in result.text("second.err")


def test_dropped_replica_stays_out_after_a_recovery(run: Run) -> None:
    result = run(
        f"""
        same="--recover --device 0 --assume-clean"
        start first $same {DRIVES}
        {READS} --fill
        fail 1 write all_after 1
        {READS} 300 500 --writes >$OUT/reads_first
        stop KILL
        remove_rule flash1 write
        {READS} 300 500 >$OUT/reads_waiting & load=$!
        ! linnos-ublk $same /dev/flash0 /dev/flash1 2>$OUT/fewer || exit 1
        ! linnos-ublk $same /dev/flash1 /dev/flash0 /dev/flash2 2>$OUT/order || exit 1
        before=$(counter flash1 reads)
        start second $same {DRIVES}
        wait $load
        {READS} 300 500 --writes >$OUT/reads_second
        [ $(counter flash1 reads) = $before ]
        stopped 3
        cmp /dev/flash0 /dev/flash2; ! cmp -s /dev/flash0 /dev/flash1 || exit 1

        # A device whose record is lost, and one that cannot be taken over.
        start third $same /dev/flash0 /dev/flash2
        stop KILL; rm /run/linnos-ublk/0
        ! linnos-ublk $same /dev/flash0 /dev/flash2 2>$OUT/unknown || exit 1
        linnos-ublk --remove 0
        ! linnos-ublk --recover --assume-clean {DRIVES} 2>$OUT/usage || exit 1
        """,
    )
    assert reads_of(result, "reads_waiting")["reads"] == 300
    assert reads_of(result, "reads_second")["written"] > 30
    assert "/dev/flash1 was DROPPED before the device was recovered" in result.text("second.err")
    stopped = result.json_lines("second")[-1]
    assert [replica["in"] for replica in stopped["replicas"]] == [True, False, True]
    for name in ("fewer", "order"):
        assert "/run/linnos-ublk/0: the device has other replicas" in result.text(name)
    assert "No such file or directory; name the replicas" in result.text("unknown")
    assert "--recover needs the number of the device" in result.text("usage")


@pytest.mark.long
@pytest.mark.parametrize("n_moments", [10, pytest.param(200, marks=pytest.mark.crashes)])
def test_mirror_is_equal_and_complete_after_crashes_at_random_moments(
    run: Run, n_moments: int
) -> None:
    """Check that all readable replicas are equal, and no flushed data is missing."""
    result = run(f"python3 {CRASH} {n_moments} 1 >$OUT/done 2>$OUT/progress")
    done = result.json("done")
    print(done)
    assert done["crashes"] == n_moments and done["writes"] > 100 * n_moments
    # Without a repair replicas would differ, and the option that skips it is refused.
    assert done["differed"] > n_moments / 4 and done["refused"] > n_moments / 4
    assert all(done[kind] for kind in ("dropped", "missing", "in_resync", "recovered", "copied"))
    # A write to a marked region needs no additional I/O.
    assert done["record_writes_first"] > 0 and done["record_writes_later"] == 0


#: A server that is stopped before it has started.
STOPPED_AT_ONCE = """import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.kill(os.getpid(), signal.SIGTERM)
os.execvp("linnos-ublk", ["linnos-ublk", *sys.argv[1:]])
"""


def test_immediate_stop_completes_the_work_of_a_killed_server(run: Run, tmp_path: Path) -> None:
    """There are more slow writes than tags, so some always wait in the kernel."""
    (tmp_path / "stopped.py").write_text(STOPPED_AT_ONCE)
    result = run(
        f"""
        same="--recover --device 0 --queue-depth 8 --assume-clean {DRIVES}"
        start first $same
        inject flash0 pattern=all op=write latency_us=200000
        fio --name=w --filename=/dev/ublkb0 --rw=randwrite --bs=4k --ioengine=libaio \\
            --iodepth=32 --number_ios=32 --size=16m --direct=1 --clocksource=clock_gettime \\
            --refill_buffers --output=$OUT/fio --output-format=json &
        load=$!
        until [ "$(awk '{{ print $2 }}' /sys/block/ublkb0/inflight)" = 8 ]; do sleep 0.001; done
        killed
        python3 $OUT/stopped.py --json $same >$OUT/second
        wait $load
        [ ! -e /dev/ublkb0 ]
        cmp /dev/flash0 /dev/flash1; cmp /dev/flash0 /dev/flash2
        """,
    )
    fio_output = result.text("fio")
    (job,) = json.loads(fio_output[fio_output.index("{") :])["jobs"]
    assert (job["error"], job["write"]["total_ios"]) == (0, 32)
    _, stopped = result.json_lines("second")
    assert 8 < stopped["writes"] <= 32


#: Gives the kernel's answer for a drive with blocks larger than 4 KiB, which the lab lacks.
LARGE_BLOCKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/fs.h>
#include <stdarg.h>
int ioctl(int fd, unsigned long request, ...)
{
    int (*next)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    int result = next(fd, request, argument);
    if (request == BLKSSZGET && !result)
        *(int *)argument = 8192;
    return result;
}
"""


def test_server_refuses_invalid_setups_and_names_the_remedy(run: Run, tmp_path: Path) -> None:
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", tmp_path / "large_blocks.so", "-x", "c", "-"],
        input=LARGE_BLOCKS, check=True, text=True,
    )  # fmt: skip
    result = run(
        """
        mkdir /dev/shm/u; cd /dev/shm/u
        truncate -s 4M a b; truncate -s 3M small
        refused() # STATUS TEXT OPTION...
        {
            want=$1 text=$2 got=0; shift 2
            linnos-ublk "$@" >$OUT/said 2>&1 || got=$?
            [ $got = $want ] && grep -q -e "$text" $OUT/said ||
                { echo "$@: $got"; cat $OUT/said; exit 1; }
        }
        refused 2 "it must be from 2 to 16" --assume-clean a
        refused 2 "exactly one of --assume-clean, --compare and --resync" a b
        refused 2 "must be a whole number" --assume-clean --queue-depth 0 a b
        refused 1 "are the same drive" --assume-clean a ./a
        refused 1 "No such file" --assume-clean a nothing
        refused 1 "must be a block device" --assume-clean a /dev/null
        refused 1 "--size 3145728 uses this much of each" --assume-clean a small
        refused 1 "fewer than --size 4194304" --assume-clean --size 4M a small
        refused 1 "model of replica" --assume-clean a=b b
        printf x | dd of=a bs=1 seek=70000 conv=notrunc 2>/dev/null
        refused 1 "differ at byte 70000" --compare a b
        mkfs.ext4 -q /dev/flash1; mkdir m; mount /dev/flash1 m
        refused 1 "/dev/flash1: Device or resource busy; it is in use" \\
            --assume-clean /dev/flash0 /dev/flash1
        umount m
        export LD_PRELOAD=$OUT/large_blocks.so
        refused 1 "blocks of 8192 bytes; ublk supports at most 4096" \\
            --assume-clean /dev/flash0 /dev/flash2
        unset LD_PRELOAD
        setpriv --reuid=65534 --clear-groups linnos-ublk --assume-clean a b 2>$OUT/user && exit 1
        grep -q "run as root" $OUT/user

        # Files can have holes; a drive without zeroing offers no discard.
        dd if=/dev/urandom of=a bs=1M count=4 conv=notrunc 2>/dev/null; cp a b
        start files --compare --size 3M --queue-depth 1024 a b
        [ $(cat /sys/block/ublkb0/queue/discard_max_bytes) -gt 0 ]
        [ $(cat /sys/block/ublkb0/size) = 6144 ]
        blkdiscard -o 64K -l 128K /dev/ublkb0
        blkdiscard -z -o 1M -l 64K /dev/ublkb0
        mkdir -p m; mkfs.ext4 -q -b 4096 /dev/ublkb0 2>$OUT/mkfs
        stopped
        cmp a b
        start drives --assume-clean --queue-depth 1 /dev/flash0 /dev/flash2
        [ $(cat /sys/block/ublkb0/queue/discard_max_bytes) = 0 ]
        [ $(cat /sys/block/ublkb0/queue/fua) = 1 ]
        mkfs.ext4 -q /dev/ublkb0; mount /dev/ublkb0 m
        dd if=/dev/urandom of=m/x bs=1M count=4 conv=fsync 2>/dev/null
        umount m; e2fsck -fn /dev/ublkb0 >/dev/null
        stopped
        cmp /dev/flash0 /dev/flash2
        """,
    )
    assert result.json_lines("files")[-1]["zeroed"] >= 2
    assert result.json_lines("drives")[-1]["flushes"] > 0
