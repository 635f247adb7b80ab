# SPDX-License-Identifier: MIT
"""Every command and the replayer read compressed traces as if they were not compressed."""

from __future__ import annotations

import bz2
import gzip
import json
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
from replaying import BLOCK, make_drives, replay, summary, write_trace

from linnapp.cli import cli
from linnapp.errors import TraceError
from linnapp.trace import packed
from linnapp.trace.blktrace import BlktraceReader
from linnapp.trace.reads import digest, drive_name, load

ROOT = Path(__file__).parents[2]
PACKED = ROOT / "traces" / "recorded" / "fio.blk.xz"
MODEL = ROOT / "models" / "example" / "latency" / "flash0.linnos"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A recording, plain and compressed."""
    folder = tmp_path_factory.mktemp("recording")
    plain = folder / "fio.blk"
    plain.write_bytes(lzma.decompress(PACKED.read_bytes()))
    return plain, PACKED


def said(*command: str) -> str:
    """Return the output of a command without the recording's name."""
    ran = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    shown = ran.output
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
    plain, same = (said(*command, str(path)) for path in both)
    assert same.replace("fio.blk.xz", "fio.blk") == plain
    assert len(plain) > 100


def test_evaluate_recognises_the_training_trace_packed_or_not(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    """Older records contain the hash of the compressed file; they are recognised, too."""
    plain, same = both
    model = tmp_path / "fio.linnos"
    model.write_bytes(MODEL.read_bytes())
    other = tmp_path / "other.blk.xz"
    other.write_bytes(lzma.compress(plain.read_bytes()[:-48]))
    own = load(plain).sha256
    assert load(same).sha256 == own != load(other).sha256
    for taught_by, known in ((own, (plain, same)), (digest([same]), (same,))):
        model.with_suffix(".json").write_text(json.dumps({"trace": {"sha256": taught_by}}))
        for path in (plain, same, other):
            found = json.loads(
                said("evaluate", "--json", "--model", str(model), "--trace", str(path))
            )
            assert found["trained_on_this_trace"] is (path in known)


def test_convert_writes_the_same_file_packed_or_not(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    outs = []
    out = tmp_path / "out.iolog"
    for path in both:
        said("convert", str(path), str(out))
        outs.append(out.read_bytes())
    assert outs[0] == outs[1]
    assert outs[0].count(b"\n") > 1000


def test_packed_trace_has_the_drive_name_and_the_unpacked_size(both: tuple[Path, Path]) -> None:
    plain, same = both
    assert drive_name(same) == drive_name(plain) == "fio"
    assert BlktraceReader(same).size_bytes == plain.stat().st_size
    assert load(same).name == "fio.blk.xz"


def test_unpacked_file_is_cached_until_the_trace_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.blk.xz"
    path.write_bytes(lzma.compress(b"one"))
    first = packed.unpacked(path)
    assert packed.unpacked(path) == first and first.read_bytes() == first.read_bytes() == b"one"
    path.write_bytes(lzma.compress(b"another"))
    assert packed.unpacked(path).read_bytes() == b"another"


def pack_zstd(data: bytes) -> bytes:
    ran = subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True)
    return ran.stdout


#: of each packing, by the end of its files' names, how a test packs
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": pack_zstd,
    ".bz2": bz2.compress,
}
EACH_PACKING = pytest.mark.parametrize("suffix", PACKERS)


def needs_program_of(suffix: str) -> None:
    """Skip if the program for a compression is missing."""
    if suffix == ".zst" and shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")


def pack(path: Path, suffix: str) -> Path:
    """Compress a file and remove the original."""
    packed_path = path.with_name(path.name + suffix)
    packed_path.write_bytes(PACKERS[suffix](path.read_bytes()))
    path.unlink()
    return packed_path


def replayed_ios(trace: Path, drives: list[Path], *options: str) -> tuple[int, int]:
    """Replay a trace; return the number of reads and writes."""
    out = trace.parent / "replayed.json"
    replay(drives, [trace], "baseline", "--json", str(out), "--saturate", *options)
    found = summary(out)
    return found["reads"], found["writes"]


def small_recording() -> TraceBuilder:
    """Return twelve reads of three CPUs."""
    trace = TraceBuilder()
    for i in range(12):
        trace.io(i * 100, i * 100 + 80, i * 8, cpu=i % 3)
    return trace.sort()


@EACH_PACKING
def test_packed_recording_is_read_by_linnapp_and_replayer(suffix: str, tmp_path: Path) -> None:
    needs_program_of(suffix)
    path = pack(small_recording().write(tmp_path / "d.blk"), suffix)
    assert load(path).stats["reads"] == 12
    assert drive_name(path) == "d"
    assert replayed_ios(path, make_drives(tmp_path)) == (12, 0)


