# SPDX-License-Identifier: MIT
"""The replayer refuses to overwrite files and drives that have data or are in use."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from replaying import BLOCK, mixed_ios, replay, summary, write_trace


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "t", [(0, "read", 0, BLOCK), (0, "write", BLOCK, BLOCK)])


def ext4(path: Path) -> None:
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", path], check=True)


def xfs(path: Path) -> None:
    os.truncate(path, 512 << 20)
    subprocess.run(["/sbin/mkfs.xfs", "-q", "-f", path], check=True)


def swap(path: Path) -> None:
    subprocess.run(["/sbin/mkswap", path], check=True, capture_output=True)


def partition_table(path: Path) -> None:
    entry = struct.pack("<B3sB3sII", 0, b"\0\0\0", 0x83, b"\0\0\0", 2048, 4096)
    with path.open("r+b") as file:
        file.seek(446)
        file.write(entry + bytes(48) + b"\x55\xaa")


def lvm(path: Path) -> None:
    """Return a physical volume's label; its checksum is wrong, but it may still be in use."""
    label = struct.pack("<8sQII8s32s", b"LABELONE", 1, 0, 32, b"LVM2 001", b"x" * 32)
    with path.open("r+b") as file:
        file.seek(512)
        file.write(label)


def damaged_ext4(path: Path) -> None:
    ext4(path)
    with path.open("r+b") as file:
        file.seek(1024 + 120)  # the volume's name: the checksum is wrong now
        file.write(b"damaged")


SIGNATURES = {
    make.__name__: (make, kind)
    for make, kind in (
        (ext4, "(ext4)"),
        (damaged_ext4, "(ext"),
        (xfs, "(xfs)"),
        (swap, "(swap)"),
        (partition_table, "(dos)"),
        (lvm, "(LVM2_member)"),
    )
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_is_refused_unless_forced_by_name(
    drives: list[Path], trace: Path, name: str
) -> None:
    make, kind = SIGNATURES[name]
    make(drives[1])
    before = drives[1].read_bytes()
    options = (drives, [trace], "baseline", "--spread")
    result = replay(*options, status=1)
    assert str(drives[1]) in result.stderr and kind in result.stderr and "--force" in result.stderr
    assert kind in replay(*options, "--force", str(drives[0]), status=1).stderr
    assert drives[1].read_bytes() == before
    assert not any(drives[0].read_bytes()), "nothing was written before the refusal"
    replay(*options, "--force", str(drives[1]))
    assert drives[1].read_bytes() != before


def holder(path: Path, flags: str) -> subprocess.Popen[str]:
    """Run another process with the file open."""
    script = f"import os, sys; os.open({str(path)!r}, {flags}); print(flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize("flags", ["os.O_RDWR", "os.O_RDONLY"])
def test_a_drive_open_in_another_process_is_refused_even_by_force(
    drives: list[Path], trace: Path, flags: str
) -> None:
    with holder(drives[2], flags) as process:
        result = replay(drives, [trace], "baseline", "--force", str(drives[2]), status=1)
        process.communicate()
    assert f"{drives[2]}: in use: process {process.pid}" in result.stderr
    replay(drives, [trace], "baseline")


def test_the_backing_file_of_a_loop_device_is_refused(tmp_path: Path, trace: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(bytes(16 << 20))
    losetup = subprocess.run(
        ["/sbin/losetup", "--find", "--show", image], capture_output=True, text=True, check=False
    )
    if losetup.returncode:
        pytest.skip(f"no loop device here: {losetup.stderr.strip()}")
    device = losetup.stdout.strip()
    try:
        replay([Path(device)], [trace], "baseline")
        result = replay([image], [trace], "baseline", "--force", str(image), status=1)
        assert f"the backing file of {device}" in result.stderr
        # sysfs has a path that no longer leads to the file
        other = tmp_path / "other"
        other.hardlink_to(image)
        image.unlink()
        assert f"of {device}" in replay([other], [trace], "baseline", status=1).stderr
    finally:
        subprocess.run(["/sbin/losetup", "--detach", device], check=True)


def test_readonly_reads_and_leaves_writes_out(tmp_path: Path, drives: list[Path]) -> None:
    ios = mixed_ios(300, 3)
    writes = sum(action == "write" for _, action, _, _ in ios)
    for drive in drives:
        ext4(drive)
        drive.chmod(0o444)
    before = [drive.read_bytes() for drive in drives]
    out = tmp_path / "o.json"
    result = replay(drives, [write_trace(tmp_path / "t", ios)], "random", "--readonly",
                 "--json", str(out))  # fmt: skip
    found = summary(out)
    assert [drive.read_bytes() for drive in drives] == before
    assert (found["reads"], found["writes"]) == (300 - writes, 0)
    assert found["writes_left_out"] == writes > 0
    assert found["prefill_blocks"] == found["data_errors"] == 0
    assert found["unverified_blocks"] > 0 == found["blocks_checked"]
    assert "compared" not in result.stdout.replace("is not compared", "")
    assert found["config"]["readonly"] is True
    assert f"{writes} writes of the traces were left out" in result.stdout


@pytest.mark.parametrize("option", ["--json", "--log"])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        # in place of a device node, which a rename would replace
        (lambda out, *_: os.mkfifo(out), "a device node, pipe"),
        (lambda out, *_: out.symlink_to(out.with_name("elsewhere")), "a symbolic link"),
        (lambda out, *_: out.with_name("out.new").symlink_to("elsewhere"), "out.new: it is a symb"),
        (lambda out, *_: out.mkdir(), "a folder"),
        (lambda out, drive, _: out.hardlink_to(drive), "it is the drive {drive}"),
        (lambda out, _, trace: out.hardlink_to(trace), "it is the trace {trace}"),
    ],
)
def test_output_that_is_no_file_of_its_own_is_refused_and_unchanged(
    tmp_path: Path,
    drives: list[Path],
    trace: Path,
    make: Callable[[Path, Path, Path], None],
    message: str,
    option: str,
) -> None:
    out = tmp_path / "out"
    make(out, drives[1], trace)
    before = [path.read_bytes() for path in (*drives, trace)], sorted(tmp_path.iterdir())
    kind = [(path.is_symlink(), path.is_fifo()) for path in before[1]]
    refused = replay(drives, [trace], "baseline", option, str(out), status=1).stderr
    assert message.format(drive=drives[1], trace=trace) in refused
    assert ([path.read_bytes() for path in (*drives, trace)], sorted(tmp_path.iterdir())) == before
    assert [(path.is_symlink(), path.is_fifo()) for path in before[1]] == kind


