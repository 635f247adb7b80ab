# SPDX-License-Identifier: MIT
"""`kernel/build.sh`: the configurations and trees that it accepts and refuses."""

from __future__ import annotations

import lzma
import os
import re
import subprocess
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[2] / "kernel" / "build.sh"
FIRST, SECOND = sorted((BUILD.parent / "patches" / "6.12").glob("*.patch"))[:2]


def refused(tmp_path: Path, *arguments: str | Path) -> str:
    """Return the script's message if it stops before it builds anything."""
    environment = {**os.environ, "BUILD": str(tmp_path)}
    done = subprocess.run(
        [BUILD, *arguments], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 1, done.stderr
    assert not list(tmp_path.rglob(".config"))
    return done.stderr


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an empty debhelper: nothing is built here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dh").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_missing_configuration_is_named(tmp_path: Path) -> None:
    wanted = tmp_path / "none"
    assert f"no configuration to read at {wanted}" in refused(tmp_path, "deb", "--config", wanted)


def test_build_refuses_a_file_that_is_not_a_configuration(tmp_path: Path) -> None:
    wrong = tmp_path / "notes"
    wrong.write_text("CONFIG_NET=y\n")
    assert f"{wrong} is not a kernel's configuration" in refused(tmp_path, "deb", "--config", wrong)


def test_a_configuration_may_be_compressed_and_long(tmp_path: Path) -> None:
    """The configuration is accepted; the script stops at the tree."""
    text = b"CONFIG_BLOCK=y\n" + b"# CONFIG_OTHER is not set\n" * 20_000
    for name, content in (("config", text), ("config.xz", lzma.compress(text))):
        (tmp_path / name).write_bytes(content)
        said = refused(tmp_path, "deb", "--config", tmp_path / name, "--ksrc", tmp_path)
        assert f"{tmp_path} is not a kernel source tree" in said


def test_the_lab_has_configurations_of_its_own(tmp_path: Path) -> None:
    assert "--config is for deb" in refused(tmp_path, "um", "--config", tmp_path / "any")


def before(patch: Path) -> dict[str, list[str]]:
    """Return the files that a patch changes, as far as its hunks show them."""
    files: dict[str, list[str]] = {}
    lines: list[str] = []
    left = 0
    for line in patch.read_text().splitlines():
        if left and line[:1] != "+":
            lines.append(line[1:])
            left -= 1
        elif found := re.match(r"--- a/(.*)", line):
            lines = files[found[1]] = []
        elif found := re.match(r"@@ -(\d+),(\d+) ", line):
            left = int(found[2])
            lines += [f"line {number}" for number in range(len(lines) + 1, int(found[1]))]
    return files


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a tree with only the files that the first patch of the series applies to."""
    folder = tmp_path / "tree"
    for name, lines in before(FIRST).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join([*lines, ""]))
    (folder / "Kbuild").touch()
    (folder / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 12\nmrproper:\n")
    return folder


def last_line(said: str) -> str:
    return said.splitlines()[-1]


def test_a_patch_that_does_not_apply_is_named_with_the_file(tmp_path: Path, tree: Path) -> None:
    for name in ("block/blk-mq.c", "block/genhd.c"):
        text = (tree / name).read_text()
        (tree / name).write_text(re.sub("(?<!line)[a-z]{3}", "new", text))
    said = last_line(refused(tmp_path, "um", "--ksrc", tree))
    assert said.endswith(f": {FIRST.name} does not apply to {tree}: block/blk-mq.c,block/genhd.c")


def test_missing_file_is_named(tmp_path: Path, tree: Path) -> None:
    (tree / "block/genhd.c").unlink()
    said = last_line(refused(tmp_path, "um", "--ksrc", tree))
    assert said.endswith(f"{FIRST.name} does not apply to {tree}: block/genhd.c (missing)")


def test_error_names_the_patch_that_fails(tmp_path: Path, tree: Path) -> None:
    """The first patch applies to this tree, which has no file of the second."""
    said = last_line(refused(tmp_path, "um", "--ksrc", tree))
    assert re.search(r": 0002-\S* does not apply to .*: \S+ \(missing\),", said)
    only_first = before(FIRST).keys() - before(SECOND).keys()
    assert only_first and not [name for name in only_first if name in said]
    assert "0001" not in said


@pytest.mark.parametrize(
    ("release", "options", "found", "remedy"),
    [
        ("5.10.0-30-amd64", ["--check"], "not for 5.10", "linnos-ublk or liblinnos"),
        ("6.8.0-45-generic", ["--check"], "not for 6.8", "linnos-ublk or liblinnos"),
        ("next", ["--check"], "not for next", "linnos-ublk or liblinnos"),
        ("6.12.9+none-amd64", [], "no headers", "apt-get install linux-headers-6.12.9+none-amd64"),
    ],
)
def test_module_build_names_the_remedy_when_the_kernel_cannot_be_used(
    release: str, options: list[str], found: str, remedy: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [BUILD.parent / "module" / "build.sh", "--kernel", release, "--out", tmp_path, *options],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert found in done.stderr
    assert remedy in done.stderr
