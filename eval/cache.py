# SPDX-License-Identifier: MIT
"""A cache of work: folders whose names depend on the parameters of the work.

A folder is finished if it contains its record, `record.json`: the parameters, and the versions of
the code and of the libraries that made it. Any other folder is left from an interrupted run and is
made again.

joblib.Memory would not do: the cache keeps folders that guests fill, not values, and their validity
depends on C sources and patches, not on the bytecode of one function.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from linnapp.lab.work import write_json

ROOT = Path(__file__).resolve().parents[1]
#: The folder that `python -m eval --commit` writes.
RESULTS = ROOT / "eval" / "results"
RECORD, VALUE = "record.json", "value.json"

#: The sources that decide the outcome of work in the lab: the kernel, the emulator, the
#: replayer, the tools that record and train, and the loop around them.
LAB_SOURCES = (
    "core",
    "kernel/linnos",
    "kernel/flashsim",
    "kernel/patches",
    "kernel/config/uml.config",
    "replayer",
    "liblinnos",
    "linnapp",
    "traces",
    "models/prior",
    "eval/cells.py",
    "eval/grid.py",
    "eval/research.py",
    "eval/workers.py",
)
#: Packages whose arithmetic decides which model training makes of a recording.
LIBRARIES = ("numpy", "tensorflow", "keras")
_SUFFIXES = frozenset({".c", ".h", ".patch", ".config", ".py", ".sh", ".toml", ".linnos"})


def digest(value: Any) -> str:
    """Return the hex digest of anything that JSON can hold. Equal values have equal digests."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def code_version(*paths: str) -> str:
    """Return the hex digest of source files and of the versions of :data:`LIBRARIES`.

    Paths are relative to the repository. A folder stands for all sources below it.
    """
    total = hashlib.sha256()
    for library in LIBRARIES:
        total.update(f"{library} {_installed(library)}\0".encode())
    for name in paths:
        base = ROOT / name
        files = [base] if base.is_file() else sorted(base.rglob("*"))
        for path in files:
            if path.suffix in _SUFFIXES and not path.name.endswith(".mod.c") and path.is_file():
                total.update(f"{path.relative_to(ROOT)}\0".encode())
                total.update(path.read_bytes())
    return total.hexdigest()[:16]


def _installed(library: str) -> str:
    # TensorFlow's package without the code for graphics cards has a name of its own.
    for name in (library, f"{library}-cpu"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "not installed"


def read_record(folder: Path) -> dict[str, Any] | None:
    """Return the record of a finished folder, or None."""
    try:
        record: dict[str, Any] = json.loads((folder / RECORD).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return record


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Cache:
    """The finished work in one folder; with `any_version` also that of earlier code.

    Attributes
    ----------
    seconds : dict
        The time that it took to make each folder that was used, by name.
    """

    def __init__(self, folder: Path, *, any_version: bool = False) -> None:
        self.folder = folder
        self.any_version = any_version
        self.seconds: dict[str, float] = {}

    def get(self, kind: str, parameters: Mapping[str, Any], make: Callable[[Path], None]) -> Path:
        """Return the folder for these parameters; make it unless it exists.

        Parameters
        ----------
        parameters : mapping
            Everything that the content depends on except for the code.
        make : callable
            Fills a folder. If it raises an exception, the folder stays unfinished.
        """
        folder = self.folder / f"{kind}-{digest(parameters)}"
        code = code_version(*LAB_SOURCES)
        with _locked(self.folder / "locks" / folder.name):
            record = read_record(folder)
            if record is not None and (self.any_version or record["code"] == code):
                self.seconds[folder.name] = record.get("seconds", 0.0)
                return folder
            if folder.exists():
                shutil.rmtree(folder)
            folder.mkdir(parents=True)
            start = time.monotonic()
            make(folder)
            seconds = self.seconds[folder.name] = time.monotonic() - start
            write_json(
                folder / RECORD, {"parameters": parameters, "code": code, "seconds": seconds}
            )
        return folder

    def value(self, kind: str, parameters: Mapping[str, Any], make: Callable[[Path], Any]) -> Any:
        """Return the result of `make` for a folder, as JSON has it, and keep it in the folder."""
        folder = self.get(kind, parameters, lambda folder: write_json(folder / VALUE, make(folder)))
        return json.loads((folder / VALUE).read_text())
