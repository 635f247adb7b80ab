# SPDX-License-Identifier: MIT
"""The device-mapper target damages any block device by the rules of emulated drives: a loop
device under ext4, and a mirror of md's raid1."""

from __future__ import annotations

from pathlib import Path

import pytest
from debian import DebianKernel, debian_kernel
from fault_rules import HELPER, THESIS, THESIS_BLOCKS, check_thesis_rule, write_thesis_rules

pytestmark = pytest.mark.qemu

FEW_BLOCKS = 10_240


@pytest.fixture(scope="module")
def kernel() -> DebianKernel:
    return debian_kernel("kernel-debian")


#: Makes /dev/mapper/bad of a loop device whose file is on the first NVMe drive.
PREPARE = """
modprobe -d $UNPACKED -a loop dm-mod
insmod $BUILT/dm-linnos-faults.ko
mkfs.ext4 -q /dev/nvme0n1
mkdir -p /run/below /run/mnt
mount /dev/nvme0n1 /run/below
looped() { truncate -s $2 /run/below/$1; losetup --find --show --direct-io=on /run/below/$1; }
"""

ON_EXT4 = """
loop=$(looped image {size})
[ "$(linnapp faults attach $loop --name bad)" = /dev/mapper/bad ]
mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/bad
mount /dev/mapper/bad /run/mnt
python3 {helper} /run/mnt/file {blocks} --allocate-only
for name in {names}; do
    linnapp faults install $OUT/$name.rules
    python3 {helper} /run/mnt/file {blocks} >$OUT/$name.json
    linnapp faults show /dev/mapper/bad >$OUT/$name.txt
    linnapp faults remove /dev/mapper/bad
done
umount /run/mnt
linnapp faults detach bad
[ ! -e /dev/mapper/bad ]
losetup -d $loop
umount /run/below
rmmod dm-linnos-faults
"""


# Only the mirror with the target is damaged. The other one is removed before the comparison.
ON_RAID1 = """
modprobe -d $UNPACKED -a md-mod raid1
for name in {names}; do
    bad=$(looped bad-$name {size})
    good=$(looped good-$name {size})
    linnapp faults attach $bad --name bad
    mdadm --create /dev/md0 --run --level=1 --raid-devices=2 --metadata=1.2 --assume-clean \\
        --bitmap=none /dev/mapper/bad $good 2>&1
    mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 /dev/md0
    mount /dev/md0 /run/mnt
    python3 {helper} /run/mnt/file {blocks} --allocate-only
    linnapp faults install --member /dev/mapper/bad $OUT/$name.rules
    python3 {helper} /run/mnt/file {blocks} >/dev/null
    linnapp faults show /dev/mapper/bad >$OUT/$name.txt
    linnapp faults remove /dev/mapper/bad
    mdadm /dev/md0 --fail $good 2>&1
    python3 {helper} /run/mnt/file {blocks} --no-write >$OUT/$name.json
    umount /run/mnt
    mdadm --stop /dev/md0 2>&1
    # The good mirror has the written data.
    mdadm --assemble --run /dev/md0 $good 2>&1
    mount -o ro /dev/md0 /run/mnt
    python3 {helper} /run/mnt/file {blocks} --no-write >$OUT/$name.good
    umount /run/mnt
    mdadm --stop /dev/md0 2>&1
    linnapp faults detach bad
    losetup -d $bad $good
    rm /run/below/*-$name
done
"""


#: Script, and the size of the NVMe drive in sizes of the loop device.
ON = {"loop device": (ON_EXT4, 2), "mirror": (ON_RAID1, 3)}


