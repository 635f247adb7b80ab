# SPDX-License-Identifier: MIT
"""Fault rules damage exactly what they say, equally in every run, and nothing else.

The experiment of the FISPDK thesis (Miranda, 2023): a file of 316,672 4-KiB
blocks is written while a rule is active, and read back.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from linnapp.lab.array import Array

pytestmark = pytest.mark.lab

HELPER = Path(__file__).with_name("write_and_compare.py")
THESIS_BLOCKS = 316_672

# Small file systems default to 1 KiB blocks; a file's 4 KiB blocks are the drive's only if
# they are aligned.
PREPARE = f"""
mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 /dev/flash0
mkdir -p /run/mnt && mount /dev/flash0 /run/mnt
python3 {HELPER} /run/mnt/other 2560 --allocate-only
python3 {HELPER} /run/mnt/file %(blocks)d --allocate-only
"""

RUN = f"""
linnapp faults install $OUT/rules.json
python3 {HELPER} /run/mnt/other 2560 >$OUT/other.json
python3 {HELPER} /run/mnt/file %(blocks)d >$OUT/file.json
linnapp faults show flash0 >$OUT/rules.txt
linnapp faults remove flash0
"""

READ_AGAIN = f"""
python3 {HELPER} /run/mnt/file %(blocks)d --no-write >$OUT/again.json
"""


def _rules(frequency: dict[str, Any], fault: dict[str, Any], op: str = "write") -> str:
    entry = {"fileName": "/run/mnt/file", "faultInjection": {**frequency, "faultType": fault}}
    return json.dumps({op: {"files": [entry]}})


def _result(out: Path, name: str) -> dict[str, Any]:
    result = json.loads((out / f"{name}.json").read_text())
    assert isinstance(result, dict)
    return result


FLIP = {"type": "CORRUPTION", "corruptionPattern": "BIT_FLIP"}
INTERVAL = {"frequency": "INTERVAL", "nRequests": 500}


# name: rule, blocks damaged, the first three of them, the last.
THESIS = {
    "INTERVAL": (INTERVAL, FLIP, 633, [500, 1000, 1500], 316_500),
    "ALL": (
        {"frequency": "ALL"},
        {"type": "CORRUPTION", "corruptionPattern": "ALL_ZEROS"},
        THESIS_BLOCKS,
        [1, 2, 3],
        THESIS_BLOCKS,
    ),
    "ALL_AFTER": (
        {"frequency": "ALL_AFTER", "nRequests": 500},
        {"type": "CORRUPTION", "corruptionPattern": "ALL_ONES"},
        316_172,
        [501, 502, 503],
        THESIS_BLOCKS,
    ),
}


@pytest.mark.long
def test_thesis_experiment_is_exact_and_two_runs_agree(boot, tmp_path: Path) -> None:
    """Run all frequencies in one boot, on the same two files, and the first one in another boot."""
    first_hash = _run_thesis(boot, tmp_path, ["INTERVAL"])["INTERVAL"]
    hashes = _run_thesis(boot, tmp_path, list(THESIS))
    assert hashes["INTERVAL"] == first_hash
    assert len(set(hashes.values())) == 3


def _run_thesis(boot, tmp_path: Path, names: list[str]) -> dict[str, str]:
    """Run the experiment with these frequencies; return a hash of each damaged file."""
    knobs = {"blocks": THESIS_BLOCKS}
    script = PREPARE % knobs
    for name in names:
        frequency, fault, *_ = THESIS[name]
        (tmp_path / f"{name}.rules").write_text(_rules(frequency, fault))
        script += f"cp $OUT/{name}.rules $OUT/rules.json\n" + RUN % knobs
        # Other data is still right after the file was damaged.
        script += f"python3 {HELPER} /run/mnt/other 2560 --no-write >$OUT/other_after.json\n"
        script += f"for f in file other other_after; do mv $OUT/$f.json $OUT/{name}.$f.json; done\n"
        script += f"mv $OUT/rules.txt $OUT/{name}.txt\n"
    boot(script, Array(n_drives=1, size_mb=2048, precondition=False))
    hashes = {}
    for name in names:
        _, _, damaged, first, last = THESIS[name]
        file = _result(tmp_path, f"{name}.file")
        assert (file["damaged"], file["first"]) == (damaged, first)
        assert (file["last"][-1], file["steps"]) == (last, [500 if name == "INTERVAL" else 1])
        counted = f"matched={THESIS_BLOCKS} injected={damaged}"
        assert counted in (tmp_path / f"{name}.txt").read_text()
        other = _result(tmp_path, f"{name}.other")
        assert other["damaged"] == 0
        assert _result(tmp_path, f"{name}.other_after") == other
        hashes[name] = file["sha256"]
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
    (tmp_path / "rules.json").write_text(_rules(frequency, fault, op))
    boot(
        (PREPARE + RUN + READ_AGAIN) % {"blocks": 2560},
        Array(n_drives=1, size_mb=128, precondition=False),
    )
    file, again = _result(tmp_path, "file"), _result(tmp_path, "again")
    assert file["damaged"] == 2560 // n_requests
    assert file["first"] == [n_requests, 2 * n_requests, 3 * n_requests]
    assert again == file if stays else again["damaged"] == 0


def test_tags_of_threads_rings_and_aio_reach_the_driver(boot, tmp_path: Path) -> None:
    """This program also tests tags in `linnapp watch`, on kernels that can be watched."""
    source = Path(__file__).parents[1] / "unit" / "watched_programs" / "tagged_reads.c"
    program = tmp_path / "tagged_reads"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, source, "-luring"], check=True)
    rules = (0, 3, 8, 100, 101, 102, 200, 400, 500, 1023)
    script = r"""
