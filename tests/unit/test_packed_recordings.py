# SPDX-License-Identifier: MIT
"""Recordings packed with xz are read by every command that takes one, as if they were not."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
from click.testing import CliRunner

from linnapp.cli import cli
from linnapp.errors import TraceError
from linnapp.trace import packed
from linnapp.trace.blktrace import BlktraceReader
from linnapp.trace.recorded import digest, drive_name, load

ROOT = Path(__file__).parents[2]
PACKED = ROOT / "traces" / "recorded" / "fio.blk.xz"
MODEL = ROOT / "models" / "example" / "latency" / "flash0.linnos"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A recording as it is, and packed."""
    folder = tmp_path_factory.mktemp("recording")
    plain = folder / "fio.blk"
    plain.write_bytes(lzma.decompress(PACKED.read_bytes()))
    return plain, PACKED


def said(*command: str) -> str:
    """What a command prints, but for the recording's name."""
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


def test_it_is_known_for_what_a_model_was_trained_on(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    """Packed or not; and by records of before, whose hash is of the file as it was packed."""
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


def test_what_is_converted_is_the_same(both: tuple[Path, Path], tmp_path: Path) -> None:
    outs = []
    out = tmp_path / "out.iolog"
    for path in both:
        said("convert", str(path), str(out))
        outs.append(out.read_bytes())
    assert outs[0] == outs[1]
    assert outs[0].count(b"\n") > 1000


@pytest.mark.parametrize("name", ["t.iolog", "t.csv"])
def test_a_text_trace_is_read_packed(name: str, tmp_path: Path) -> None:
    text = {
        "t.iolog": "fio version 3 iolog\n0 d add\n0 d open\n5 d read 4096 8192\n9 d close\n",
        "t.csv": "128166372003061629,hm,0,Read,8192,4096,51\n",
    }[name]
    packed_trace = tmp_path / f"{name}.xz"
    packed_trace.write_bytes(lzma.compress(text.encode()))
    assert "1 reads, 0 writes" in said("inspect", str(packed_trace))


def test_its_drive_has_its_name_and_it_its_size(both: tuple[Path, Path]) -> None:
    plain, same = both
    assert drive_name(same) == drive_name(plain) == "fio"
    assert BlktraceReader(same).size_bytes == plain.stat().st_size
    assert load(same).name == "fio.blk.xz"


def test_it_is_unpacked_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.blk.xz"
    path.write_bytes(lzma.compress(b"one"))
    first = packed.unpacked(path)
    assert packed.unpacked(path) == first and first.read_bytes() == first.read_bytes() == b"one"
    path.write_bytes(lzma.compress(b"another"))
    assert packed.unpacked(path).read_bytes() == b"another"


@pytest.mark.parametrize("contents", [b"no xz", lzma.compress(b"x" * 5000)[:-20]])
def test_a_damaged_file_is_named(contents: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.blk.xz"
    path.write_bytes(contents)
    for read in (lambda: load(path), lambda: list(BlktraceReader(path))):
        with pytest.raises(TraceError, match=r"a\.blk\.xz: damaged, or not packed with xz"):
            read()
    ran = CliRunner().invoke(cli, ["inspect", str(path)])
    assert ran.exit_code != 0 and "damaged" in str(ran.exception)


def test_an_error_within_names_the_packed_file(tmp_path: Path) -> None:
    path = tmp_path / "a.blk.xz"
    whole = lzma.decompress(PACKED.read_bytes())
    path.write_bytes(lzma.compress(whole[:5001]))
    with pytest.raises(TraceError) as raised:
        load(path)
    assert str(path) in str(raised.value) and "/proc/" not in str(raised.value)
