# SPDX-License-Identifier: MIT
"""Recorded hashes are XXH64 of the contents, and requests of io_uring are recorded like calls."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from running import run

from linnapp.insight.query import query

MASK = 2**64 - 1
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & MASK


def mixed(lane: int, part: int) -> int:
    return rotated((lane + part * P2) & MASK, 31) * P1 & MASK


def xxh64(data: bytes) -> str:
    """Return XXH64 with seed 0, computed as its specification says."""
    if len(data) >= 32:
        lanes = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        for at in range(0, len(data) // 32 * 32, 32):
            parts = struct.unpack_from("<4Q", data, at)
            lanes = [mixed(lane, part) for lane, part in zip(lanes, parts, strict=True)]
        value = sum(rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            value = ((value & MASK) ^ mixed(0, lane)) * P1 + P4
    else:
        value = P5
    value = (value + len(data)) & MASK
    rest = data[len(data) // 32 * 32 :]
    while len(rest) >= 8:
        value = (rotated(value ^ mixed(0, struct.unpack("<Q", rest[:8])[0]), 27) * P1 + P4) & MASK
        rest = rest[8:]
    if len(rest) >= 4:
        part = struct.unpack("<I", rest[:4])[0]
        value = (rotated(value ^ part * P1 & MASK, 23) * P2 + P3) & MASK
        rest = rest[4:]
    for byte in rest:
        value = rotated(value ^ byte * P5 & MASK, 11) * P1 & MASK
    value = (value ^ value >> 33) * P2 & MASK
    value = (value ^ value >> 29) * P3 & MASK
    return f"{value ^ value >> 32:016x}"


def test_reference_has_the_published_values() -> None:
    assert xxh64(b"") == "ef46db3751d8e999"
    assert xxh64(b"a") == "d24ec4f1a98c6e5b"
    assert xxh64(b"abc") == "44bc2cf5ad770999"


SIZES = (*range(1, 70), 100, 255, 256, 257, 1000, 4096, 65535, 65536, 65537, 200_000)
#: Writes contents of the given sizes in one part and in three, and reads them in one and in two.
PROGRAM = """
import os, random, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
random.seed(1)
for size in map(int, sys.argv[2:]):
    content = random.randbytes(size)
    os.pwrite(fd, content, 0)
    os.pread(fd, size, 0)
    os.writev(fd, [content[:1], content[1:3], content[3:]])
    os.lseek(fd, 0, 0)
    os.readv(fd, [bytearray(size // 2), bytearray(size - size // 2)])
    os.lseek(fd, 0, 0)
"""


def test_hashes_of_calls_are_those_of_their_contents(can_watch: None, tmp_path: Path) -> None:
    path, seen = tmp_path / "file", tmp_path / "seen"
    program = (sys.executable, "-S", "-E", "-c", PROGRAM, path, *SIZES)
    result = run("watch", "--hash", "--json", "-o", seen, "--path", path, "--", *program)
    assert result.exit_code == 0, (result.output, result.exception)
    random.seed(1)
    expected = [
        (call, size, xxh64(content[:65536]), min(size, 65536))
        for size in SIZES
        for content in [random.randbytes(size)]
        for call in ("pwrite64", "pread64", "writev", "readv")
    ]
    sql = "select call, result, content_hash, hashed_bytes from calls where result > 0 and call in "
    found = list(query(seen, sql + "('pwrite64', 'pread64', 'writev', 'readv')")[1])
    assert found == expected
    without = run("watch", "-o", tmp_path / "plain", "--path", path, "--", *program)
    assert without.exit_code == 0
    [[n]] = query(tmp_path / "plain", "select count(content_hash) from calls")[1]
    assert n == 0


SOURCE = Path(__file__).parent / "watched_programs" / "ring_requests.c"


@pytest.fixture(scope="module")
def program(can_watch: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "ring_requests"
    subprocess.run(["cc", "-O2", "-Wall", "-o", path, SOURCE, "-luring"], check=True)
    if subprocess.run(
        [path, path.parent / "file"], check=False, stdout=subprocess.DEVNULL
    ).returncode:
        pytest.skip("this machine does not allow io_uring")
    return path


@pytest.mark.parametrize("mode", [(), ("sqpoll",)], ids=["submitted", "polled"])
def test_requests_are_rows_like_system_calls(
    program: Path, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    seen, file, output = tmp_path / "seen", tmp_path / "file", tmp_path / "said"
    with output.open("w") as out:
        status = subprocess.Popen([program, file, *mode], stdout=out).wait()
        assert status == 0
    expected = [line.split() for line in output.read_text().splitlines()]
    file.unlink()
    result = run("watch", "--hash", "-o", seen, "--", program, file, *mode)
    assert result.exit_code == 0, (result.output, result.exception)
    sql = """select call, coalesce(file_offset, -1), bytes, result, path, content_hash,
        on_cpu_ns is null, starts_with(process, 'iou-sqp') from calls
        where call like 'io_uring_%' and call <> 'io_uring_enter' order by time_ns"""
    found = list(query(seen, sql)[1])
    assert len(found) == len(expected) == 10
    for row, (name, offset, n_bytes, returned) in zip(found, expected, strict=True):
        call, file_offset, asked, got, path, content, has_no_parts, is_polled = row
        assert (call, got) == (name, int(returned))
        if "sync" in name:
            assert (file_offset, asked) == (-1, None)
        else:
            assert (file_offset, asked) == (int(offset), int(n_bytes))
        assert path == (None if got == -9 else str(file))
        # All contents repeat one letter. The contents of vectors are not hashed.
        is_hashed = got > 0 and not name.endswith("v")
        assert content == (xxh64(b"x" * got) if is_hashed else None)
        assert has_no_parts and is_polled == bool(mode)


def test_filters_apply_to_requests(program: Path, tmp_path: Path) -> None:
    def calls(name: str, *options: object) -> list[str]:
        seen = tmp_path / name
        result = run("watch", "-o", seen, *options, "--", program, tmp_path / "file")
        assert result.exit_code == 0, (result.output, result.exception)
        return [call for (call,) in query(seen, "select call from calls order by time_ns")[1]]

    assert calls("one", "--call", "io_uring_fsync") == ["io_uring_fsync"]
    in_path = calls("path", "--path", tmp_path / "file")
    assert in_path.count("io_uring_read") == 2 and "io_uring_enter" not in in_path
    assert not calls("other", "--path", os.devnull)
    assert not calls("thread", "--call", "io_uring_read", "--thread", "absent")
