# SPDX-License-Identifier: MIT
"""Text of block layer events (blkparse, perf script, ftrace) is read as a recording."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from replaying import replay

from linnapp.cli import cli
from linnapp.errors import TraceError
from linnapp.trace import replay_log
from linnapp.trace.convert import detect_format
from linnapp.trace.reads import load

BLKPARSE = """\
  8,0    1        1     0.000000000   661  Q   R 95839968 + 8 [fio]
  8,0    1        2     0.000001000   661  G   R 95839968 + 8 [fio]
  8,0    1        0     0.000001500     0  m   N cfq661 alloced
  8,0    1        3     0.000002000   661  P   N [fio]
  8,0    1        4     0.000002000   661  D   R 95839968 + 8 [fio]
  8,0    1        5     0.000010000   661  Q  WS 1024 + 16 [fio]
  8,0    1        6     0.000011000   661  G  WS 1024 + 16 [fio]
  8,0    1        7     0.000012000   661  D  WS 1024 + 16 [fio]
  8,0    1        8     0.000082000     0  C   R 95839968 + 8 [0]
  8,0    1        9     0.000112000     0  C  WS 1024 + 16 [0]
CPU0 (sda):
 Reads Queued:           1,        4KiB
"""

FTRACE = """\
# tracer: nop
#
              fio-5405  [002]  8018.233160: block_rq_issue:       8,0 R 4096 () 184067232 + 8 [fio]
           <idle>-0     [002]  8018.233260: block_rq_complete:    8,0 R () 184067232 + 8 [0]
         fio-5405  [002] d..1. 8018.233300: block_rq_issue: 8,0 WS 8192 () 64 + 16 none,0,0 [fio]
              fio-5405  [002] d..1. 8018.233310: sched_switch: prev_comm=fio
           <idle>-0     [002] d.h2. 8018.233500: block_rq_complete: 8,0 WS () 64 + 16 none,0,0 [-5]
"""

PERF = """\
fio  5405 [002]  8018.233150: block:block_bio_queue: 8,0 R 184067232 + 8 [fio]
fio  5405 [002]  8018.233155:     block:block_getrq: 8,0 R 184067232 + 8 [fio]
fio  5405 [002]  8018.233160:  block:block_rq_issue: 8,0 R 4096 () 184067232 + 8 [fio]
        ffffffff8a5 blk_mq_start_request ([kernel.kallsyms])

swapper     0 [002]  8018.233260: block:block_rq_complete: 8,0 R () 184067232 + 8 [0]
"""


def columns(path: Path) -> list[tuple[int, int, int, int]]:
    """Return time, sector, bytes and latency in us of each I/O."""
    found = load(path)
    return list(
        zip(
            (found.arrival_ns // 1000).tolist(), found.sector.tolist(), found.size_bytes.tolist(),
            (found.latency_ns // 1000).tolist(), strict=True,
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "ios"),
    [
        (BLKPARSE, [(0, 95839968, 4096, 80), (10, 1024, 8192, 100)]),
        (FTRACE, [(8018233160, 184067232, 4096, 100), (8018233300, 64, 8192, 200)]),
        (PERF, [(8018233150, 184067232, 4096, 100)]),
    ],
)
@pytest.mark.parametrize("form", ["plain", "CRLF", "byte order mark", "gzip"])
def test_common_event_texts_are_read_as_recordings(
    tmp_path: Path, text: str, ios: list[tuple[int, int, int, int]], form: str
) -> None:
    path = tmp_path / "sda.txt"
    data = text.replace("\n", "\r\n").encode() if form == "CRLF" else text.encode()
    data = b"\xef\xbb\xbf" * (form == "byte order mark") + data
    path.write_bytes(gzip.compress(data) if form == "gzip" else data)
    assert detect_format(path) == "blktrace"
    assert columns(path) == ios


def test_error_code_counts_with_any_sign(tmp_path: Path) -> None:
    for error in ("-5", "5", "65531"):
        path = tmp_path / f"{error}.txt"
        path.write_text(FTRACE.replace("[-5]", f"[{error}]"))
        result = CliRunner().invoke(cli, ["inspect", "--json", str(path)])
        assert json.loads(result.stdout)["events"]["errors"] == 1


def test_line_that_is_not_an_event_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sda.txt"
    lines = BLKPARSE.splitlines(keepends=True)
    path.write_text("".join([*lines[:4], lines[4].replace("D", "?"), *lines[5:]]))
    with pytest.raises(TraceError, match=r"sda\.txt:5: '.*' is not an event of the block layer"):
        load(path)


#: Lines as blkparse prints them for a flush, a passthrough command, and programs in its summary.
OTHER_LINES = """\
  8,0    1       10     0.000090000   661  Q FWS [fio]
  8,0    1       11     0.000091000   661  D FWS [fio]
  8,0    1       12     0.000092000   661  C FWS 0 [0]
  8,0    1       13     0.000093000   661  D   R 36 (12 01 00 00 24 00) [smartctl]
  8,0    1       14     0.000094000   661  C   R (12 01 00 00 24 00) [0]
  8,0    1       15     0.000095000   661  D   R 36 [smartctl]
  8,0    1       16     0.000096000   661  C   R [0]
fio (661, ...)
 Reads Queued:           1,        4KiB