def test_packed_iolog_is_read_by_linnapp_and_replayer(tmp_path: Path) -> None:
    ios = [(i, "read" if i % 2 else "write", i * BLOCK, BLOCK) for i in range(10)]
    path = pack(write_trace(tmp_path / "t.iolog", ios), ".xz")
    assert "5 reads, 5 writes" in said("inspect", str(path))
    # A loop reads the trace from its start again.
    assert replayed_ios(path, make_drives(tmp_path), "--loops", "3") == (15, 15)


def test_packing_is_known_by_contents_when_the_name_does_not_say(tmp_path: Path) -> None:
    path = small_recording().write(tmp_path / "d.blk")
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert load(path).stats["reads"] == 12


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


def test_replayer_reads_recording_whose_first_file_is_empty(tmp_path: Path) -> None:
    small_recording().write_per_cpu(tmp_path / "x")
    (tmp_path / "x.blktrace.0").write_bytes(b"")
    assert load(tmp_path / "x").stats["reads"] == 8
    assert replayed_ios(tmp_path / "x", make_drives(tmp_path)) == (8, 0)


def test_file_that_is_there_packed_and_plain_is_read_once(tmp_path: Path) -> None:
    small_recording().write_per_cpu(tmp_path / "x")
    plain = tmp_path / "x.blktrace.1"
    packed_path = plain.with_name(plain.name + ".gz")
    packed_path.write_bytes(gzip.compress(plain.read_bytes()))
    assert load(tmp_path / "x").files[1] == plain.name
    assert load(packed_path).files[1] == packed_path.name
    assert load(tmp_path / "x").stats["reads"] == 12


@pytest.mark.parametrize(
    ("name", "contents", "words"),
    [
        ("a.blk.xz", b"no xz", "the name ends in"),
        ("a.blk.gz", b"", "the name ends in"),
        ("a.blk.xz", lzma.compress(b"x" * 5000)[:-20], "xz: .*[Uu]nexpected end"),
        ("a.blk.gz", gzip.compress(os.urandom(5000))[:-900], "gzip: .*unexpected end"),
        ("a.blk.bz2", bz2.compress(os.urandom(5000))[:-900], "bzip2: .*"),
        ("a.zip", b"PK\x03\x04" + bytes(60), "is a .zip file, .*unzip"),
        ("a.7z", b"7z\xbc\xaf\x27\x1c" + bytes(60), "is a .7z file"),
        ("a.blk.lz4", b"\x04\x22\x4d\x18" + bytes(60), "is a .lz4 file"),
        ("a.blk.Z", b"\x1f\x9d" + bytes(60), "is a .Z file"),
        ("a.blk.gz", gzip.compress(gzip.compress(b"x")), "contains a .gz file"),
    ],
    ids=["text", "empty", "cut-xz", "cut-gz", "cut-bz2", "zip", "7z", "lz4", "Z", "twice"],
)
def test_damaged_or_unknown_packing_is_named(
    name: str, contents: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(contents)
    for read in (lambda: load(path), lambda: list(BlktraceReader(path))):
        with pytest.raises(TraceError, match=f"{name}: .*{words}"):
            read()
    ran = CliRunner().invoke(cli, ["inspect", str(path)])
    assert ran.exit_code != 0 and isinstance(ran.exception, TraceError)
    with pytest.raises(TraceError, match=f"{name}: .*{words}"):
        raise ran.exception
    ran_replay = replay(make_drives(tmp_path), [path], "baseline", status=1)
    assert name in ran_replay.stderr


def test_tar_archive_is_named(tmp_path: Path) -> None:
    small_recording().write(tmp_path / "d.blk")
    path = tmp_path / "d.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.USTAR_FORMAT) as archive:
        archive.add(tmp_path / "d.blk", "d.blk")
    with pytest.raises(TraceError, match=r"d\.tar\.gz: contains a \.tar file"):
        load(path)


def test_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.blk.gz"
    path.write_bytes(gzip.compress(b"x" * 100))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TraceError, match="packed with gzip, which is not installed"):
        load(path)


def test_folder_that_cannot_take_unpacked_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.blk.gz"
    path.write_bytes(gzip.compress(b"x" * 100))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    with pytest.raises(
        TraceError, match=r"none: No such file.*a\.blk\.gz is unpacked in this folder"
    ):
        load(path)


def test_an_error_within_names_the_packed_file(tmp_path: Path) -> None:
    path = tmp_path / "a.blk.xz"
    whole = lzma.decompress(PACKED.read_bytes())
    path.write_bytes(lzma.compress(whole[:5001]))
    with pytest.raises(TraceError) as raised:
        load(path)
    assert str(path) in str(raised.value) and "/proc/" not in str(raised.value)