@pytest.mark.parametrize("option", ["--json", "--log"])
def test_output_replaces_a_regular_file_but_not_another_cpus_file_of_the_trace(
    tmp_path: Path, drives: list[Path], trace: Path, option: str
) -> None:
    out, other = tmp_path / "o", tmp_path / "other"
    out.write_text("old")
    other.hardlink_to(out)
    replay(drives, [trace], "baseline", option, str(out))
    assert out.read_bytes() != b"old" and other.read_bytes() == b"old"
    cpus = [tmp_path / f"r.blktrace.{cpu}" for cpu in range(2)]
    for path in cpus:
        path.touch()
    refused = replay(drives, cpus[:1], "baseline", option, str(cpus[1]), status=1).stderr
    assert "it is the trace" in refused and not cpus[1].read_bytes()


@pytest.mark.parametrize(
    ("json_name", "log_name"),
    [("o", "o"), ("o", "sub/../o"), ("o.new", "o"), ("o", "o.new"), ("first", "second")],
)
def test_json_and_log_must_be_two_files(
    tmp_path: Path, drives: list[Path], trace: Path, json_name: str, log_name: str
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "first").write_text("")
    (tmp_path / "second").hardlink_to(tmp_path / "first")
    result = replay(drives, [trace], "baseline", "--json", f"{tmp_path}/{json_name}",
                 "--log", f"{tmp_path}/{log_name}", status=1)  # fmt: skip
    assert "are the same file" in result.stderr
    assert not any(drive.read_bytes().strip(b"\0") for drive in drives)
