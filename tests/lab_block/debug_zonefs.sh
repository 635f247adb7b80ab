# SPDX-License-Identifier: MIT
# zonefs looks into a zone when a read of it fails: its files refuse the hint.
. "$TESTS/lib.sh"

mnt=/run/mnt/fs
mkdir -p $mnt
# a superblock in the first of four conventional zones
null_disk nullb_z zoned=1 zone_size=4 zone_nr_conv=4 size=64
python3 - /dev/nullb_z <<'END' || fail "no superblock"
import struct, sys, zlib
block = bytearray(4096)
struct.pack_into("<II64s16sQIII", block, 0, 0x5A4F4653, 0, b"", b"u" * 16, 0, 0, 0, 0o640)
struct.pack_into("<I", block, 4, zlib.crc32(block) ^ 0xFFFFFFFF)
open(sys.argv[1], "r+b", buffering=0).write(block)
END
use_model nullb_z slow enforce
mount -t zonefs /dev/nullb_z $mnt || fail "mount zonefs"
refuses zonefs $mnt/cnv/0
dd if=/dev/zero of=$mnt/seq/0 bs=64k count=1 oflag=direct 2>/dev/null || fail "zonefs write"
refuses "zonefs, sequential" $mnt/seq/0
expect "zonefs, hints below" 0 "$(stat_of nullb_z latency_critical)"
sleep 1 # a ring lets go of its registered file some time after its process
umount $mnt || fail "umount zonefs"

expect_idle nullb_z
clean_log
