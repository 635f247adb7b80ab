# SPDX-License-Identifier: MIT
"""The replayer refuses to overwrite files and drives that have data or are in use."""

from __future__ import annotations

import ctypes
import json
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from replaying import BLOCK, mixed_ios, replay, summary, write_trace

SOURCE = Path(__file__).parents[2] / "replayer"


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
        (ext4, "a file system (ext4)"),
        (damaged_ext4, "a file system (ext"),
        (xfs, "a file system (xfs)"),
        (swap, "(swap)"),
        (partition_table, "a partition table (dos)"),
        (lvm, "a member of RAID or LVM (LVM2_member)"),
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
    ran = replay(*options, status=1)
    assert str(drives[1]) in ran.stderr and kind in ran.stderr and "--force" in ran.stderr
    assert kind in replay(*options, "--force", str(drives[0]), status=1).stderr
    assert drives[1].read_bytes() == before
    assert not any(drives[0].read_bytes()), "nothing was written before the refusal"
    replay(*options, "--force", str(drives[1]))
    assert drives[1].read_bytes() != before


def test_force_names_drives_of_the_command_line(drives: list[Path], trace: Path) -> None:
    ran = replay(drives, [trace], "baseline", "--force", "/dev/other", status=1)
    assert "/dev/other: not one of --devices" in ran.stderr


def test_content_is_ours_recognises_only_replayed_blocks(
    tmp_path: Path, drives: list[Path]
) -> None:
    """Thus a replayed block that happens to look like a signature does not stop the next replay."""
    library = tmp_path / "content.so"
    sources = [f"{SOURCE}/{name}.c" for name in ("drive/content", "drive/sparse", "error")]
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", f"-I{SOURCE}", "-o", library,
                    *sources], check=True)  # fmt: skip
    is_ours = ctypes.CDLL(str(library)).content_is_ours
    is_ours.restype = ctypes.c_bool
    trace = write_trace(tmp_path / "t", [(0, "write", 0, 1 << 20)] * 2)
    for seed in range(5):
        replay(drives, [trace], "baseline", "--spread", "--seed", str(seed))
        for drive in drives[:2]:
            written = drive.read_bytes()[: 1 << 20]
            for at in range(0, len(written), BLOCK):
                assert is_ours(written[at : at + BLOCK])
    block = bytearray(written[:BLOCK])
    assert not is_ours(bytes(BLOCK))
    assert not is_ours(os.urandom(BLOCK))
    for byte in (8, 1080, BLOCK - 1):
        changed = bytearray(block)
        changed[byte] ^= 1
        assert not is_ours(bytes(changed))


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
        ran = replay(drives, [trace], "baseline", "--force", str(drives[2]), status=1)
        process.communicate()
    assert f"{drives[2]}: in use: process {process.pid}" in ran.stderr
    replay(drives, [trace], "baseline")


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A loop device and its file."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    if os.geteuid() or not Path("/dev/loop-control").exists():
        pytest.skip("loop devices need root; the same is tested in the lab")
    made = subprocess.run(
        ["/sbin/losetup", "--find", "--show", "--partscan", image], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"no loop device here: {made.stderr.strip()}; the same is tested in the lab")
    device = Path(made.stdout.strip())
    yield device, image
    subprocess.run(["/sbin/losetup", "--detach", device], check=True)


def test_a_loop_device_is_replayed_and_its_file_is_not(
    loop: tuple[Path, Path], trace: Path
) -> None:
    device, image = loop
    replay([device], [trace], "baseline")
    replay([device], [trace], "baseline")
    ran = replay([image], [trace], "baseline", "--force", str(image), status=1)
    assert f"the backing file of {device}" in ran.stderr


