# SPDX-License-Identifier: MIT
"""Text traces: linnapp and the replayer read the same I/Os, or refuse them alike."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from blktrace_builder import TraceBuilder
from click.testing import CliRunner
from replaying import replay

from linnapp.cli import cli
from linnapp.trace import convert as iolog
from linnapp.trace import replay_log
from linnapp.trace.text import text_formats

#: Time in us, true for a read, offset and size of each I/O.
IOS = [
    (i * 130 + (i % 5) * 17, i % 3 != 0, 4096 * (37 * i % 1000) + 512 * (i % 3), 512 * (1 + i % 9))
    for i in range(40)
]

#: The time of the first I/O in seconds since 1970, for formats with absolute times.
CLOCK_S = 1_577_808_000
#: The time of the first I/O in units of 100 ns since 1601.
FILETIME = 128_166_372_003_061_629


def _line(name: str, at_us: int, read: bool, offset: int, size: int) -> str:
    rw, sector, sectors = "R" if read else "W", offset // 512, size // 512
    forms = {
        "iolog": f"{at_us} /dev/x {'read' if read else 'write'} {offset} {size}",
        "heimdall": f"{at_us / 1000:.3f} 0 {offset} {size} {int(read)}",
        "mqsim": f"{at_us * 1000} 0 {sector} {sectors} {int(read)}",
        "disksim": f"{at_us / 1000:.6f} 0 {sector} {sectors} {int(read)}",
        "msr": f"{FILETIME + at_us * 10},hm,0,{'Read' if read else 'Write'},{offset},{size},413",
        "alibaba": f"3,{rw},{offset},{size},{CLOCK_S * 10**6 + at_us}",
        "tencent": f"{CLOCK_S}.{at_us:06},{sector},{sectors},{int(not read)},1063",
        "systor": f"{CLOCK_S}.{at_us:06},0.000413,{rw},2,{offset},{size}",
        "spc": f"1,{sector},{size},{rw.lower()},{at_us / 1e6:.6f}",
        "fiu": f"{89967195500000 + at_us * 1000} 1234 nfsd {sector} {sectors} {rw} 6 0 d41d8c",
        "flashnet": f"0.000,100,{int(read)},{size},{offset},{at_us / 1000:.3f},{size}",
        "fio-lat": f"{at_us}, 81000, {int(not read)}, {size}, {offset}, 0",
    }
    return forms[name]


def text_of(name: str) -> list[str]:
    head = ["fio version 3 iolog", "0 /dev/x add", "0 /dev/x open"] if name == "iolog" else []
    return [*head, *(_line(name, *io) for io in IOS)]


#: Header lines of public traces.
HEADERS = {
    "msr": ["# MSR Cambridge", "", '"Timestamp","Hostname","DiskNumber","Type","Offset","Size"'],
    "alibaba": ["device_id,opcode,offset,length,timestamp"],
    "tencent": ["Timestamp, Offset, Size, IOType, VolumeID"],
    "systor": ["Timestamp,Response,IOType,LUN,Offset,Size"],
}


def by_linnapp(path: Path, *options: str) -> list[tuple[int, bool, int, int]]:
    out = path.with_suffix(".converted")
    result = CliRunner().invoke(cli, ["convert", *options, str(path), str(out)])
    assert result.exit_code == 0, str(result.exception)
    return [
        (time, not write, offset, size)
        for chunk in iolog.read_workload(out, "iolog")
        for time, offset, size, write in zip(
            chunk.time_us.tolist(), chunk.offset_bytes.tolist(), chunk.size_bytes.tolist(),
            chunk.is_write.tolist(), strict=True,
        )
    ]  # fmt: skip


def by_replayer(path: Path, drives: list[Path], *options: str) -> list[tuple[int, bool, int, int]]:
    log = path.with_suffix(".log")
    replay(drives, [path], "baseline", "--log", str(log), *options)
    found = replay_log.read(log)
    rows = zip(
        (found["due_ns"] // 1000).tolist(), (found["op"] == replay_log.READ).tolist(),
        found["offset_bytes"].tolist(), found["size_bytes"].tolist(), strict=True,
    )  # fmt: skip
    return sorted(rows)


def widened(ios: list[tuple[int, bool, int, int]]) -> list[tuple[int, bool, int, int]]:
    """Widen I/Os to blocks of 4 KiB, as the replayer does."""
    rows = []
    for at, read, offset, size in ios:
        start = offset // 4096 * 4096
        rows.append((at, read, start, -(-(offset + size - start) // 4096) * 4096))
    return sorted(rows)


@pytest.mark.parametrize("name", list(text_formats()))
def test_every_format_is_detected_and_read_equally(
    tmp_path: Path, drives: list[Path], name: str
) -> None:
    path = tmp_path / "t.txt"
    path.write_text("\n".join([*HEADERS.get(name, ()), *text_of(name)]) + "\n")
    result = CliRunner().invoke(cli, ["inspect", "--json", str(path)])
    assert json.loads(result.output)["format"] == name
    expected = IOS
    if name == "fio-lat":  # its times are whole ms
        expected = [(at * 1000, *rest) for at, *rest in IOS]
    assert by_linnapp(path) == expected
    options = ["--rerate", "100"] if name == "fio-lat" else []
    found = by_replayer(path, drives, *options)
    if name == "fio-lat":
        expected = [(at // 100, *rest) for at, *rest in expected]
    assert found == widened(expected)


def _quoted(text: str) -> str:
    return "\n".join(
        ",".join(f'"{field}"' for field in line.split(",")) if "," in line else line
        for line in text.split("\n")
    )


DECORATIONS: dict[str, Callable[[str], bytes]] = {
    "other words": lambda text: (
        text.replace(",Read,", ",r,").replace(",R,", ",read,").replace(",W,", ",WRITE,").encode()
    ),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "blank lines": lambda text: text.replace("\n", "\n\n  \n").encode(),
    "comments": lambda text: text.replace("\n", "\n# a comment\n").encode(),
    "form feeds": lambda text: text.replace("\n", "\n\f\n").encode(),
    "no end": lambda text: text.rstrip("\n").encode(),
    "blanks around": lambda text: text.replace("\n", " \t\n  ").encode(),
    "quotes": lambda text: _quoted(text).encode(),
    "gzip": lambda text: gzip.compress(text.encode()),
    "xz": lambda text: lzma.compress(text.encode()),
    "bzip2": lambda text: bz2.compress(text.encode()),
}


@pytest.mark.parametrize("decoration", list(DECORATIONS))
@pytest.mark.parametrize("name", ["iolog", "heimdall", "msr", "alibaba"])
def test_readers_ignore_decorations_of_text(
    tmp_path: Path, drives: list[Path], name: str, decoration: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(DECORATIONS[decoration]("\n".join(text_of(name)) + "\n"))
    assert by_linnapp(path) == IOS
    assert by_replayer(path, drives) == widened(IOS)


@pytest.mark.parametrize("separator", [",", ", ", "\t", "   "])
@pytest.mark.parametrize("name", ["heimdall", "mqsim", "disksim"])
def test_columns_are_separated_by_commas_or_blanks(
    tmp_path: Path, drives: list[Path], name: str, separator: str
) -> None:
    path = tmp_path / "t.txt"
    path.write_text("\n".join(text_of(name)).replace(" ", separator) + "\n")
    assert by_linnapp(path) == IOS
    assert by_replayer(path, drives) == widened(IOS)


@pytest.mark.parametrize(
    ("content", "times_us"),
    [
        ("0.0 0 0 4096 1\n1e-3 0 4096 4096 1\n", [0, 1]),
        ("-1.0 0 0 4096 1\n1.0 0 4096 4096 1\n", [0, 2000]),
        ("0.0 hm_0 0 4096 1\n1.0 hm_0 4096 4096 1\n", [0, 1000]),
        ("+5 0 0 4096 1\n6. 0 4096 4096 1\n.7e1 0 4096 4096 1\n", [0, 1000, 2000]),
        ("0.0,0,0,4096,1\n", [0]),
    ],
)
def test_numbers_are_read_equally(
    tmp_path: Path, drives: list[Path], content: str, times_us: list[int]
) -> None:
    path = tmp_path / "t.txt"
    path.write_text(content)
    assert [io[0] for io in by_linnapp(path)] == times_us
    assert [io[0] for io in by_replayer(path, drives)] == times_us


def _repeated_lines(name: str, n: int = 40, **columns: Callable[[int], str]) -> str:
    """Return lines of five columns, with other values in some of them."""
    lines = []
    for i in range(n):
        fields = _line(name, *IOS[i % 40]).split()
        fields[0] = columns.get("time", lambda _, f=fields: f[0])(i)
        fields[1] = columns.get("device", lambda _: "0")(i)
        fields[2] = columns.get("offset", lambda _, f=fields: f[2])(i)
        fields[3] = columns.get("size", lambda _, f=fields: f[3])(i)
        lines.append(" ".join(fields))
    return "\n".join(lines) + "\n"


def _replaced(name: str, number: int, line: str) -> str:
    lines = text_of(name)
    lines[number - 1] = line
    return "\n".join(lines) + "\n"


#: Alibaba's times are in us, MSR's in units of 100 ns.
ALIBABA_US = CLOCK_S * 10**6


def _alibaba(number: int, time_us: int) -> str:
    """Return lines in Alibaba's format, one of them with another time."""
    return _replaced("alibaba", number, f"3,R,0,4096,{time_us}")