@pytest.mark.parametrize(
    "blocks", [FEW_BLOCKS, pytest.param(THESIS_BLOCKS, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("on", ON)
def test_rules_damage_the_stated_blocks_and_one_mirror_only(
    kernel: DebianKernel, tmp_path: Path, on: str, blocks: int
) -> None:
    """With all blocks of the thesis, this is its table."""
    write_thesis_rules(tmp_path)
    script, n_sizes = ON[on]
    size_mb = blocks // 256 * 5 // 4 + 64
    script = PREPARE + script.format(
        size=f"{size_mb}M", blocks=blocks, helper=HELPER, names=" ".join(THESIS)
    )
    result = kernel.boot(script, tmp_path, n_drives=1, drive_mb=size_mb * n_sizes)
    for name in THESIS:
        check_thesis_rule(tmp_path, name, blocks)
        if on == "mirror":
            assert result.json(f"{name}.good")["damaged"] == 0


# There are 16 blocks of 4 KiB. Rules count some of them: read, late, unreadable, lost, with a tag.
EACH_FAULT = """
loop=$(looped image 64M)
linnapp faults attach $loop --name bad --seed 7
python3 - <<'PYTHON' >$OUT/found
import ctypes, json, mmap, os, subprocess, time
N, BLOCK = 16, 4096
disk = os.open("/dev/mapper/bad", os.O_RDWR | os.O_DIRECT)
buffer = mmap.mmap(-1, N * BLOCK)
found = {}
def rule(*settings, ranges=("0", str(8 * N))):
    message("add", "r", *settings)
    message("range", "r", *ranges)
    message("enable", "r")
def message(*words):
    command = ["dmsetup", "message", "bad", "0", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, (words, done.stderr)
    return done.stdout
def remove():
    words = message("list").split()
    message("remove", "r")
    return int(words[words.index("injected") + 1])
def fill(byte):
    buffer[:] = bytes([byte]) * len(buffer)
    assert os.pwrite(disk, buffer, 0) == len(buffer)
def blocks(byte):
    "Say which blocks differ from this byte."
    assert os.preadv(disk, [buffer], 0) == len(buffer)
    return [k for k in range(N) if set(buffer[k * BLOCK:(k + 1) * BLOCK]) != {byte}]

fill(1)
rule("op", "read", "count", "block", "frequency", "interval", "n", "5", "fault", "bit_flip",
     "offset", "4095", "bit", "7")
found["flipped"] = blocks(1)
found["last_byte"] = buffer[5 * BLOCK - 1]
found["hits"] = remove()
found["flipped_later"] = blocks(1)

rule("op", "write", "count", "block", "frequency", "all_after", "n", "13", "fault", "lost_write")
fill(2)
remove()
found["lost"] = blocks(2)
found["old"] = sorted({buffer[k * BLOCK] for k in found["lost"]})

# A lost part in the middle, with sectors that belong to no block of the rule.
fill(1)
rule("op", "write", "fault", "lost_write", ranges=("12", "24"))
fill(2)
remove()
blocks(2)
found["lost_sectors"] = [k for k in range(8 * N) if buffer[k * 512] != 2]

rule("op", "write", "count", "block", "fault", "zeros", ranges=("8", "8", "32", "1"))
fill(3)
remove()
found["zeros"] = blocks(3)
found["buffer_of_writer"] = None
rule("op", "write", "fault", "ones")
buffer[:] = bytes([9]) * len(buffer)
os.pwrite(disk, buffer, 0)
found["buffer_of_writer"] = sorted(set(buffer[:]))
remove()

rule("op", "read", "fault", "medium_error", ranges=("64", "8"))
try:
    os.preadv(disk, [buffer], 0)
except OSError as error:
    found["errno"] = error.errno
remove()

rule("op", "both", "fault", "delay", "latency_us", "300000")
for call in (os.pwrite, os.pread):
    start = time.monotonic()
    os.preadv(disk, [buffer], 0) if call is os.pread else os.pwrite(disk, buffer, 0)
    found[call.__name__] = time.monotonic() - start
remove()

rule("op", "read", "count", "request", "fault", "zeros", "tag", "100")
os.preadv(disk, [buffer], 0)
IOPRIO_SET, THIS_PROCESS, BEST_EFFORT = 251, 1, 2
ctypes.CDLL(None).syscall(IOPRIO_SET, THIS_PROCESS, 0, BEST_EFFORT << 13 | 100 << 3)
os.preadv(disk, [buffer], 0)
found["tagged"] = remove()
print(json.dumps(found))
PYTHON
refused() { if "$@" 2>>$OUT/refused; then echo "not refused: $*" >&2; exit 1; fi; }
refused dmsetup message bad 0 add r fault sometimes
refused dmsetup message bad 0 add r n 0
refused dmsetup message bad 0 add r size 5
refused dmsetup message bad 0 remove r
for k in $(seq 16); do dmsetup message bad 0 add r$k; done
refused dmsetup message bad 0 add r17
refused dmsetup message bad 0 add r1
refused dmsetup message bad 0 range r1 0 0
dmsetup message bad 0 enable r1
refused dmsetup message bad 0 range r1 0 8
dmsetup status bad >$OUT/status
linnapp faults remove /dev/mapper/bad
# On a device that is in use, and a device in use.
mkfs.ext4 -q /dev/mapper/bad
mount /dev/mapper/bad /run/mnt
refused linnapp faults detach bad
refused linnapp faults attach /dev/mapper/bad --name worse
refused linnapp faults attach $loop --name worse
refused linnapp faults attach /dev/nvme0n1 --name worse
refused linnapp faults attach /run/below/image --name worse
umount /run/mnt
linnapp faults detach bad
"""


def test_each_fault_damages_what_its_rule_says(kernel: DebianKernel, tmp_path: Path) -> None:
    result = kernel.boot(PREPARE + EACH_FAULT, tmp_path, n_drives=1, drive_mb=256)
    found = result.json("found")
    assert found["flipped"] == [4, 9, 14] and found["hits"] == 3
    assert found["last_byte"] == 1 ^ 1 << 7
    assert found["flipped_later"] == []
    assert found["lost"] == [13, 14, 15] and found["old"] == [1]
    assert found["lost_sectors"] == list(range(12, 36))
    assert found["zeros"] == [1, 4]
    assert found["buffer_of_writer"] == [9]
    assert found["errno"] == 61
    assert found["pwrite"] > 0.3 and found["pread"] > 0.3
    assert found["tagged"] == 1
    assert result.words("status")[-2:] == ["16", "rules"]
    for message in ("fault: no such value", "n: must be 1 to", "size: no such setting"):
        assert f"rule/{message}" in result.dmesg
    for message in (
        "bad: is in use, by 1 openers; unmount it",
        "/dev/mapper/bad: is mounted on /run/mnt; unmount it first",
        "is part of dm-0; stop dm-0 first",
        "/dev/nvme0n1: is mounted on /run/below; unmount it first",
        "/run/below/image: not a block device; `losetup",
    ):
        assert message in result.text("refused")


# Rules come and go, and the target is replaced, under a load that checks its data.
UNDER_LOAD = """
loop=$(looped image 128M)
linnapp faults attach $loop --name bad
fio --name=load --filename=/dev/mapper/bad --allow_file_create=0 --direct=1 --ioengine=io_uring \\
    --iodepth=16 --bsrange=4k-256k --bs_unaligned=0 --rw=randrw --size=96m --time_based \\
    --runtime=900 --numjobs=2 >/dev/null 2>&1 &
load=$!
for round in $(seq 20); do
    for fault in delay bit_flip zeros lost_write; do
        dmsetup message bad 0 add $fault op both frequency interval n 7 count block fault $fault \\
            latency_us 2000
        dmsetup message bad 0 range $fault 0 8192 10000 77
        dmsetup message bad 0 enable $fault
    done
    sleep 0.2
    dmsetup message bad 0 list >>$OUT/rules
    for fault in delay bit_flip zeros lost_write; do dmsetup message bad 0 remove $fault; done
done
kill -INT $load
wait $load || true
linnapp faults detach bad
losetup -d $loop
rmmod dm-linnos-faults
"""


def test_rules_come_and_go_under_load(kernel: DebianKernel, tmp_path: Path) -> None:
    result = kernel.boot(PREPARE + UNDER_LOAD, tmp_path, n_drives=1, drive_mb=256)
    injected = [int(line.split()[-1]) for line in result.text("rules").splitlines()]
    assert len(injected) == 80 and sum(count > 0 for count in injected) > 40
