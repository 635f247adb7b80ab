# SPDX-License-Identifier: MIT
"""A tree of plain files in place of the kernel's sysfs, for tests without the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from linnapp.model import LatencyModel, load_model


def make_tree(root: Path, monkeypatch: pytest.MonkeyPatch, disks: str = "sda sdb") -> Path:
    """Make disks with LinnOS, and sdc without; return the first one's directory."""
    monkeypatch.setenv("LINNAPP_SYSFS", str(root))
    for disk in disks.split():
        directory = root / "block" / disk / "linnos"
        (directory / "stats").mkdir(parents=True)
        for name, text in (
            ("mode", "observe"),
            ("model_id", "none"),
            ("model_kind", "none"),
            ("threshold_us", "0"),
            ("probe_after_us", "1000"),
            ("probe_after_revokes", "10"),
            ("model", ""),
            ("stats/reads", "12"),
            ("stats/revoked", "3"),
        ):
            (directory / name).write_text(text + "\n" if text else "")
    first = root / "block" / disks.split()[0]
    (first / "queue").mkdir()
    (first / f"{first.name}1").mkdir()
    (first / f"{first.name}1" / "partition").write_text("1\n")
    (root / "block" / "sdc").mkdir()
    return first / "linnos"


def replaced(path: Path, text: str) -> None:
    """Replace a file atomically, because the kernel's files are never half-written."""
    # Written elsewhere: in stats/ every file is a counter.
    beside = path.parents[1] / f".{path.name}"
    beside.write_text(text)
    beside.replace(path)


class _Activating:
    """A file that acts when closed as the kernel does on a written model."""

    def __init__(self, stream: Any, path: Path) -> None:
        self._stream = stream
        self._path = path

    def __enter__(self) -> Any:
        return self._stream.__enter__()

    def __exit__(self, *arguments: Any) -> Any:
        result = self._stream.__exit__(*arguments)
        model = load_model(self._path)
        kind = "latency" if isinstance(model, LatencyModel) else "network"
        if (self._path.parent / "model_kind").exists():
            (self._path.parent / "model_kind").write_text(kind + "\n")
        (self._path.parent / "model_id").write_text(model.model_id + "\n")
        (self._path.parent / "threshold_us").write_text(f"{model.threshold_us}\n")
        return result


def activate_what_is_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make writes to ``model`` change the disk's ``model_id`` and ``threshold_us``."""
    real = Path.open

    def fake_open(self: Path, mode: str = "r", *args: Any, **kw: Any) -> Any:
        stream = real(self, mode, *args, **kw)
        is_model = self.name == "model" and self.is_relative_to(root / "block")
        return _Activating(stream, self) if is_model and "w" in mode else stream

    monkeypatch.setattr(Path, "open", fake_open)