def _each(line: Callable[[int], str], n: int = 30) -> str:
    return "".join(line(i) + "\n" for i in range(n))


#: A text, words of the reason, and the number of the line that the error names, if any.
REFUSED: dict[str, tuple[str | bytes, str, int | None]] = {
    "sectors in ms as whole numbers": (
        _repeated_lines("mqsim", time=lambda i: str(i * 1000)), "mqsim|disksim|--from", None,
    ),
    "bytes in ns": (
        _repeated_lines("heimdall", time=lambda i: str(i * 152_000 + 11_413_000)),
        "mqsim (its sizes are in sectors|one I/O in 152 s|--from heimdall:us|--from heimdall:ns",
        None,
    ),
    "large sectors in ns, or bytes in ms": (
        _each(lambda i: f"{i * 13_000} 0 {i * 2048} 2048 1"),
        "--from heimdall or --from mqsim", None,
    ),
    "bytes in seconds since 1970": (
        _repeated_lines("heimdall", time=lambda i: f"{CLOCK_S + i * 0.01:.3f}"),
        "seconds since 1970|--from heimdall:s", None,
    ),
    "Alibaba in milliseconds": (
        _each(lambda i: f"1,R,{i * 4096},4096,{CLOCK_S * 1000 + i * 7}"),
        "milliseconds since 1970|--from alibaba:ms", None,
    ),
    "MSR in microseconds since 1970": (
        _each(lambda i: f"{ALIBABA_US + i * 700},hm,0,Read,{i * 4096},4096,9"),
        "microseconds since 1970|--from msr:us", None,
    ),
    "sizes of 8 bytes with the times of Heimdall": (
        _each(lambda i: f"{CLOCK_S},R,1,8,{i}"), "line 1|8 bytes|--from", None,
    ),
    "a read of 8 bytes in the middle": (
        _replaced("msr", 30, f"{FILETIME + 4000},hm,0,Read,8,8,9"), "8 bytes|--from msr", 30,
    ),
    "another form in the middle": (
        _replaced("heimdall", 30, "3,R,4096,4096,1577808000000000"),
        "1 column|expected time_ms device", 30,
    ),
    "hexadecimal offsets": (
        _replaced("heimdall", 7, "1.5 0 0x1000 4096 1"), "offset is hexadecimal", 7,
    ),
    "a column too many": (_replaced("heimdall", 9, "1.6 0 0 4096 1 7"), "more than 5", 9),
    "thousands separators": (
        _replaced("msr", 5, f'{FILETIME + 9000},hm,0,Read,"383,496,192",4096,9'), "columns", 5,
    ),
    "a type of no format": (_replaced("alibaba", 6, "3,Q,0,4096,1577808000009999"), "'Q'", 6),
    "a cut last line": (
        "\n".join(text_of("systor"))[:-30], "this last line does not end with a newline", 40,
    ),
    "a first line that names columns": (
        "time device offset size type\n" + "\n".join(text_of("heimdall")) + "\n",
        "line 1|--from heimdall", None,
    ),
    "a time stamp far ahead": (
        _alibaba(20, 1999999999000000), "days after line 19|one of the two time stamps", 20,
    ),
    "a first time stamp far ahead": (
        _alibaba(1, 1999999999000000), "s before line 1|one of the two time stamps is wrong", 2,
    ),
    "a time stamp far back": (
        _alibaba(20, 1577800000000000), "s before line 19|one of the two time stamps is wrong", 20,
    ),
    "a single time stamp 17.6 s ahead": (
        _alibaba(20, ALIBABA_US + 17_600_000),
        "more than 10 s after the lines around it; its time stamp is wrong", 20,
    ),
    "a single time stamp 17.6 s back": (
        _alibaba(20, ALIBABA_US - 17_600_000),
        "more than 10 s before the lines around it; its time stamp is wrong", 20,
    ),
    "a first time stamp 17.6 s ahead": (
        _alibaba(1, ALIBABA_US + 17_600_000),
        "line 1: more than 10 s after the lines around it; its time stamp is wrong", None,
    ),
    "volumes one after the other, of an hour": (
        "".join(_each(lambda i, v=v: f"{v},R,{i * 4096},4096,{ALIBABA_US + i * 3_600_000}", 1000)
                for v in (3, 7)),
        "s before line 1000|sorted by time", 1001,
    ),
    "UTF-16": ("\n".join(text_of("msr")).encode("utf-16"), "UTF-16|iconv", None),
    "UTF-16 without a mark": ("\n".join(text_of("msr")).encode("utf-16-le"), "iconv", None),
    "UTF-16, the other order": (
        "\n".join(text_of("msr")).encode("utf-16-be"), "iconv -f UTF-16BE", None,
    ),
    "UTF-32": ("\n".join(text_of("msr")).encode("utf-32"), "iconv -f UTF-32 ", None),
    "UTF-16 with titles in another script": (
        "\n".join(["время,offset", *text_of("msr")]).encode("utf-16"), "iconv -f UTF-16 ", None,
    ),
    "UTF-16 in a short file": ("1,2,R".encode("utf-16"), "iconv -f UTF-16 ", None),
    "bytes of zero": (
        "\n".join(text_of("msr")).encode() + b"\n" + bytes(99),
        "line 41 contains bytes of zero|copy it again", None,
    ),
    "times that a spreadsheet has rounded": (
        _each(lambda i: f"{FILETIME + i * 700:.5e},hm,0,Read,{i * 4096},4096,9"),
        "the time was rounded|all its digits", 1,
    ),
    "offsets with exponents": (
        _replaced("msr", 5, f"{FILETIME + 9000},hm,0,Read,3.83496e+08,4096,9"),
        "offset has an exponent; write it with all its digits", 5,
    ),
    "lines of an unknown format, the first like one of fio": (
        _each(lambda i: f"{CLOCK_S + i},{i},{i % 2 * 9},4096"), "not a trace in a known", None,
    ),
    "a fio log with hexadecimal priorities only": (
        _each(lambda i: f"{i}, {81792 + i}, 0, 4096, 0x0001"), "log_offset=1", None,
    ),
    "a fio log with times of issue": (
        _each(lambda i: f"{i}, {81792 + i}, 0, 4096, {i * 4096}, 0, {i * 1000}"),
        "a log of fio with 7 columns|cut -d, -f1-6", None,
    ),
    "decimal commas": ("0,5 0 0 4096 1\n0,9 0 4096 4096 1\n", "decimal commas|tr ','", None),
    "dates": ("2007-02-22 17:00:01,hm,0,Read,0,4096,9\n", "dates or hours|date +%s", None),
    "a header only": (f"# MSR\n{'|'.join(HEADERS['msr'][2:])}\n\n", "only the header|msr", None),
    "a header again": (
        "\n".join([*HEADERS["systor"], *text_of("systor")] * 2) + "\n", "a second trace", 42,
    ),
    "an iolog twice": ("\n".join(text_of("iolog") * 2) + "\n", "a second trace begins", 44),
    "an unknown header after a comment": (
        "# a comment\ntime device offset size type\n" + "\n".join(text_of("heimdall")) + "\n",
        "line 2|--from heimdall", None,
    ),
    "an offset after the end of any drive": (
        _replaced("msr", 5, f"{FILETIME + 9000},hm,0,Read,{1 << 60},4096,9"), "--from msr", 5,
    ),
    "vertical bars": ("|".join("abcdefg") + "\n", "vertical bars|tr '|' ','", None),
    "semicolons and decimal commas": ("0,0;100;1;4096;0;0,0;4096\n", "semicolons", None),
    "semicolons": ("0;100;1;4096;0;0.0;4096\n", "semicolons|tr ';' ','", None),
    "carriage returns only": ("\r".join(text_of("msr")) + "\r", "carriage returns", None),
    "a fio log without offsets": ("0, 81792, 0, 4096\n1, 82000, 0, 4096\n", "log_offset=1", None),
    "a fio log with priorities only": (
        _each(lambda i: f"{i}, {81792 + i}, 0, 4096, 0"), "log_offset=1", None,
    ),
    "a fio log in microseconds": (
        _each(lambda i: f"{i}, {80 + i % 7}, 0, 4096, {i * 4096}"), "fio before version 3", None,
    ),
    "a fio log of bandwidth": (_each(lambda i: f"{i * 500}, 7000, 0, 0, 0"), "write_iolog", None),
    "a fio log of IOPS": (_each(lambda i: f"{i * 500}, 70, 0, 0, 0, 0"), "write_iolog", None),
    "an iolog of version 2": ("fio version 2 iolog\n/dev/x add\n", "is not supported", 1),
    "an iolog before its start": ("fio version 3 iolog\n-5 /dev/x read 0 4096\n", "negative", 2),
    "an iolog with an unknown action": (
        "fio version 3 iolog\n5 /dev/x frobnicate 0 1\n", "the type is 'frobnicate'", 2,
    ),
    "events of the block layer without times": (
        _each(lambda i: f"fio [000] 12us : block_rq_issue: 8,0 R 4096 () {i * 8} + 8 [fio]"),
        "events of the block layer|with their defaults", None,
    ),
    "a report of iostat": ("Device            r/s     rkB/s\nsda   1.0   2.0\n", "iostat", None),
    "output of bpftrace": ("Attaching 2 probes...\n@usecs:\n", "bpftrace", None),
    "JSON after a blank line": ('\n  {"a": 1}\n', "JSON", None),
    "a web page in other letters": ("<!doctype HTML>\n<HTML>\n", "a web page", None),
    "blank lines": ("\n# a comment\n \n  # another\n", "only blank lines and comments", None),
    "a web page": ("<!DOCTYPE html>\n<html>\n", "a web page", None),
    "a pointer of Git LFS": ("version https://git-lfs.github.com/spec/v1\n", "git lfs", None),
    "words": ("hello world\n", "not a trace in a known format|heimdall", None),
    "nothing": ("", "the file is empty", None),
    "not text": (bytes(range(256)), "neither text nor", None),
}  # fmt: skip


