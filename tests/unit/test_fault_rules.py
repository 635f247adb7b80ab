# SPDX-License-Identifier: MIT
"""FISPDK rule files become the right rules, and invalid ones are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from linnapp.errors import DeviceError
from linnapp.lab.faults import FaultError, FaultRule, install, load_rules, parse_rules, resolve


def _document(op: str = "write", **entry: Any) -> dict[str, Any]:
    return {op: {"files": [{"fileName": "/data/f", "faultInjection": entry}]}}


def test_each_fault_and_frequency() -> None:
    flip = {"type": "CORRUPTION", "corruptionPattern": "BIT_FLIP", "offset": 17, "index": 3}
    assert parse_rules(_document(frequency="INTERVAL", nRequests=500, faultType=flip)) == [
        FaultRule(
            "/data/f",
            {
                "op": "write",
                "count": "block",
                "frequency": "interval",
                "n": "500",
                "fault": "bit_flip",
                "offset": "17",
                "bit": "3",
            },
        )
    ]
    faults = {
        "zeros": {"type": "corruption", "corruptionPattern": "replace all zeros"},
        "ones": {"type": "CORRUPTION", "corruptionPattern": "ALL-ONES"},
        "delay": {"type": "DELAY", "latencyUs": 700},
        "medium_error": {"type": "MEDIUM_ERROR"},
    }
    for name, fault in faults.items():
        (rule,) = parse_rules(_document("read", frequency="ALL", faultType=fault))
        assert rule.knobs["fault"] == name and rule.knobs["op"] == "read"
        assert "n" not in rule.knobs


def test_position_of_a_random_bit_flip_follows_from_the_seed() -> None:
    fault = {"type": "CORRUPTION", "corruptionPattern": "RANDOM_BIT_FLIP", "offset": 4}
    (rule,) = parse_rules(_document(frequency="ALL", faultType=fault))
    assert not {"offset", "bit"} & set(rule.knobs)


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


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ([], "write and read"),
        ({"erase": {}}, "write and read"),
        ({"write": {"files": {}}}, "write.files"),
        ({"write": {"files": [{}]}}, "fileName"),
        (_document(frequency="OFTEN", faultType={"type": "DELAY"}), "OFTEN"),
        (_document(frequency="INTERVAL", faultType={"type": "LOST_WRITE"}), "nRequests"),
        (_document(frequency="ALL"), "faultType"),
        (_document(frequency="ALL", faultType={"type": "DELAY"}), "latencyUs"),
        (_document(frequency="ALL", faultType={"type": "MELT"}), "MELT"),
        (
            _document(
                frequency="ALL",
                faultType={"type": "CORRUPTION", "corruptionPattern": "BIT_FLIP", "index": 8},
            ),
            "index",
        ),
        (_document("read", frequency="ALL", faultType={"type": "LOST_WRITE"}), "LOST_WRITE"),
    ],
)
def test_wrong_documents_name_the_place(document: object, names: str) -> None:
    with pytest.raises(FaultError, match=names):
        parse_rules(document)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FaultError, match="none.json"):
        load_rules(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(FaultError, match="bad.json: not JSON"):
        load_rules(tmp_path / "bad.json")
    with pytest.raises(FaultError, match="nowhere"):
        resolve(str(tmp_path / "nowhere"))
    with pytest.raises(FaultError, match="neither a file nor a drive"):
        resolve("/dev/null")


def test_a_file_on_another_disk_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * 8192)
    document = _document(frequency="ALL", faultType={"type": "MEDIUM_ERROR"})
    document["write"]["files"][0]["fileName"] = str(file)
    (tmp_path / "rules.json").write_text(json.dumps(document))
    # The file system of the temporary folder determines which of the two.
    with pytest.raises((DeviceError, FaultError), match="flashsim|block device|file system"):
        install(load_rules(tmp_path / "rules.json"))
