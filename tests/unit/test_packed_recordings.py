# SPDX-License-Identifier: MIT
"""Every command and the replayer read compressed traces as if they were not compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from blktrace_builder import TraceBuilder
from click.testing import CliRunner
from recorded_traces import unpack
from replaying import BLOCK, make_drives, replay, summary, write_trace

from linnapp.cli import cli
from linnapp.errors import TraceError
from linnapp.trace import blktrace
from linnapp.trace.blktrace import BlktraceReader
from linnapp.trace.reads import drive_name, load

ROOT = Path(__file__).parents[2]
PACKED = ROOT / "traces" / "recorded" / "fio.blk.xz"
MODEL = ROOT / "models" / "example" / "latency" / "flash0.linnos"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a recording, plain and compressed."""
    folder = tmp_path_factory.mktemp("recording")
    return unpack("fio", folder), PACKED


def output_of(*command: str) -> str:
    """Return the output of a command without the recording's name."""
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    shown = result.output
    for word in command:
        shown = shown.replace(word, "TRACE") if word.endswith((".blk", ".xz")) else shown
    return shown


@pytest.mark.parametrize(
    "command",
    [
        ("inspect",),
        ("layers",),
        ("explain", "--model", str(MODEL), "--slow", "--last", "3", "--trace"),
        ("label", "--trace"),
        ("evaluate", "--json", "--model", str(MODEL), "--trace"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_says_the_same(command: tuple[str, ...], both: tuple[Path, Path]) -> None:
    plain, same = (output_of(*command, str(path)) for path in both)
    assert same.replace("fio.blk.xz", "fio.blk") == plain
    assert len(plain) > 100


def test_unpacked_file_is_cached_until_the_trace_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.blk.xz"
    path.write_bytes(lzma.compress(b"one"))
    first = blktrace.unpacked(path)
    assert blktrace.unpacked(path) == first and first.read_bytes() == first.read_bytes() == b"one"
    path.write_bytes(lzma.compress(b"another"))
    assert blktrace.unpacked(path).read_bytes() == b"another"


def pack_zstd(data: bytes) -> bytes:
    result = subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True)
    return result.stdout


#: The compression functions of the tests, by the suffix of the packed file.
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": pack_zstd,
    ".bz2": bz2.compress,
}


def pack(path: Path, suffix: str) -> Path:
    """Compress a file and remove the original."""
    packed_path = path.with_name(path.name + suffix)
    packed_path.write_bytes(PACKERS[suffix](path.read_bytes()))
    path.unlink()
    return packed_path


def replayed_ios(trace: Path, drives: list[Path]) -> tuple[int, int]:
    """Replay a trace; return the number of reads and writes."""
    out = trace.parent / "replayed.json"
    replay(drives, [trace], "baseline", "--json", str(out))
    found = summary(out)
    return found["reads"], found["writes"]


def small_recording() -> TraceBuilder:
    """Return twelve reads of three CPUs."""
    trace = TraceBuilder()
    for i in range(12):
        trace.io(i * 100, i * 100 + 80, i * 8, cpu=i % 3)
    return trace.sort()


@pytest.mark.parametrize("suffix", PACKERS)
def test_packed_recording_is_read_by_linnapp_and_replayer(suffix: str, tmp_path: Path) -> None:
    if suffix == ".zst" and shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")
    path = pack(small_recording().write(tmp_path / "d.blk"), suffix)
    assert load(path).stats["reads"] == 12
    assert drive_name(path) == "d"
    assert replayed_ios(path, make_drives(tmp_path)) == (12, 0)
    # The packing is also detected by the contents.
    load(path.rename(tmp_path / "other"))


def test_packed_iolog_is_read_by_linnapp_and_replayer(tmp_path: Path) -> None:
    ios = [(i, "read" if i % 2 else "write", i * BLOCK, BLOCK) for i in range(10)]
    path = pack(write_trace(tmp_path / "t.iolog", ios), ".xz")
    assert "5 reads, 5 writes" in output_of("inspect", str(path))
    assert replayed_ios(path, make_drives(tmp_path)) == (5, 5)


def test_packed_and_plain_recordings_have_one_hash_size_and_drive_name(
    both: tuple[Path, Path],
) -> None:
    plain, same = both
    assert load(same).sha256 == load(plain).sha256
    assert drive_name(same) == drive_name(plain) == "fio"
    assert BlktraceReader(same).size_bytes == plain.stat().st_size


@pytest.mark.parametrize("named", ["x.blktrace.0.gz", "x.blktrace.1", "x.blktrace.2.xz", "x"])
def test_any_name_of_a_recording_finds_packed_files_of_all_cpus(named: str, tmp_path: Path) -> None:
    small_recording().write_per_cpu(tmp_path / "x")
    pack(tmp_path / "x.blktrace.0", ".gz")
    pack(tmp_path / "x.blktrace.2", ".xz")
    trace = tmp_path / named
    loaded = load(trace)
    assert loaded.stats["reads"] == 12
    assert loaded.files == ("x.blktrace.0.gz", "x.blktrace.1", "x.blktrace.2.xz")
    assert drive_name(trace) == "x"
    assert replayed_ios(trace, make_drives(tmp_path)) == (12, 0)


def test_file_that_is_there_packed_and_plain_is_read_once(tmp_path: Path) -> None:
    small_recording().write_per_cpu(tmp_path / "x")
    plain = tmp_path / "x.blktrace.1"
    packed_path = plain.with_name(plain.name + ".gz")
    packed_path.write_bytes(gzip.compress(plain.read_bytes()))
    assert load(tmp_path / "x").files[1] == plain.name
    assert load(packed_path).files[1] == packed_path.name
    assert load(tmp_path / "x").stats["reads"] == 12


def tar(content: bytes) -> bytes:
    packed_into = io.BytesIO()
    with tarfile.open(fileobj=packed_into, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(info := tarfile.TarInfo("d.blk"), io.BytesIO(content))
        assert not info.size
    return packed_into.getvalue()


UNREADABLE = [
    ("a.blk.xz", b"no xz", "the name ends in"),
    ("a.blk.gz", b"", "the name ends in"),
    ("b.blk.xz", lzma.compress(b"x" * 5000)[:-20], "xz: .*[Uu]nexpected end"),
    ("b.blk.gz", gzip.compress(os.urandom(5000))[:-900], "gzip: .*unexpected end"),
    ("a.blk.bz2", bz2.compress(os.urandom(5000))[:-900], "bzip2: .*"),
    ("a.zip", b"PK\x03\x04" + bytes(60), "is a .zip file, .*unzip"),
    ("a.7z", b"7z\xbc\xaf\x27\x1c" + bytes(60), "is a .7z file"),
    ("a.blk.lz4", b"\x04\x22\x4d\x18" + bytes(60), "is a .lz4 file"),
    ("a.blk.Z", b"\x1f\x9d" + bytes(60), "is a .Z file"),
    ("c.blk.gz", gzip.compress(gzip.compress(b"x")), "contains a .gz file"),
    ("d.tar.gz", tar(b""), r"contains a \.tar file"),
]


@pytest.mark.parametrize(("name", "contents", "words"), UNREADABLE, ids=[r[0] for r in UNREADABLE])
def test_damaged_or_unknown_packing_is_named(
    name: str, contents: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(contents)
    for read in (lambda: load(path), lambda: list(BlktraceReader(path))):
        with pytest.raises(TraceError, match=f"{name}: .*{words}"):
            read()
    result = CliRunner().invoke(cli, ["inspect", str(path)])
    assert result.exit_code != 0 and isinstance(result.exception, TraceError)
    with pytest.raises(TraceError, match=f"{name}: .*{words}"):
        raise result.exception
    ran_replay = replay(make_drives(tmp_path), [path], "baseline", status=1)
    assert name in ran_replay.stderr


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("PATH", "packed with gzip, which is not installed"),
        ("TMPDIR", r"none: No such file.*contents of .*a\.blk\.gz are written to this folder"),
    ],
)
def test_missing_program_or_folder_for_unpacking_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, words: str
) -> None:
    path = tmp_path / "a.blk.gz"
    path.write_bytes(gzip.compress(b"x" * 100))
    monkeypatch.setenv(variable, str(tmp_path / "none"))
    with pytest.raises(TraceError, match=words):
        load(path)
