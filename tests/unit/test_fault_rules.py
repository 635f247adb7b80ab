# SPDX-License-Identifier: MIT
"""FISPDK rule files become the right rules, on flashsim drives and on device-mapper targets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, ClassVar

import pytest

from linnapp.errors import DeviceError, LinnappError
from linnapp.lab import fault_rules, faults
from linnapp.lab.faults import FaultRule, install, load_rules, parse_rules, resolve


def _document(op: str = "write", **entry: Any) -> dict[str, Any]:
    return {op: {"files": [{"fileName": "/data/f", "faultInjection": entry}]}}


FLIP = {"type": "CORRUPTION", "corruptionPattern": "BIT_FLIP"}


@pytest.mark.parametrize(
    ("fault", "knobs"),
    [
        (FLIP | {"offset": 17, "index": 3}, {"fault": "bit_flip", "offset": "17", "bit": "3"}),
        # The words of the thesis's annex.
        ({"type": "CORRUPT_CONTENT", "corruptionPattern": "BITFLIP_CUSTOM_INDEX", "offset": 0,
          "index": 0}, {"fault": "bit_flip", "offset": "0", "bit": "0"}),
        ({"type": "CORRUPT_CONTENT", "corruptionPattern": "REPLACE_ALL_ZEROS"}, {"fault": "zeros"}),
        ({"type": "CORRUPTION", "corruptionPattern": "ALL-ONES"}, {"fault": "ones"}),
        ({"type": "DELAY", "latencyUs": 700}, {"fault": "delay", "latency_us": "700"}),
        ({"type": "MEDIUM_ERROR"}, {"fault": "medium_error"}),
        # The seed determines the position.
        (FLIP | {"corruptionPattern": "RANDOM_BIT_FLIP", "offset": 4}, {"fault": "bit_flip"}),
    ],
)  # fmt: skip
def test_each_fault_and_frequency_becomes_a_rule(
    fault: dict[str, Any], knobs: dict[str, str]
) -> None:
    same = {"op": "write", "count": "block", "frequency": "interval", "n": "500"}
    document = _document(frequency="INTERVAL", nRequests=500, faultType=fault)
    assert parse_rules(document) == [FaultRule("/data/f", same | knobs)]
    (rule,) = parse_rules(_document("read", frequency="ALL", faultType={"type": "MEDIUM_ERROR"}))
    assert rule.knobs["op"] == "read" and "n" not in rule.knobs


def test_several_files_and_operations_keep_their_order() -> None:
    fault = {"frequency": "ALL", "faultType": {"type": "MEDIUM_ERROR"}, "tag": 9}
    document = {
        "write": {"files": [{"fileName": n, "faultInjection": [fault, fault]} for n in "ab"]},
        "read": {"files": [{"fileName": "c", "faultInjection": fault}]},
    }
    rules = parse_rules(document)
    assert [(r.file_name, r.knobs["op"]) for r in rules] == [
        ("a", "write"),
        ("a", "write"),
        ("b", "write"),
        ("b", "write"),
        ("c", "read"),
    ]
    assert {r.knobs["tag"] for r in rules} == {"9"}


MEDIUM = {"type": "MEDIUM_ERROR"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "write and read"),
        ({"raed": {}}, "unknown key 'raed'; known are write, read"),
        ({"write": {"files": {}}}, "write.files"),
        ({"write": {"files": [{}]}}, "fileName"),
        ({"read": {"files": [], "file": 1}}, "read: unknown key 'file'; known are files"),
        (_document(frequency="OFTEN", faultType={"type": "DELAY"}), "OFTEN"),
        (_document(frequency="INTERVAL", faultType={"type": "LOST_WRITE"}), "nRequests"),
        (_document(frequency="ALL"), "faultType"),
        (_document(frequency="ALL", faultType={"type": "DELAY"}), "latencyUs"),
        (_document(frequency="ALL", faultType={"type": "MELT"}), "MELT"),
        (_document(frequency="ALL", faultType=FLIP | {"index": 8}), "index"),
        (_document("read", frequency="ALL", faultType={"type": "LOST_WRITE"}), "LOST_WRITE"),
        (_document(frequency="ALL", faultType=MEDIUM, nrequests=5), "unknown key 'nrequests'"),
        (_document(frequency="ALL", faultType=MEDIUM | {"x": 1}), "faultType: unknown key 'x'"),
    ],
)
def test_error_of_a_wrong_rule_file_names_the_place(document: object, message: str) -> None:
    with pytest.raises(LinnappError, match=message):
        parse_rules(document)


def test_name_of_bytes_that_are_not_utf8_is_accepted() -> None:
    document = _document(frequency="ALL", faultType=MEDIUM)
    (file,) = document["write"]["files"]
    file["fileName"] = os.fsdecode(b"/data/\xff")
    assert parse_rules(json.loads(json.dumps(document)))[0].file_name == "/data/\udcff"
    file["fileName"] = "/data/\ud800"
    with pytest.raises(LinnappError, match="no file can be called that"):
        parse_rules(document)


def test_unreadable_rule_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    for load, name, message in (
        (load_rules, tmp_path / "none.json", "none.json"),
        (load_rules, tmp_path / "bad.json", "bad.json: not JSON"),
        (resolve, str(tmp_path / "nowhere"), "nowhere"),
        (resolve, "/dev/null", "neither a file nor a drive"),
    ):
        with pytest.raises(LinnappError, match=message):
            load(name)


def test_a_file_on_another_disk_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * 8192)
    document = _document(frequency="ALL", faultType={"type": "MEDIUM_ERROR"})
    document["write"]["files"][0]["fileName"] = str(file)
    (tmp_path / "rules.json").write_text(json.dumps(document))
    # Which of the two it is depends on the file system of the temporary folder.
    with pytest.raises(LinnappError, match="flashsim|block device|file system"):
        install(load_rules(tmp_path / "rules.json"))


DMSETUP = """#!/bin/sh
echo "$*" >>{folder}/calls
case "$1" in
table) echo "0 2048 linnos-faults 7:0 0 0" ;;
message) [ "$4" != list ] || cat {folder}/list ;;
create) [ ! -e {folder}/fails ] || {{ echo "device-mapper: reload failed" >&2; exit 1; }} ;;
targets) cat {folder}/targets ;;
info) echo 2 ;;
esac
"""


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of block devices: dm-0 is a fault target, and a member of md0."""
    program = tmp_path / "bin" / "dmsetup"
    program.parent.mkdir()
    program.write_text(DMSETUP.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    folder = tmp_path / "block"
    for name, text in {
        "dm-0/dm/name": "bad",
        "md0/md/level": "raid1",
        "md0/md/dev-dm-0/offset": "2048",
        "md0/md/dev-loop1/offset": "2048",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")
    (tmp_path / "list").write_text("")
    (tmp_path / "targets").write_text("linear v1.4.0\n")
    monkeypatch.setattr(fault_rules, "_SYSFS_BLOCK", folder)
    return folder


def calls(sysfs: Path) -> list[str]:
    lines = (sysfs.parent / "calls").read_text().splitlines()
    return [line for line in lines if not line.startswith("table") and not line.endswith("list")]


def test_rules_become_messages(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extents = fault_rules_of(sysfs, monkeypatch, [(8 * k, 4) for k in range(101)])
    rule = FaultRule("/mnt/file", {"op": "write", "frequency": "all"})
    assert install([rule]) == [("dm-0", "faults0")]
    add, first, second, enable = calls(sysfs)
    assert add == "message bad 0 add faults0 op write frequency all"
    assert first.startswith("message bad 0 range faults0 0 4 8 4 16 4 ")
    assert second == "message bad 0 range faults0 800 4"
    assert enable == "message bad 0 enable faults0"
    assert len(first.split()) == 5 + 2 * len(extents) - 2


def fault_rules_of(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch, ranges: list[tuple[int, int]], disk: str = "dm-0"
) -> list[tuple[int, int]]:
    """Let every file be at these ranges of a disk."""
    from linnapp.lab import faults

    monkeypatch.setattr(faults, "resolve", lambda name: (disk, ranges))
    return ranges


def test_rules_of_a_mirror_have_its_data_offset(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault_rules_of(sysfs, monkeypatch, [(16, 8)], "md0")
    assert install([FaultRule("/mnt/file", {})], "dm-0") == [("dm-0", "faults0")]
    assert "message bad 0 range faults0 2064 8" in calls(sysfs)
    with pytest.raises(
        DeviceError, match="loop2: is no member of md0; its members are dm-0, loop1"
    ):
        install([FaultRule("/mnt/file", {})], "loop2")
    with pytest.raises(DeviceError, match="loop1: neither a flashsim drive .* nor a device of"):
        install([FaultRule("/mnt/file", {})], "loop1")
    (sysfs / "md0/md/level").write_text("raid5\n")
    with pytest.raises(DeviceError, match="md0: is raid5; only a member of raid1"):
        install([FaultRule("/mnt/file", {})], "dm-0")
    fault_rules_of(sysfs, monkeypatch, [(16, 8)], "sda")
    with pytest.raises(DeviceError, match="sda: is no md array, so it has no member dm-0"):
        install([FaultRule("/mnt/file", {})], "dm-0")


def test_listed_rules_are_shown_and_removed(sysfs: Path) -> None:
    (sysfs.parent / "list").write_text(
        "faults0 enabled 1 op write n 500 matched 1000 injected 2\n"
        "mine enabled 0 op read n 1 matched 0 injected 0\n"
    )
    rules = fault_rules.rules_of("dm-0").rules()
    assert list(rules) == ["faults0", "mine"]
    assert (rules["faults0"]["n"], rules["faults0"]["injected"]) == ("500", "2")
    with pytest.raises(DeviceError, match="bad: there is a rule mine already"):
        fault_rules.rules_of("dm-0").add("mine", {})
    assert fault_rules.remove_rules("dm-0") == 2
    assert calls(sysfs) == ["message bad 0 remove faults0", "message bad 0 remove mine"]


def test_failed_installation_removes_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rules:
        """Rules of a disk whose second rule can be neither enabled nor removed."""

        names: ClassVar[list[str]] = []

        def add(self, name: str, knobs: object) -> None:
            self.names.append(name)

        def add_ranges(self, name: str, ranges: object) -> None:
            pass

        def enable(self, name: str) -> None:
            if name == "faults1":
                raise DeviceError("not enabled")

        def remove(self, name: str) -> None:
            if name == "faults1":
                raise DeviceError("not removed")
            self.names.remove(name)

    monkeypatch.setattr(faults, "resolve", lambda _: ("dm-0", []))
    monkeypatch.setattr(faults, "rules_of", lambda _: Rules())
    with pytest.raises(DeviceError):
        install([FaultRule("/dev/dm-0", {})] * 3)
    assert Rules.names == ["faults1"]
