# SPDX-License-Identifier: MIT
"""`linnapp demo` without a guest: its result, its picture, and what it says is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest

from eval import demo as large_demo
from linnapp.lab import demo, uml
from linnapp.lab.guest import LabError
from linnapp.lab.picture import draw_dots

RUNS = [
    {"name": name, "mean_us": mean, "p99_us": p99}
    for name, mean, p99 in (
        ("baseline", 207.4, 2101.6), ("c3", 95.1, 189), ("linnos", 87, 3000), ("fastest", 76, 182),
    )
]  # fmt: skip


def run_linnapp(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linnapp", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_result_sentence_contains_the_numbers_whether_a_policy_wins_or_loses() -> None:
    sentence = demo.result_sentence(RUNS)
    assert "take 2102 us or more and all reads 207 us" in sentence
    assert "network 3000 and 87 us" in sentence and "(fastest) 182 and 76 us" in sentence
    assert sentence.count(".") == 1


def test_picture_has_a_labelled_dot_and_ring_per_row() -> None:
    picture = ET.fromstring(draw_dots("a <title>", [("a & b", 50, 100), ("c", 500, 5000)]))
    svg = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in picture.iter(f"{svg}text")]
    assert {"a <title>", "a & b", "50", "100", "500", "5000"} <= set(texts)
    first, _, _, last = (float(circle.attrib["cx"]) for circle in picture.iter(f"{svg}circle"))
    assert first < last
    assert len(list(picture.iter(f"{svg}circle"))) == 4


@pytest.mark.parametrize("rows", [demo.ROWS, large_demo.ROWS], ids=["small", "large"])
def test_no_two_rows_of_a_demo_write_the_same_files(rows: Sequence[demo.Row]) -> None:
    files = [(row.folder, row.policy) for row in rows]
    assert len(files) == len(set(files)) >= len(demo.ROWS)


@pytest.mark.parametrize("place", ["venv", ".", "site", "site/linnapp"])
def test_installed_linnapp_finds_the_unpacked_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.delenv("LINNOS_LAB_KERNEL", raising=False)
    monkeypatch.setattr(uml, "IN_CLONE", False)
    monkeypatch.setattr(uml, "REPOSITORY", tmp_path / "site")
    monkeypatch.setattr("sys.prefix", str(tmp_path / "venv"))
    assert uml._find_kernel() == tmp_path / "venv" / uml.ARCHIVE / "linux"
    kernel = tmp_path / place / uml.ARCHIVE / "linux"
    kernel.parent.mkdir(parents=True)
    kernel.touch()
    assert uml._find_kernel().resolve() == kernel.resolve()


def test_missing_lab_kernel_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LabError, match="`make kernel` builds it, or set LINNOS_LAB_KERNEL"):
        uml.check_kernel(tmp_path / "linux")
    monkeypatch.setattr(uml, "IN_CLONE", False)
    with pytest.raises(LabError, match=rf"unpack it: tar -xf {uml.ARCHIVE}.tar.xz -C /"):
        uml.check_kernel(tmp_path / "linux")
    (tmp_path / "linux").touch()
    with pytest.raises(LabError, match="not executable"):
        uml.check_kernel(tmp_path / "linux")


@pytest.mark.parametrize("command", [("demo",), ("lab", "run", "--", "true")])
def test_commands_without_a_lab_kernel_fail_before_anything_is_written(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    result = run_linnapp(*command, cwd=tmp_path, LINNOS_LAB_KERNEL="/no/linux")
    assert result.returncode == 1 and "/no/linux: no lab kernel there; " in result.stderr, (
        result.stderr
    )
    assert not list(tmp_path.iterdir())


def test_demo_without_replayer_or_blktrace_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "check_kernel", lambda _: None)
    monkeypatch.setattr(demo, "find_replayer", lambda: tmp_path / "replayer")
    with pytest.raises(LabError, match="`make replayer` builds it"):
        demo.check_demo()
    (tmp_path / "replayer").touch()
    monkeypatch.setattr(demo, "DEFAULT_PATH", str(tmp_path))
    with pytest.raises(LabError, match="apt-get install blktrace"):
        demo.check_demo()
