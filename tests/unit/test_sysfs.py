# SPDX-License-Identifier: MIT
"""The sysfs interface, on a tree of plain files; the lab tests do the same on the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_model_format import random_model

from linnapp.errors import DeviceError, ModelError
from linnapp.sysfs import Drive, drives


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LINNAPP_SYSFS", str(tmp_path))
    for disk in "sda", "sdb":
        directory = tmp_path / "block" / disk / "linnos"
        (directory / "stats").mkdir(parents=True)
        for name, text in (
            ("mode", "observe"),
            ("model_id", "none"),
            ("threshold_us", "0"),
            ("probe_after_us", "1000"),
            ("probe_after_revokes", "10"),
            ("model", ""),
            ("stats/reads", "12"),
            ("stats/revoked", "3"),
        ):
            (directory / name).write_text(text + "\n" if text else "")
    (tmp_path / "block" / "sda" / "sda1").mkdir()
    (tmp_path / "block" / "sdc").mkdir()
    return tmp_path / "block" / "sda" / "linnos"


def test_state(tree: Path) -> None:
    drive = Drive("sda")
    assert (drive.mode, drive.model_id, drive.threshold_us) == ("observe", None, 0)
    assert drive.stats == {"reads": 12, "revoked": 3}
    assert drive.probes == {"probe_after_us": 1000, "probe_after_revokes": 10}
    assert drive.read_model() is None
    assert drives() == ["sda", "sdb"]
    assert Drive("sda1").name == "sda"
    drive.set_mode("enforce")
    assert drive.mode == "enforce"
    (tree / "mode").write_text("off [observe] enforce\n")
    assert drive.mode == "observe"


def test_upload_is_verified(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model()
    with pytest.raises(ModelError, match="but no model is active"):
        Drive("sda").upload(model)  # plain files do not activate anything
    (tree / "model_id").write_text(model.model_id + "\n")
    Drive("sda").upload(model)
    assert Drive("sda").read_model() == model.to_bytes()


def test_errors_name_the_remedy(tree: Path) -> None:
    with pytest.raises(DeviceError, match="sdz: no such disk .*lsblk"):
        Drive("sdz")
    with pytest.raises(DeviceError, match="lacks the LinnOS patch"):
        Drive("sdc")
    with pytest.raises(DeviceError, match="No such file"):
        Drive("/dev/does-not-exist")
    with pytest.raises(DeviceError, match="expected one of off, observe, enforce"):
        Drive("sda").set_mode("on")


def test_refusal_by_the_kernel(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_open = Path.open

    def refuse(self: Path, *args: object, **kw: object) -> object:
        if self.name == "model":
            raise OSError(22, "Invalid argument", str(self))
        return real_open(self, *args, **kw)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ModelError, match="kernel refused the model .*dmesg.*Still active: no"):
        Drive("sda").upload(random_model())