@pytest.mark.parametrize("case", list(REFUSED))
def test_linnapp_and_replayer_refuse_unreadable_traces_for_the_same_reason(
    tmp_path: Path, drives: list[Path], case: str
) -> None:
    content, words, line = REFUSED[case]
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    messages = []
    for command in ("convert", "inspect"):
        out = [str(tmp_path / "out")] if command == "convert" else []
        result = CliRunner().invoke(cli, [command, str(path), *out])
        assert result.exit_code == 1, result.output
        messages.append(str(result.exception))
    assert messages[0] == messages[1]
    assert not (tmp_path / "out").exists()
    replayed = replay(drives, [path], "baseline", status=1).stderr
    where = f"{path}:{line}: " if line else f"{path}: "
    reason = messages[0].removeprefix(where)
    assert messages[0] != reason, messages[0]
    assert reason in replayed
    for word in words.split("|"):
        assert word in reason
    if line:
        assert f"{path} line {line}: " in replayed
    assert not any(drive.read_bytes().strip(b"\0") for drive in drives)


@pytest.mark.parametrize("name", ["disksim", "tencent", "fiu"])
def test_large_sizes_in_sectors_are_not_taken_for_bytes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.txt"
    ios = [(at, read, offset, 1024 * 512) for at, read, offset, _ in IOS]
    path.write_text("\n".join(_line(name, *io) for io in ios) + "\n")
    assert by_linnapp(path) == ios


