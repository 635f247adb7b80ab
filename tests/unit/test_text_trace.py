# SPDX-License-Identifier: MIT
"""The compiled reader and writer of text traces, compared with plain Python."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linnapp.errors import LinnappError, TraceError
from linnapp.native import native
from linnapp.trace import convert as iolog
from linnapp.trace.convert import Workload, convert, detect_format
from linnapp.trace.text import TextFormat, iolog_lines, read_columns, text_formats

#: All except the iolog, which has a header and other times.
FORMATS = {name: known for name, known in text_formats().items() if name != "iolog"}


def delimiter_of(fmt: TextFormat) -> str | None:
    return None if fmt.name in ("heimdall", "mqsim", "disksim", "fiu", "iolog") else ","


def header_of(fmt: TextFormat) -> str:
    return native().text(fmt.entry.header) or ""


def words(text: Any) -> list[str]:
    """Return the words of a string of the table of formats."""
    return (native().text(text) or "").split(" ")


def in_plain_python(path: Path, fmt: TextFormat) -> list[tuple[int, int, int, bool, int]]:
    """Return the content of a text trace, by exact arithmetic, line by line."""
    rows, first = [], None
    for number, line in enumerate(path.read_text().splitlines()):
        if not line.strip() or (not number and header_of(fmt) and line.startswith(header_of(fmt))):
            continue
        fields = [field.strip() for field in line.split(delimiter_of(fmt))]
        time = Fraction(fields[fmt.entry.time_at]) * 10**fmt.time_unit_log10_ns
        size = int(fields[fmt.entry.size_at]) * fmt.entry.size_unit_bytes
        if not size:
            continue
        first = time if first is None else first
        is_write = fields[fmt.entry.type_at] in words(fmt.entry.writes)
        offset = int(fields[fmt.entry.offset_at]) * fmt.entry.offset_unit_bytes
        latency = 0
        if fmt.has_latency:
            latency = int(fields[fmt.entry.latency_at]) * 10**fmt.entry.latency_digits
        # Digits of less than a nanosecond are dropped before the first time is subtracted.
        at = int(time) - int(first)
        if fmt.entry.flags & native().lib.LT_TEXT_AT_END:
            unit = 10**fmt.time_unit_log10_ns
            at -= latency // unit * unit
        rows.append((at, offset, size, is_write, latency))
    start = min((row[0] for row in rows), default=0)
    return sorted(((row[0] - start, *row[1:]) for row in rows), key=lambda row: row[0])


def a_trace(path: Path, fmt: TextFormat, rng: random.Random, n: int) -> Path:
    """Write random I/Os in all spellings of numbers, line ends and empty lines."""
    unit = 10**fmt.time_unit_log10_ns
    now_ns = 1_600_000_000 * 10**9
    lines = [header_of(fmt) + "...", ""] if header_of(fmt) else []
    for _ in range(n):
        now_ns += rng.randrange(-(10**4), 10**8)
        fields = [rng.choice(["0", "x", ""]) for _ in range(fmt.entry.n_columns)]
        whole, part = divmod(now_ns, unit)
        digits = str(part).rjust(fmt.time_unit_log10_ns, "0")
        time = f"{whole}.{digits}{rng.choice(['', '0', '9'])}"
        fields[fmt.entry.time_at] = rng.choice([str(whole), time, f"+{time}", f"{whole}."])
        fields[fmt.entry.offset_at] = str(rng.randrange(1 << 45))
        fields[fmt.entry.size_at] = str(rng.choice([0, 1, 8, 4096, 1 << 20]))
        fields[fmt.entry.type_at] = rng.choice(words(fmt.entry.reads) + words(fmt.entry.writes))
        if fmt.has_latency:
            fields[fmt.entry.latency_at] = str(rng.randrange(10**7))
        if fmt.entry.same_as_size_at:
            fields[fmt.entry.same_as_size_at] = fields[fmt.entry.size_at]
        if delimiter_of(fmt) is None:
            fields = [field or "-" for field in fields]
        padding = rng.choice(["", "", " ", "\t"])
        separator = padding + (delimiter_of(fmt) or " ") + padding
        lines.append(separator.join(fields) + rng.choice(["", "\r", "  "]))
        if rng.random() < 0.01:
            lines.append(rng.choice(["", "   "]))
    path.write_text("\n".join(lines) + rng.choice(["", "\n"]))
    return path


@pytest.mark.parametrize(
    ("name", "n", "chunk_ios"),
    [
        *((name, n, chunk_ios) for name in FORMATS for n, chunk_ios in ((1, 10), (1000, 7))),
        ("heimdall", 40_000, 1 << 18),  # several buffers
    ],
)
def test_text_reader_agrees_with_plain_python(
    tmp_path: Path, name: str, n: int, chunk_ios: int
) -> None:
    fmt = FORMATS[name]
    rng = random.Random(f"{name} {n}")
    path = a_trace(tmp_path / "t", fmt, rng, n)
    expected = in_plain_python(path, fmt)
    chunks = list(read_columns(path, fmt, chunk_ios=chunk_ios))
    assert all(len(chunk.time_ns) == chunk_ios for chunk in chunks[:-1])
    rows = [row for c in chunks for row in zip(*(a.tolist() for a in c[:5]), strict=True)]
    assert rows == expected


def test_times_in_100_ns_since_1601_stay_exact(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text(
        "128166372003061629,hm,0,Read,0,512,1\n128166372003061630,hm,0,Read,0,512,1\n"
        "128166373003061629,hm,0,Read,0,512,1\n"
    )
    (chunk,) = read_columns(path, FORMATS["msr"])
    assert chunk.time_ns.tolist() == [0, 100, 100_000_000_000]


GOOD = {
    "heimdall": "0.5 0 8192 4096 1",
    "msr": "128166372003061629,hm,0,Read,383496192,32768,413",
    "alibaba": "0,R,383496192,32768,1577808000000000",
    "tencent": "1538323200.00,749016,64,0,0",
    "systor": "1455592800.000000,0.000413,R,0,383496192,32768",
    "iolog": "10 /dev/x read 4096 8192",
}
BAD_NUMBERS = ["", "x", "1x", "-8", "0x10", "1.5", "99999999999999999999", "1 2", "٣", "--1", "nan"]
BAD_TIMES = ["", "x", "1x", "0x10", "1.5.5", ".", "+", "1e", "nan", "inf", "1" * 30, "1:30"]


def _write(path: Path, name: str, *lines: str) -> Path:
    head = [iolog.HEADER] if name == "iolog" else []
    path.write_text("\n".join([*head, *lines]) + "\n")
    return path


@pytest.mark.parametrize("name", list(GOOD))
def test_reader_locates_every_bad_field(tmp_path: Path, name: str) -> None:
    fmt = text_formats()[name]
    separator, fields = delimiter_of(fmt) or " ", GOOD[name].split(delimiter_of(fmt))
    bad = {
        "time": BAD_TIMES,
        "offset": BAD_NUMBERS,
        "size": BAD_NUMBERS,
        "type": ["", "q", "reads"],
    }
    lines = [separator.join(fields[:2])]  # like the end of a truncated file
    for column, values in bad.items():
        for value in values:
            if delimiter_of(fmt) is None and (not value or " " in value):
                continue  # shifts the columns instead
            place = getattr(fmt.entry, f"{column}_at")
            lines.append(separator.join([*fields[:place], value, *fields[place + 1 :]]))
    for wrong in lines:
        path = _write(tmp_path / "t", name, GOOD[name], GOOD[name], wrong, GOOD[name])
        with pytest.raises(TraceError) as raised:
            convert(path, tmp_path / "out", source_format=name)
        message = str(raised.value)
        shown = "".join("?" if c < " " else c for c in wrong.strip())
        assert message.startswith(f"{path}:{4 if name == 'iolog' else 3}: '{shown}': ")
        assert message.endswith(f"; expected {fmt.description}")
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0 0 0 512 1\n" * 300_000 + b"y" * (3 << 20) + b"\n", ":300001: 'yyy"),
        (b"0 0 0 512 1\n\xff\x00\xfe 0 0 512 1\n", ":2: "),
        (None, "No such file"),
    ],
    ids=["a long line", "binary data", "no file"],
)
def test_reader_names_the_line_or_the_file_that_it_cannot_read(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "t").write_bytes(content)
    with pytest.raises(LinnappError, match=message) as raised:
        list(read_columns(tmp_path / "t", FORMATS["heimdall"]))
    assert len(str(raised.value)) < 500


def test_iolog_skips_lines_that_are_not_ios(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "t", "iolog", "0 f add", "0 f open", "5 f read 0 512", "6 f sync",
        "7 f trim 0 9", "8 f write 512 512", "9 f wait 10", "9 f close",
    )  # fmt: skip
    (chunk,) = iolog.read_workload(path, "iolog")
    assert chunk.time_us.tolist() == [5, 8]
    assert chunk.is_write.tolist() == [False, True]


def test_text_writer_prints_what_python_would_print() -> None:
    rng = np.random.default_rng(3)
    n = 1000
    ios = Workload(
        np.sort(rng.integers(0, 1 << 62, n)),
        rng.integers(0, 1 << 62, n),
        rng.integers(1, 1 << 62, n),
        rng.random(n) < 0.5,
    )
    expected = [
        f"{time_us} name {'write' if is_write else 'read'} {offset} {size}"
        for time_us, offset, size, is_write in zip(
            ios.time_us, ios.offset_bytes, ios.size_bytes, ios.is_write, strict=True
        )
    ]
    assert iolog_lines(ios, "name").decode().splitlines() == expected


def test_text_trace_with_only_a_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("device_id,opcode,offset,length,timestamp\n")
    with pytest.raises(TraceError, match="only the header of the format alibaba"):
        detect_format(path)
    assert not list(read_columns(path, FORMATS["alibaba"]))