"""


def test_flushes_and_passthrough_commands_of_blkparse_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "sda.txt"
    events, summary = BLKPARSE.split("CPU0")
    path.write_text(events + OTHER_LINES + "CPU0" + summary)
    assert columns(path) == [(0, 95839968, 4096, 80), (10, 1024, 8192, 100)]


@pytest.mark.parametrize("requeue", ["", "block_rq_requeue: 8,0 R () 64 + 8 [0]"])
def test_request_that_is_issued_again_is_counted_once(tmp_path: Path, requeue: str) -> None:
    path = tmp_path / "sda.txt"
    events = [
        "block_rq_issue: 8,0 R 4096 () 64 + 8 [x]", requeue,
        "block_rq_issue: 8,0 R 4096 () 64 + 8 [x]", "block_rq_complete: 8,0 R () 64 + 8 [0]",
    ]  # fmt: skip
    path.write_text("".join(f"x-1 [0] 1.00010{i}: {e}\n" for i, e in enumerate(events) if e))
    assert columns(path) == [(1000100, 64, 4096, 3)]


@pytest.mark.parametrize(
    ("operation", "is_write"),
    [
        *((operation, False) for operation in ("R", "RA", "RSM")),
        *((operation, True) for operation in ("W", "WS", "FWFS", "WSU", "ZA", "ZAS")),
        *((operation, None) for operation in ("D", "DE", "N", "NS", "WZ", "WZS")),
        *((operation, None) for operation in ("ZR", "ZRA", "ZF", "ZO", "ZC")),
    ],
)
def test_operation_is_read_write_or_without_data(
    tmp_path: Path, operation: str, is_write: bool | None
) -> None:
    path = tmp_path / "sda.txt"
    path.write_text(FTRACE.replace(" WS ", f" {operation} "))
    found = load(path)
    written = {64: is_write} if is_write is not None else {}
    assert dict(zip(found.sector.tolist(), found.is_write.tolist(), strict=True)) == {
        184067232: False, **written
    }  # fmt: skip


def test_completions_of_drives_without_requests_are_read(tmp_path: Path) -> None:
    path = tmp_path / "md0.txt"
    path.write_text(
        "x-1 [000] d..1. 1.000100: block_bio_queue: 9,0 R 64 + 8 [x]\n"
        "x-1 [000] d..1. 1.000190: block_bio_complete: 9,0 R 64 + 8 [0]\n"
    )
    assert columns(path) == [(1000100, 64, 4096, 90)]


@pytest.mark.parametrize(
    ("report", "lost"),
    [
        ("CPU:2 [LOST 123 EVENTS]", 123),
        ("CPU:2 [LOST EVENTS]", 1),
        ("fio 5405 [002]  8018.233270: PERF_RECORD_LOST lost 77", 77),
    ],
)
def test_lost_events_that_the_text_reports_are_counted(
    tmp_path: Path, report: str, lost: int
) -> None:
    path = tmp_path / "sda.txt"
    lines = FTRACE.splitlines()
    path.write_text("\n".join([*lines[:4], report, *lines[4:]]) + "\n")
    result = CliRunner().invoke(cli, ["inspect", "--json", str(path)])
    assert json.loads(result.stdout)["events"]["lost_events"] == lost


def test_events_after_many_others_are_found(tmp_path: Path) -> None:
    path = tmp_path / "sda.txt"
    other = "          bash-1     [000] d..2. 12.000001: sched_switch: prev_comm=bash\n"
    path.write_text("# tracer: nop\n" + other * 300 + FTRACE)
    assert len(columns(path)) == 2


@pytest.mark.parametrize(
    ("text", "again"),
    [
        (BLKPARSE.split("CPU0")[0], 11), (FTRACE + FTRACE.replace("8018.2", "8010.2"), 10),
        (FTRACE + FTRACE, 10),
    ],
)  # fmt: skip
def test_text_of_two_recordings_is_refused(tmp_path: Path, text: str, again: int) -> None:
    path = tmp_path / "sda.txt"
    path.write_text(text if "8018" in text else text * 2)
    with pytest.raises(TraceError, match=rf"sda\.txt:{again}: .* a second recording begins"):
        load(path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (BLKPARSE[: BLKPARSE.rindex(" 16 [0]")], 10),
        (BLKPARSE[: BLKPARSE.rindex("6 [0]")], 10),
        (FTRACE[: FTRACE.rindex("6 none")], 7),
        (BLKPARSE.replace("C   R", "C\0  R"), 9),
    ],
)
def test_damaged_line_is_refused(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "sda.txt"
    path.write_text(text)
    with pytest.raises(TraceError, match=rf"sda\.txt:{line}: "):
        load(path)


def test_replayer_reads_event_texts(tmp_path: Path, drives: list[Path]) -> None:
    path = tmp_path / "sda.txt"
    path.write_text(BLKPARSE.replace("95839968", "512"))
    log = tmp_path / "o.log"
    replay(drives, [path], "baseline", "--log", str(log))
    found = replay_log.read(log)
    rows = zip(
        (found["due_ns"] // 1000).tolist(), found["op"].tolist(), found["offset_bytes"].tolist(),
        found["size_bytes"].tolist(), strict=True,
    )  # fmt: skip
    assert sorted(rows) == [
        (0, replay_log.READ, 512 * 512, 4096),
        (10, replay_log.WRITE, 1024 * 512, 8192),
    ]
