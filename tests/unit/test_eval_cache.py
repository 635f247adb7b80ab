# SPDX-License-Identifier: MIT
"""Finished work is taken from the cache; other work is repeated."""

from __future__ import annotations

import importlib.metadata
import time
from pathlib import Path

import pytest

from eval import cache as cache_module
from eval.cache import Cache, digest, read_record


def _counting(made: list[Path]):
    def make(folder: Path) -> None:
        (folder / "result").write_text("42")
        made.append(folder)

    return make


def test_equal_parameters_are_made_once(tmp_path: Path) -> None:
    made: list[Path] = []
    cache = Cache(tmp_path)
    first = cache.get("x", {"a": 1, "b": (2, 3)}, _counting(made))
    again = cache.get("x", {"b": [2, 3], "a": 1}, _counting(made))
    other = cache.get("x", {"a": 2, "b": (2, 3)}, _counting(made))
    assert first == again != other
    assert made == [first, other]


def test_interrupted_work_is_repeated(tmp_path: Path) -> None:
    cache = Cache(tmp_path)

    def fails(folder: Path) -> None:
        (folder / "half").write_text("")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        cache.get("x", {"a": 1}, fails)
    made: list[Path] = []
    folder = cache.get("x", {"a": 1}, _counting(made))
    assert made == [folder] and not (folder / "half").exists()


def test_new_code_repeats_the_work_unless_any_version_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    Cache(tmp_path).get("x", {}, _counting(made))
    monkeypatch.setattr(cache_module, "code_version", lambda *_: "other")
    Cache(tmp_path, any_version=True).get("x", {}, _counting(made))
    assert len(made) == 1
    folder = Cache(tmp_path).get("x", {}, _counting(made))
    assert len(made) == 2
    record = read_record(folder)
    assert record is not None and record["code"] == "other"


@pytest.mark.parametrize("library", ["numpy", "tensorflow"])
def test_new_library_version_repeats_the_work(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    real = importlib.metadata.version
    for version in ("1.0", "2.0", "1.0"):
        cache_module.code_version.cache_clear()
        monkeypatch.setattr(
            importlib.metadata,
            "version",
            lambda name, version=version: version if name == library else real(name),
        )
        Cache(tmp_path).get("x", {}, _counting(made))
        Cache(tmp_path).get("x", {}, _counting(made))
    cache_module.code_version.cache_clear()
    assert len(made) == 3


def test_digest_differs_for_different_values() -> None:
    assert digest({"a": 1}) != digest({"a": "1"})
    assert digest([1, 2]) == digest((1, 2))


def test_cache_remembers_how_long_each_entry_took(tmp_path: Path) -> None:
    first = Cache(tmp_path)
    name = first.get("thing", {"a": 1}, lambda folder: time.sleep(0.01)).name
    again = Cache(tmp_path)
    assert again.seconds == {}
    again.get("thing", {"a": 1}, lambda folder: None)
    assert again.seconds == first.seconds
    assert again.seconds[name] > 0