for tag in %s; do
    rule=/sys/kernel/config/flashsim/flash0/rules/tag$tag
    mkdir $rule
    echo read >$rule/op
    echo request >$rule/count
    echo $tag >$rule/tag
    echo 1 >$rule/enabled
done
$OUT/tagged_reads /dev/flash0 >$OUT/said
for tag in %s; do cat /sys/kernel/config/flashsim/flash0/rules/tag$tag/matched; done >$OUT/matched
"""
    names = " ".join(map(str, rules))
    boot(script % (names, names), Array(n_drives=1, size_mb=64, precondition=False))
    matched = map(int, (tmp_path / "matched").read_text().split())
    found = dict(zip(rules, matched, strict=True))
    said = (tmp_path / "said").read_text().split()[1::2]
    # I/O without an application's tag has a command duration limit, or no hint.
    assert found.pop(0) + found.pop(3) == said.count("0") == 16 * 4
    assert found.pop(500) == 0  # without a class
    assert found == {tag: said.count(str(tag)) for tag in found} == dict.fromkeys(found, 16)


def test_bad_rule_files_are_refused_and_leave_nothing(boot, tmp_path: Path) -> None:
    bad = {
        "syntax": "{",
        "frequency": _rules({"frequency": "SOMETIMES"}, FLIP),
        "missing": _rules(INTERVAL, FLIP).replace("/run/mnt/file", "/run/mnt/none"),
        "tmpfs": _rules(INTERVAL, FLIP).replace("/run/mnt/file", "/run/tmp/file"),
        "read_lost": _rules(INTERVAL, {"type": "LOST_WRITE"}, "read"),
    }
    for name, text in bad.items():
        (tmp_path / f"{name}.rules").write_text(text)
    script = (
        PREPARE % {"blocks": 256}
        + r"""
echo x >/run/tmp/file
for f in $OUT/*.rules; do
    if linnapp faults install $f 2>$f.err; then exit 9; fi
done
ls /sys/kernel/config/flashsim/flash0/rules | wc -l >$OUT/left
"""
    )
    boot(script, Array(n_drives=1, size_mb=128, precondition=False))
    assert (tmp_path / "left").read_text() == "0\n"
    assert "SOMETIMES" in (tmp_path / "frequency.rules.err").read_text()
    assert "/run/mnt/none" in (tmp_path / "missing.rules.err").read_text()
