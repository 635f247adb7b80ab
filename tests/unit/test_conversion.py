# SPDX-License-Identifier: MIT
"""Trace formats: reading, filtering, writing, and errors that name the line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from linnapp.cli import cli
from linnapp.errors import LinnappError, TraceError
from linnapp.trace import convert as conversion
from linnapp.trace import convert as iolog
from linnapp.trace.convert import Filters, Workload, convert, detect_format

HEIMDALL = """\
0.000 0 200626176 4096 0
223.412 0 3159347200 36864 0
223.434 0 512 1024 1
500.5 0 8192 0 1
1000.25 0 3154132992 4096 1
"""


def load(path: Path) -> list[tuple[int, bool, int, int]]:
    chunks = list(iolog.read_workload(path, "iolog"))
    return [
        row
        for c in chunks
        for row in zip(
            c.time_us.tolist(),
            c.is_write.tolist(),
            c.offset_bytes.tolist(),
            c.size_bytes.tolist(),
            strict=True,
        )
    ]


@pytest.fixture
def heimdall(tmp_path: Path) -> Path:
    path = tmp_path / "msr.trace"
    path.write_text(HEIMDALL)
    return path


def test_convert_writes_a_heimdall_trace_as_iolog(heimdall: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.iolog"
    assert detect_format(heimdall) == "heimdall"
    assert convert(heimdall, out, device_name="/dev/x") == 4  # the one without data is left out
    assert load(out) == [
        (0, True, 200626176, 4096),
        (223412, True, 3159347200, 36864),
        (223434, False, 512, 1024),
        (1000250, False, 3154132992, 4096),
    ]
    assert out.read_text().splitlines()[:3] == [
        "fio version 3 iolog",
        "0 /dev/x add",
        "0 /dev/x open",
    ]


def test_convert_filters_by_time_scales_it_and_fits_ios_into_the_drive(
    heimdall: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.iolog"
    convert(heimdall, out, filters=Filters((0.2, 0.5), 10.0, 1 << 20))
    (first, second) = load(out)
    assert first == (2341, True, (1 << 20) - 36864, 36864)  # would reach over the end
    assert second == (2343, False, 0, 4096)  # bytes 512 to 1536: one aligned block


def test_fit_keeps_every_io_inside_and_aligned(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n = 5000
    chunk = Workload(
        np.arange(n),
        rng.integers(0, 1 << 40, n) * 512,
        rng.integers(1, 4096, n) * 512,
        rng.random(n) < 0.5,
    )
    drive = (1 << 20) + 5000
    (fitted,) = conversion.filtered([chunk], Filters(fit_bytes=drive))
    assert np.all(fitted.offset_bytes % 4096 == 0)
    assert np.all(fitted.size_bytes % 4096 == 0)
    assert np.all(fitted.size_bytes > 0)
    assert np.all(fitted.offset_bytes >= 0)
    assert np.all(fitted.offset_bytes + fitted.size_bytes <= (1 << 20) + 4096)
    with pytest.raises(LinnappError, match="smaller than one block"):
        list(conversion.filtered([chunk], Filters(fit_bytes=100)))


def test_convert_filters_traces_of_several_chunks(tmp_path: Path) -> None:
    path = tmp_path / "big.trace"
    path.write_text("".join(f"{i * 0.5:.3f} 0 {i * 4096} 4096 {i % 2}\n" for i in range(5000)))
    out = tmp_path / "out.iolog"
    assert convert(path, out, filters=Filters((1.0, 2.0)), chunk_ios=10) == 2000
    rows = load(out)
    assert rows[0] == (0, True, 2000 * 4096, 4096)
    assert rows[-1] == (999500, False, 3999 * 4096, 4096)


@pytest.mark.parametrize("name", ["msr.trace", "./msr.trace", "link"])
def test_convert_does_not_replace_its_input(heimdall: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(heimdall)
    with pytest.raises(LinnappError, match="is the trace to convert; name another output file"):
        convert(heimdall, tmp_path / name)
    assert heimdall.read_text() == HEIMDALL


def test_convert_does_not_replace_a_file_of_its_recording(tmp_path: Path) -> None:
    for cpu in range(2):
        (tmp_path / f"x.blktrace.{cpu}").write_bytes(b"")
    with pytest.raises(LinnappError, match="is the trace to convert"):
        convert(tmp_path / "x", tmp_path / "x.blktrace.1")


def test_output_to_a_pipe_is_refused_by_its_name(heimdall: Path) -> None:
    ends = os.pipe()
    with pytest.raises(LinnappError, match=f"^/dev/fd/{ends[1]}: a pipe or a device; .*another"):
        convert(heimdall, f"/dev/fd/{ends[1]}")


def test_convert_without_matching_ios_is_an_error(heimdall: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(TraceError, match="no I/O to convert by `slice_s=100:200`$"):
        convert(heimdall, target, filters=Filters((100, 200)))
    with pytest.raises(TraceError, match="no I/O to convert by `volume='.udcff'`$"):
        convert(heimdall, target, volume="\udcff")
    heimdall.write_text("0.000 0 200626176 0 0\n")
    with pytest.raises(TraceError, match="no I/O to convert$"):
        convert(heimdall, target)
    assert [path.name for path in tmp_path.iterdir()] == ["msr.trace"]


@pytest.mark.parametrize(
    "content",
    [
        "0.0 0 8192 0 1\n1.0 0 4096 4096 1\n2.0 0 0 0 0\n",
        "fio version 3 iolog\n0 d read 8192 0\n1000 d read 4096 4096\n2000 d write 0 0\n",
        "1,100,1,0,8192,0.0,0\n1,100,1,4096,4096,1.0,4096\n2,100,0,0,0,2.0,0\n",
    ],
)
def test_zero_length_ios_are_left_out_and_counted(tmp_path: Path, content: str) -> None:
    source, target = tmp_path / "in", tmp_path / "out.iolog"
    source.write_text(content)
    result = CliRunner().invoke(cli, ["convert", str(source), str(target)])
    assert result.output == f"{target}: 1 I/Os; 2 of no length left out\n"
    assert [size for *_, size in load(target)] == [4096]


def fio(directory: Path, *options: str) -> dict[str, Any]:
    result = subprocess.run(
        ["fio", "--name=x", "--ioengine=psync", "--output-format=json", *options],
        check=True,
        capture_output=True,
        cwd=directory,
    )
    job: dict[str, Any] = json.loads(result.stdout)["jobs"][0]
    return job


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio not installed")
def test_fio_replays_the_output_of_convert(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(bytes(1 << 20))
    ios = Workload(
        np.array([0, 1000, 30000]),
        np.array([0, 4096, 8192]),
        np.array([4096, 4096, 8192]),
        np.array([False, True, False]),
    )
    log = tmp_path / "in.iolog"
    iolog.write_iolog(log, [ios], str(target))
    job = fio(tmp_path, f"--read_iolog={log}")
    assert (job["read"]["total_ios"], job["write"]["total_ios"]) == (2, 1)
    assert (job["read"]["io_bytes"], job["write"]["io_bytes"]) == (4096 + 8192, 4096)


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio not installed")
def test_linnapp_reads_the_output_of_fio(tmp_path: Path) -> None:
    log = tmp_path / "out.iolog"
    fio(
        tmp_path, "--filename=file", "--size=1M", "--rw=randrw", "--bs=4k", f"--write_iolog={log}",
        "--number_ios=20", "--thinktime=2000",
    )  # fmt: skip
    rows = load(log)
    assert len(rows) == 20
    # fio thinks for 2000 us after each I/O, so its log can only be in microseconds.
    assert rows[-1][0] >= 19 * 2000
    assert all(row[3] == 4096 for row in rows)