def test_a_mounted_drive_is_refused_but_may_be_read(
    tmp_path: Path, loop: tuple[Path, Path], trace: Path
) -> None:
    device, image = loop
    ext4(device)
    assert "a file system (ext4)" in replay([device], [trace], "baseline", status=1).stderr
    folder = tmp_path / "mounted"
    folder.mkdir()
    mounted = subprocess.run(["mount", device, folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no mounting here: {mounted.stderr.strip()}; the same is tested in the lab")
    try:
        for drive in (device, image):
            ran = replay([drive], [trace], "baseline", "--force", str(drive), status=1)
            assert f"{drive}: in use" in ran.stderr
        replay([device], [trace], "baseline", "--readonly")
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_partition_in_use_guards_its_whole_disk(
    tmp_path: Path, loop: tuple[Path, Path], trace: Path
) -> None:
    device, image = loop
    partition_table(image)
    subprocess.run(["/sbin/blockdev", "--rereadpt", device], check=True)
    number = Path(f"/sys/block/{device.name}/{device.name}p1/dev")
    if not number.exists():
        pytest.skip("no partitions on loop devices here; the same is tested in the lab")
    major, minor = (int(part) for part in number.read_text().split(":"))
    partition = tmp_path / "partition"
    os.mknod(partition, stat.S_IFBLK | 0o600, os.makedev(major, minor))
    for drives, known in (([device], "partition table (dos)"), ([partition], None)):
        ran = replay(drives, [trace], "baseline", status=1 if known else 0)
        assert known is None or known in ran.stderr
    ran = replay([device, partition], [trace], "baseline", status=1)
    assert "or one is a part of the other" in ran.stderr
    for held, drive in ((partition, device), (device, partition)):
        with holder(held, "os.O_RDONLY") as process:
            ran = replay([drive], [trace], "baseline", "--force", str(drive), status=1)
            process.communicate()
        assert f"{drive}: in use: process {process.pid}" in ran.stderr
    with holder(partition, "os.O_RDONLY | os.O_NONBLOCK") as process:
        replay([partition], [trace], "baseline")
        process.communicate()


def test_readonly_reads_and_leaves_writes_out(tmp_path: Path, drives: list[Path]) -> None:
    ios = mixed_ios(300, 3)
    writes = sum(action == "write" for _, action, _, _ in ios)
    for drive in drives:
        ext4(drive)
        drive.chmod(0o444)
    before = [drive.read_bytes() for drive in drives]
    out = tmp_path / "o.json"
    ran = replay(drives, [write_trace(tmp_path / "t", ios)], "random", "--readonly",
                 "--json", str(out))  # fmt: skip
    found = summary(out)
    assert [drive.read_bytes() for drive in drives] == before
    assert (found["reads"], found["writes"]) == (300 - writes, 0)
    assert found["writes_left_out"] == writes > 0
    assert found["prefill_blocks"] == found["data_errors"] == 0
    assert found["unverified_blocks"] > 0 == found["blocks_checked"]
    assert "compared" not in ran.stdout.replace("is not compared", "")
    assert found["config"]["readonly"] is True
    assert f"{writes} writes of the traces were left out" in ran.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prefill", "touched"], "--prefill writes"),
        (["--force", "drive0"], "--force"),
    ],
)
def test_readonly_with_a_writing_option_is_an_error(
    drives: list[Path], trace: Path, options: list[str], message: str
) -> None:
    assert message in replay(drives, [trace], "baseline", "--readonly", *options, status=1).stderr


def test_readonly_with_a_trace_of_writes_has_nothing_to_do(
    tmp_path: Path, drives: list[Path]
) -> None:
    trace = write_trace(tmp_path / "t", [(0, "write", 0, BLOCK)] * 3)
    assert "3 writes are left out" in replay(drives, [trace], "baseline", "--readonly",
                                             status=1).stderr  # fmt: skip


