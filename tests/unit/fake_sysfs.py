# SPDX-License-Identifier: MIT
"""A tree of plain files in place of the kernel's sysfs, for tests without the kernel."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from linnapp.drive import recording, tracefs
from linnapp.drive.latencies import N_BUCKETS
from linnapp.model import LatencyModel, load_model

#: Files of a drive's directory `linnos`.
_FILES = {
    "mode": "observe",
    "model_id": "none",
    "model_kind": "none",
    "threshold_us": "0",
    "probe_after_us": "1000",
    "probe_after_revokes": "10",
    "failover_us": "15",
    "latency_us_histogram": " ".join(["0"] * N_BUCKETS),
    "stats/reads": "12",
    "stats/revoked": "3",
}


def make_tree(root: Path, monkeypatch: pytest.MonkeyPatch, disks: str = "sda sdb") -> Path:
    """Make disks with LinnOS, and sdc without; return the first one's directory."""
    monkeypatch.setenv("LINNAPP_SYSFS", str(root))
    for disk in disks.split():
        directory = root / "block" / disk / "linnos"
        (directory / "stats").mkdir(parents=True)
        for name, text in _FILES.items():
            (directory / name).write_text(f"{text}\n")
        (directory / "model").touch()
        (directory.parent / "stat").write_text("  5 0 0 0 0 0 0 0 0 0 0\n")
    first = root / "block" / disks.split()[0]
    (first / "queue").mkdir()
    (first / f"{first.name}1").mkdir()
    (first / f"{first.name}1" / "partition").write_text("1\n")
    (root / "block" / "sdc").mkdir()
    return first / "linnos"


def replaced(path: Path, text: str) -> None:
    """Replace a file atomically, because the kernel's files are never half-written."""
    # The new file is written elsewhere, because in stats/ every file is a counter.
    new = path.parents[1] / f".{path.name}"
    new.write_text(text)
    new.replace(path)


@contextlib.contextmanager
def _activating(stream: Any, path: Path) -> Iterator[Any]:
    """Act as the kernel does on a written model when its file is closed."""
    with stream as opened:
        yield opened
    model = load_model(path)
    kind = "latency" if isinstance(model, LatencyModel) else "network"
    for name, text in (
        ("model_kind", kind),
        ("model_id", model.model_id),
        ("threshold_us", model.threshold_us),
    ):
        if (file := path.parent / name).exists():
            replaced(file, f"{text}\n")


def activate_what_is_written(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    before_write: Callable[[Path], None] = lambda path: None,
) -> None:
    """Act as the kernel does on writes: activate a model, and let the module add a disk.

    `before_write` is called before each write.
    """
    real = Path.open
    module = root / "kernel" / "linnos"

    def fake_open(self: Path, mode: str = "r", *args: Any, **kw: Any) -> Any:
        if "w" not in mode or not self.is_relative_to(root) or self.name.startswith("."):
            return real(self, mode, *args, **kw)
        before_write(self)
        if self.name == "model":
            return _activating(real(self, mode, *args, **kw), self)
        return real(self, mode, *args, **kw)

    def fake_write_text(self: Path, text: str, *args: Any, **kw: Any) -> int:
        with self.open("w", *args, **kw) as stream:
            n = stream.write(text)
        if self == module / "add":
            shutil.copytree(root / "block" / "sda" / "linnos", module / text)
            for name, initial in (("mode", "off"), ("model_id", "none"), ("model_kind", "none")):
                replaced(module / text / name, f"{initial}\n")
            (module / text / "model").unlink()
            (module / text / "model").touch()
        return int(n)

    monkeypatch.setattr(Path, "open", fake_open)
    monkeypatch.setattr(Path, "write_text", fake_write_text)