def test_user_can_choose_between_ambiguous_formats(tmp_path: Path, drives: list[Path]) -> None:
    path = tmp_path / "t.txt"
    path.write_text(_repeated_lines("heimdall", n=3, time=lambda i: str(i * 152_000)))
    for format_name, last_us in (("heimdall:us", 304_000), ("heimdall:ns", 304)):
        assert by_linnapp(path, "--from", format_name)[-1][0] == last_us
        assert by_replayer(path, drives, "--from", format_name)[-1][0] == last_us
    path.write_text("time device offset size type\n" + "\n".join(text_of("heimdall")))
    assert by_linnapp(path, "--from", "heimdall") == IOS
    assert by_replayer(path, drives, "--from", "heimdall") == widened(IOS)


def test_last_line_without_an_end_is_reported(tmp_path: Path, drives: list[Path]) -> None:
    path = tmp_path / "cut.iolog"
    path.write_text("\n".join(text_of("iolog"))[:-1])
    for command in (["inspect"], ["convert", str(tmp_path / "out")]):
        result = CliRunner().invoke(cli, [command[0], str(path), *command[1:]])
        assert "the last line does not end with a newline" in result.output
    stderr = replay(drives, [path], "baseline").stderr
    assert "the last line does not end with a newline" in stderr


def test_trace_that_a_file_contains_twice_is_reported(tmp_path: Path, drives: list[Path]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(text_of("msr") * 2) + "\n")
    note = "line 41 repeats the first I/O; the file may contain a trace twice"
    assert note in CliRunner().invoke(cli, ["inspect", str(path)]).output
    assert note in replay(drives, [path], "baseline").stderr


