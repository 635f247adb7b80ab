# SPDX-License-Identifier: MIT
"""linnos-ublk on a kernel without ublk: its options, its man page, its refusals."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def program() -> Path:
    out = ROOT / "build" / "ublk"
    subprocess.run(
        ["make", "-s", "-C", ROOT / "liblinnos" / "ublk", f"OUT={out}"],
        check=True,
        capture_output=True,
    )
    return out / "linnos-ublk"


def ran(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def test_man_page_has_the_options_of_help(program: Path) -> None:
    told = ran(program, "--help")
    assert told.returncode == 0
    page = (ROOT / "docs" / "linnos-ublk.8").read_text().replace("\\-", "-")
    options = set(re.findall(r"^  (--[a-z-]+)", told.stdout, re.MULTILINE))
    assert len(options) == 20
    assert set(re.findall(r"^\.(?:B|BI|BR) (--[a-z-]+)", page, re.MULTILINE)) == options
    assert max(map(len, told.stdout.splitlines())) <= 110


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a"], "the number of replicas is 1; it must be from 2 to 16"),
        (["a", "b"], "exactly one of --assume-clean, --compare and --resync"),
        (["--assume-clean", "--compare", "a", "b"], "exactly one of --assume-clean, --compare"),
        (["--assume-clean", *"abcdefghijklmnopq"], "there are more than 16 replicas"),
        (["--assume-clean", "--size", "3Q", "a", "b"], "--size 3Q: it must be a number of bytes"),
        (["--assume-clean", "--size", "99999999T", "a", "b"], "must be a whole number"),
        (["--assume-clean", "--queues", "33", "a", "b"], "from 1 to 32"),
        (["--assume-clean", "--margin", "101", "a", "b"], "from 0 to 100"),
        (["--assume-clean", "--hedge-percentile", "100", "a", "b"], "from 0 to 99.9999999;"),
        (["--assume-clean", "--max-duplicates", "nan", "a", "b"], "must be a number"),
        (["--remove", "0", "a"], "--remove 0 takes no replicas"),
        (["--remove", "x"], "must be a whole number"),
        (["--nonsense"], "lists the options"),
    ],
)
def test_bad_usage_says_what_would_be_accepted(
    program: Path, arguments: list[str], says: str
) -> None:
    told = ran(program, *arguments)
    assert (told.returncode, told.stdout) == (2, "")
    assert says in told.stderr


@pytest.mark.skipif(Path("/dev/ublk-control").exists(), reason="this kernel has ublk")
def test_missing_driver_error_names_the_remedy(program: Path) -> None:
    told = ran(program, "--assume-clean", "a", "b")
    assert told.returncode == 1
    assert "modprobe ublk_drv" in told.stderr