@pytest.mark.parametrize("option", ["--json", "--log"])
class TestOutputs:
    def refused(self, drives: list[Path], trace: Path, *options: str) -> str:
        before = [drive.read_bytes() for drive in drives], trace.read_bytes()
        stderr = replay(drives, [trace], "baseline", *options, status=1).stderr
        assert ([drive.read_bytes() for drive in drives], trace.read_bytes()) == before
        return stderr

    def test_device_node(
        self, tmp_path: Path, drives: list[Path], trace: Path, option: str
    ) -> None:
        # A rename would replace the device node, so a pipe stands in for it.
        node = tmp_path / "node"
        os.mkfifo(node)
        assert "a device node, pipe" in self.refused(drives, trace, option, str(node))
        assert node.is_fifo()

    def test_symbolic_link(
        self, tmp_path: Path, drives: list[Path], trace: Path, option: str
    ) -> None:
        link = tmp_path / "link"
        link.symlink_to(tmp_path / "elsewhere")
        assert "a symbolic link" in self.refused(drives, trace, option, str(link))
        assert link.is_symlink() and not (tmp_path / "elsewhere").exists()

    def test_link_where_the_unfinished_file_goes(
        self, tmp_path: Path, drives: list[Path], trace: Path, option: str
    ) -> None:
        (tmp_path / "precious").write_text("x")
        (tmp_path / "o.new").symlink_to(tmp_path / "precious")
        assert "o.new: it is a symbolic" in self.refused(drives, trace, option, str(tmp_path / "o"))
        assert (tmp_path / "precious").read_text() == "x"

    def test_folder(self, tmp_path: Path, drives: list[Path], trace: Path, option: str) -> None:
        assert "a folder" in self.refused(drives, trace, option, str(tmp_path))

    def test_drive_under_another_name(
        self, tmp_path: Path, drives: list[Path], trace: Path, option: str
    ) -> None:
        (tmp_path / "alias").hardlink_to(drives[1])
        message = self.refused(drives, trace, option, str(tmp_path / "alias"))
        assert f"it is the drive {drives[1]}" in message

    def test_trace_under_another_name(
        self, tmp_path: Path, drives: list[Path], trace: Path, option: str
    ) -> None:
        (tmp_path / "alias").hardlink_to(trace)
        message = self.refused(drives, trace, option, str(tmp_path / "alias"))
        assert f"it is the trace {trace}" in message

    def test_another_cpus_file_of_the_trace(
        self, tmp_path: Path, drives: list[Path], option: str
    ) -> None:
        trace = tmp_path / "r.blktrace.0"
        trace.write_bytes(b"")
        (tmp_path / "r.blktrace.1").write_bytes(b"")
        message = self.refused(drives, trace, option, str(tmp_path / "r.blktrace.1"))
        assert "it is the trace" in message

    def test_regular_file_is_replaced(
        self, tmp_path: Path, drives: list[Path], trace: Path, option: str
    ) -> None:
        out, other = tmp_path / "o", tmp_path / "other"
        out.write_text("old")
        other.hardlink_to(out)
        replay(drives, [trace], "baseline", option, str(out))
        assert out.read_bytes() != b"old" and other.read_bytes() == b"old"


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
    ran = replay(drives, [trace], "baseline", "--json", f"{tmp_path}/{json_name}",
                 "--log", f"{tmp_path}/{log_name}", status=1)  # fmt: skip
    assert "are the same file" in ran.stderr
    assert not any(drive.read_bytes().strip(b"\0") for drive in drives)


def test_drive_given_as_trace_or_profile_is_refused(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    assert "it is the trace" in replay([trace], [trace], "baseline", status=1).stderr
    ran = replay(drives, [trace], "hedge", "--profile", str(drives[0]), status=1)
    assert f"{drives[0]}: it is the --profile" in ran.stderr


def test_settings_of_safety_are_in_the_record(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    ext4(drives[0])
    out = tmp_path / "o.json"
    replay(drives, [trace], "baseline", "--force", str(drives[0]), "--json", str(out))
    config = json.loads(out.read_text())["config"]
    assert config["force"] == [str(drives[0])] and config["readonly"] is False