def test_volume_is_selected_alone_among_too_many_to_count(tmp_path: Path) -> None:
    volumes = [*range(65536), 3, *range(65536, 65600)]
    path = tmp_path / "t.csv"
    path.write_text("".join(f"{v},R,0,4096,{ALIBABA_US + 7 * i}\n" for i, v in enumerate(volumes)))
    assert len(by_linnapp(path, "--volume", "3")) == 2
    assert len(by_linnapp(path, "--volume", "65599")) == 1


@pytest.mark.parametrize("latency", [100, 81000])
def test_log_that_repeats_its_sizes_is_not_one_of_fio(tmp_path: Path, latency: int) -> None:
    path = tmp_path / "t.log"
    path.write_text(_each(lambda i: f"{i},{latency},{i % 2},4096,{i * 4096},{i},4096"))
    result = CliRunner().invoke(cli, ["inspect", "--json", str(path)])
    assert json.loads(result.output)["format"] == "flashnet"


def test_assumed_units_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("\n".join(text_of("mqsim")))
    output = CliRunner().invoke(cli, ["inspect", str(path)]).output
    assert "(mqsim: times in ns, offsets in sectors of 512 bytes, sizes in sectors" in output


VOLUMES = {
    "iolog": "fio version 3 iolog\n0 /dev/sdb add\n0 /dev/sdc add\n1 /dev/sdb read 0 4096\n"
    "2 /dev/sdc read 8192 4096\n3 /dev/sdb write 4096 4096\n",
    "msr": f"{FILETIME},hm,0,Read,0,4096,1\n{FILETIME + 10},hm,1,Read,8192,4096,1\n"
    f"{FILETIME + 20},hm,0,Write,4096,4096,1\n",
    "tencent": f"{CLOCK_S},0,8,0,1063\n{CLOCK_S},16,8,0,1064\n{CLOCK_S}.5,8,8,1,1063\n",
    "heimdall": "0.000 0 0 4096 1\n0.001 hm 8192 4096 1\n0.002 0 4096 4096 0\n",
}


