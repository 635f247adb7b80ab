# SPDX-License-Identifier: MIT
"""The evaluation runs copies of the built programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval import programs
from linnapp.lab import guests
from linnapp.lab.array import Array
from linnapp.lab.places import Places


def test_copies_of_kernel_and_replayer_are_used_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("linux", "replayer"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(programs, "DEFAULT_KERNEL", tmp_path / "linux")
    monkeypatch.setattr(programs, "REPLAYER", tmp_path / "replayer")
    monkeypatch.setattr(guests, "_kernel", None)
    monkeypatch.setattr(guests, "_programs", None)
    programs.keep_programs(tmp_path / "out")
    assert guests._kernel == (tmp_path / "out" / "bin" / "linux").resolve()
    assert (tmp_path / "out" / "bin" / "replayer").read_text() == "replayer"
    places = Places(tmp_path, guests._programs)
    path = places.environment(Array())["PATH"].split(":")
    first = next(places.folders[place].source for place in path if place in places.folders)
    assert first == (tmp_path / "out" / "bin").resolve()


def test_missing_replayer_error_names_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "linux").write_text("")
    monkeypatch.setattr(programs, "DEFAULT_KERNEL", tmp_path / "linux")
    monkeypatch.setattr(programs, "REPLAYER", tmp_path / "replayer")
    with pytest.raises(SystemExit, match="make replayer"):
        programs.keep_programs(tmp_path / "out")
