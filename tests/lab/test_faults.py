# SPDX-License-Identifier: MIT
"""Fault rules damage exactly what they say, equally in every run, and nothing else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fault_rules import (
    FLIP,
    HELPER,
    INTERVAL,
    THESIS,
    THESIS_BLOCKS,
    check_thesis_rule,
    rules,
    write_thesis_rules,
)

from linnapp.lab.array import Array

pytestmark = pytest.mark.lab

# Small file systems default to 1 KiB blocks; a file's 4 KiB blocks are the drive's only if
# they are aligned.
PREPARE = f"""
mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 /dev/flash0
mkdir -p /run/mnt && mount /dev/flash0 /run/mnt
compare() {{ python3 {HELPER} /run/mnt/$1 $2 $3; }}
compare other 2560 --allocate-only
compare file BLOCKS --allocate-only
run() # NAME: write both files under the rules in NAME.rules
{{
    linnapp faults install $OUT/$1.rules
    compare other 2560 >$OUT/$1.other
    compare file BLOCKS >$OUT/$1.json
    linnapp faults show flash0 >$OUT/$1.txt
    linnapp faults remove flash0
    # Other data is still right after the file was damaged.
    compare other 2560 --no-write >$OUT/$1.other_after
}}
"""


@pytest.mark.long
def test_thesis_experiment_is_exact_and_two_runs_agree(boot, tmp_path: Path) -> None:
    """Run all frequencies in one boot, on the same two files, and the first one in another boot."""
    first_hash = run_thesis(boot, tmp_path, ["INTERVAL"])["INTERVAL"]
    hashes = run_thesis(boot, tmp_path, list(THESIS))
    assert hashes["INTERVAL"] == first_hash
    assert len(set(hashes.values())) == 3


def run_thesis(boot, folder: Path, names: list[str]) -> dict[str, str]:
    """Run the experiment with these frequencies; return a hash of each damaged file."""
    write_thesis_rules(folder)
    script = PREPARE.replace("BLOCKS", str(THESIS_BLOCKS)) + "".join(f"run {n}\n" for n in names)
    boot(script, Array(n_drives=1, size_mb=2048, precondition=False))
    hashes = {}
    for name in names:
        hashes[name] = check_thesis_rule(folder, name, THESIS_BLOCKS)["sha256"]
        other, after = (
            json.loads((folder / f"{name}.{when}").read_text()) for when in ("other", "other_after")
        )
        assert other["damaged"] == 0 and after == other
    return hashes


@pytest.mark.parametrize(
    ("op", "n_requests", "fault", "stays"),
    [
        ("read", 7, {**FLIP, "offset": 9, "index": 2}, False),
        ("write", 100, {"type": "LOST_WRITE"}, True),
    ],
)
def test_faults_of_writes_stay_and_those_of_reads_end_with_the_rule(
    boot, tmp_path: Path, op: str, n_requests: int, fault: dict[str, Any], stays: bool
) -> None:
    frequency = {"frequency": "INTERVAL", "nRequests": n_requests}
    (tmp_path / "one.rules").write_text(rules(frequency, fault, op))
    boot(
        PREPARE.replace("BLOCKS", "2560") + "run one; compare file 2560 --no-write >$OUT/again",
        Array(n_drives=1, size_mb=128, precondition=False),
    )
    file, again = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "again"))
    assert file["damaged"] == 2560 // n_requests
    assert file["first"] == [n_requests, 2 * n_requests, 3 * n_requests]
    assert again == file if stays else again["damaged"] == 0


def test_tags_of_threads_rings_and_aio_reach_the_driver(boot, tmp_path: Path) -> None:
    """This program also tests tags in `linnapp watch`, on kernels that can be watched."""
    source = Path(__file__).parents[1] / "unit" / "watched_programs" / "tagged_reads.c"
    program = tmp_path / "tagged_reads"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, source, "-luring"], check=True)
    tags = (0, 3, 8, 100, 101, 102, 200, 400, 500, 1023)
    boot(
        "".join(f"rule flash0 tag{tag} op=read count=request tag={tag}\n" for tag in tags)
        + "$OUT/tagged_reads /dev/flash0 >$OUT/said\ncd $flashsim/flash0/rules\n"
        + "".join(f"cat tag{tag}/matched >>$OUT/matched\n" for tag in tags),
        Array(n_drives=1, size_mb=64, precondition=False),
    )
    matched = map(int, (tmp_path / "matched").read_text().split())
    found = dict(zip(tags, matched, strict=True))
    set_tags = (tmp_path / "said").read_text().split()[1::2]
    # I/O without an application's tag has a command duration limit, or no hint.
    assert found.pop(0) + found.pop(3) == set_tags.count("0") == 16 * 4
    assert found.pop(500) == 0  # without a class
    assert found == {tag: set_tags.count(str(tag)) for tag in found} == dict.fromkeys(found, 16)


def test_bad_rule_files_are_refused_and_leave_nothing(boot, tmp_path: Path) -> None:
    bad = {
        "syntax": "{",
        "frequency": rules({"frequency": "SOMETIMES"}, FLIP),
        "missing": rules(INTERVAL, FLIP).replace("/run/mnt/file", "/run/mnt/none"),
        "tmpfs": rules(INTERVAL, FLIP).replace("/run/mnt/file", "/run/tmp/file"),
        "read_lost": rules(INTERVAL, {"type": "LOST_WRITE"}, "read"),
    }
    for name, text in bad.items():
        (tmp_path / f"{name}.rules").write_text(text)
    script = (
        PREPARE.replace("BLOCKS", "256")
        + r"""
echo x >/run/tmp/file
for f in $OUT/*.rules; do
    if linnapp faults install $f 2>$f.err; then exit 9; fi
done
ls $flashsim/flash0/rules | wc -l >$OUT/left
"""
    )
    boot(script, Array(n_drives=1, size_mb=128, precondition=False))
    assert (tmp_path / "left").read_text() == "0\n"
    assert "SOMETIMES" in (tmp_path / "frequency.rules.err").read_text()
    assert "/run/mnt/none" in (tmp_path / "missing.rules.err").read_text()