@pytest.mark.parametrize("name", list(VOLUMES))
def test_several_volumes_are_reported_and_one_can_be_selected(
    tmp_path: Path, drives: list[Path], name: str
) -> None:
    first = {"iolog": "/dev/sdb", "msr": "hm_0", "tencent": "1063", "heimdall": "0"}[name]
    path = tmp_path / "t.txt"
    path.write_text(VOLUMES[name])
    note = f"has 2 volumes, which share one address space here: {first} (2 I/Os), "
    result = CliRunner().invoke(cli, ["convert", str(path), str(tmp_path / "o")])
    assert result.exit_code == 0
    assert note in result.stderr and "--volume NAME selects one" in result.stderr
    assert note in CliRunner().invoke(cli, ["inspect", str(path)]).stdout
    assert note in replay(drives, [path], "baseline").stderr
    assert [io[2] for io in by_linnapp(path, "--volume", first)] == [0, 4096]
    assert [io[2] for io in by_replayer(path, drives, "--volume", first)] == [0, 4096]
    selected = replay(drives, [path], "baseline", "--volume", first)
    assert "volumes" not in selected.stderr
    missing = replay(drives, [path], "baseline", "--volume", "x", status=1)
    assert "no trace has a read or write of the volume x (--volume)" in missing.stderr