class FakeSysfs:
    """Disks sda and sdb with LinnOS, sdc without, and md0 of a partition of sda and of sdb.

    All are off. There are stable names and nodes for them, and folders for linnapp's files.
    """

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tmp_path = tmp_path
        self.root = tmp_path / "sys"
        self.block = self.root / "block"
        self.module = self.root / "kernel" / "linnos"
        self.state = tmp_path / "state"
        self.conf = tmp_path / "etc" / "drives.conf"
        self.by_id = tmp_path / "by-id"
        #: Files that the kernel was asked to change, from the last :meth:`record_writes` on.
        self.writes: list[str] = []
        self._fails: Callable[[str, int], BaseException | None] = lambda name, n: None
        make_tree(self.root, monkeypatch)
        for name, path in (
            ("STATE", self.state),
            ("CONF", self.conf),
            ("BY_ID", self.by_id),
        ):
            monkeypatch.setenv(f"LINNAPP_{name}", str(path))
        monkeypatch.setattr("os.geteuid", lambda: 0)
        self.by_id.mkdir()
        (self.root / "dev").mkdir()
        for number, name in enumerate(("sda", "sdb", "sdc")):
            self.add_disk(name)
            self.add_link(f"wwn-{name}", name)
            (self.block / name / "dev").write_text(f"8:{16 * number}\n")
        self.add_array("md0", {"sda1": "in_sync", "sdb": "in_sync"})
        self.add_link("md-uuid-0", "md0")
        activate_what_is_written(self.root, monkeypatch, self._before_write)

    def name_of(self, device: str) -> str:
        """Return the stable name of a device."""
        return str(self.by_id / ("md-uuid-0" if device == "md0" else f"wwn-{device}"))

    def add_link(self, link: str, device: str) -> None:
        """Add a stable name of a device. It leads to a file in place of a node."""
        node = self.root / "dev" / device
        node.touch()
        (self.by_id / link).symlink_to(node)

    def add_disk(self, name: str) -> None:
        """Add a disk with a request queue."""
        disk = self.block / name
        (disk / "mq").mkdir(parents=True)
        (disk / "queue").mkdir(exist_ok=True)
        (disk / "queue" / "rotational").write_text("0\n")
        (disk / "stat").write_text("  5 0 0 0 0 0 0 0 0 0 0\n")
        if (disk / "linnos").is_dir():
            (disk / "linnos" / "mode").write_text("off\n")

    def add_array(self, name: str, parts: dict[str, str], level: str = "raid1") -> Path:
        """Add an array of partitions and disks in these states; return its folder."""
        md = self.block / name / "md"
        md.mkdir(parents=True)
        for file, text in (
            ("level", level),
            ("raid_disks", str(len(parts))),
            ("degraded", "0"),
            ("metadata_version", "1.2"),
            ("sync_action", "idle"),
            ("linnos", "off"),
        ):
            (md / file).write_text(text + "\n")
        for part, states in parts.items():
            member = md / f"dev-{part}"
            member.mkdir()
            (member / "state").write_text(states + "\n")
            disk = part.rstrip("123456789")
            place = self.block / disk / part if part != disk else self.block / disk
            (member / "block").symlink_to(place)
            if place.is_dir():
                (place / "holders").mkdir(exist_ok=True)
                (place / "holders" / name).symlink_to(self.block / name)
        return md

    def settings(self) -> list[str]:
        """Return md0's state, and the modes of sda and sdb."""
        files = [self.block / name / "linnos" / "mode" for name in ("sda", "sdb")]
        return [path.read_text().strip() for path in (self.block / "md0/md/linnos", *files)]

    def reboot(self) -> None:
        """Give all files the kernel's values after a boot."""
        (self.block / "md0" / "md" / "linnos").write_text("off\n")
        for name in ("sda", "sdb"):
            directory = self.block / name / "linnos"
            for file in ("model_id", "model_kind", "threshold_us"):
                (directory / file).write_text(f"{_FILES[file]}\n")
            (directory / "mode").write_text("off\n")
            (directory / "model").unlink()
            (directory / "model").touch()

    def fail(self, fails: Callable[[str, int], BaseException | None]) -> None:
        """Raise an error at some writes, chosen by the file's name and the number of the write."""
        self.writes.clear()
        self._fails = fails

    def allow_tracing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Be a machine that can be recorded: with blktrace and debugfs, and without lockdown."""
        (self.tmp_path / "debug" / "block").mkdir(parents=True)
        (self.tmp_path / "lockdown").write_text("[none] integrity confidentiality\n")
        monkeypatch.setattr(recording, "_DEBUGFS", self.tmp_path / "debug")
        monkeypatch.setattr(tracefs, "_LOCKDOWN", self.tmp_path / "lockdown")
        monkeypatch.setattr(recording.shutil, "which", lambda _: "/usr/bin/blktrace")
        monkeypatch.setattr(recording.stat, "S_ISBLK", lambda _: True)

    def fail_at(self, number: int, error: type[BaseException] | None = None) -> None:
        """Raise an error at one write; by default, the kernel's for invalid values."""
        refused = OSError(errno.EINVAL, "Invalid argument") if error is None else error()
        self.fail(lambda _, n: refused if n == number else None)

    def fail_never(self) -> None:
        """Let all writes succeed again."""
        self.fail(lambda name, n: None)

    def _before_write(self, path: Path) -> None:
        name = str(path.relative_to(self.root))
        self.writes.append(name)
        if (error := self._fails(name, len(self.writes))) is not None:
            raise error