def test_volume_is_refused_for_recordings(tmp_path: Path, drives: list[Path]) -> None:
    trace = TraceBuilder()
    trace.io(1, 3, 8)
    path = trace.write(tmp_path / "t.blk")
    result = replay(drives, [path], "baseline", "--volume", "0", status=1)
    assert f"--volume 0: blktrace traces have no volumes, and {path} is one" in result.stderr


def test_times_out_of_order_are_sorted_and_reported(tmp_path: Path, drives: list[Path]) -> None:
    path = tmp_path / "jobs.iolog"
    at = [0, 100, 300, 200, 400_000, 350, 360]
    path.write_text(
        "fio version 3 iolog\n0 f add\n"
        + "".join(f"{t} f read {i * 4096} 4096\n" for i, t in enumerate(at))
        + "500 f close\n"
    )
    expected = sorted((t, True, i * 4096, 4096) for i, t in enumerate(at))
    assert by_linnapp(path) == expected
    assert by_replayer(path, drives) == expected
    note = "3 I/Os were not in the order of time, by up to 0.399650 s (line 8); they are sorted"
    result = CliRunner().invoke(cli, ["convert", str(path), str(tmp_path / "out.iolog")])
    assert note in result.stderr
    assert note in replay(drives, [path], "baseline").stderr
    # The output of convert is in order, to the last line.
    written = (tmp_path / "out.iolog").read_text().splitlines()[1:]
    assert [line.split()[2] for line in (written[0], written[1], written[-1])] == [
        "add", "open", "close",
    ]  # fmt: skip
    times = [int(line.split()[0]) for line in written]
    assert times == sorted(times)
    assert "order" not in replay(drives, [tmp_path / "out.iolog"], "baseline").stderr


def test_slow_ios_and_idle_times_are_not_errors(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    # An I/O of 12 s, written at its end.
    path.write_text(
        "0,100,1,4096,0,0.0,4096\n0,100,1,4096,0,12000.0,4096\n"
        "0,12000000,1,4096,0,1.0,4096\n0,100,1,4096,0,12001.0,4096\n"
    )
    assert [io[0] for io in by_linnapp(path)] == [0, 1000, 12_000_000, 12_001_000]
    path.write_text("".join(f"{t} 0 0 4096 1\n" for t in (0, 1, 30_000, 30_001, 59_000)))
    assert len(by_linnapp(path)) == 5
    path.write_text(
        "".join(f"{v},R,0,4096,{CLOCK_S * 10**6 + t * 100_000}\n"
                for v in (1, 2) for t in range(200))
    )  # fmt: skip
    assert len(by_linnapp(path)) == 400


def test_ios_of_one_time_keep_the_order_of_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("".join(f"{CLOCK_S},{i * 8},8,0,1\n" for i in range(1000)))
    assert [io[2] for io in by_linnapp(path)] == [i * 4096 for i in range(1000)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "-"),
        ("convert", "t", "-"),
        ("label", "--trace", "-"),
        ("train", "--trace", "t", "-o", "-"),
        ("generate", "demo", "-o", "-"),
        ("pack", "-", "-o", "x"),
        ("pack", "x", "-o", "-"),
    ],
)
def test_commands_refuse_a_dash_as_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text("")
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == 2
    assert "'-' is not taken as standard input or output here" in result.output
    assert not (tmp_path / "-").exists()


def test_replayer_refuses_a_dash_as_a_trace(tmp_path: Path, drives: list[Path]) -> None:
    path = tmp_path / "t.iolog"
    path.write_text("\n".join(text_of("iolog")) + "\n")
    for options in (["--json", "-"], ["--log", "-"], ["--trace", "-"], ["--devices", "-"]):
        result = replay(drives, [path], "baseline", *options, status=1)
        assert f"{' '.join(options)}: standard input and output are not supported" in result.stderr
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("0, 81792, 0, 4096, 0\n1, 82000, 0, 4096, 8192\n", "whole milliseconds"),
        ("0 0 0 4096 1\n1.5 0 4096 4096 1\n", "the format heimdall has no latencies"),
        ("hello\n", "not a trace in a known format"),
    ],
)
def test_training_names_the_accepted_formats(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(content)
    for command in (["label"], ["train", "-o", str(tmp_path / "m")]):
        message = str(CliRunner().invoke(cli, [*command, "--trace", str(path)]).exception)
        assert words in message
        assert "recordings of blktrace (`linnapp trace`) and logs in the format flashnet" in message
        assert "arrival_ms,latency_us,type" in message
