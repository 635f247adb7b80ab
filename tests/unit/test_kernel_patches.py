# SPDX-License-Identifier: MIT
"""Patches and kernel/build.sh: constants that mainline lacks, and trees that are refused."""

from __future__ import annotations

import lzma
import os
import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PATCHES = REPOSITORY / "kernel" / "patches"
VERSIONS = ("6.12", "7.3")
#: Families of constants that the patches add to; numbers, not bits.
NUMBERS = {"BLK_STS_"}
DEFINE = re.compile(
    r"^#define\s+(IOCB_|RWF_|FMODE_|BLK_FEAT_|DM_TARGET_|BLK_STS_)(\w+)"
    r"[\s\\]+(?:\(*(?:__force\s+)?\w+_t\)\s*)?\(*(0x[0-9a-fA-F]+|\d+)(?:u?\s*<<\s*(\d+))?(?![\w<])",
    re.MULTILINE,
)
OURS = re.compile(r"LATCRIT|REVOKED")


def defines(text: str) -> dict[tuple[str, str], int]:
    """Return (family, name) of every constant defined in a header, and its value.

    The first of two definitions counts: the other is the value without some option, 0.
    """
    values: dict[tuple[str, str], int] = {}
    for family, name, value, shift in DEFINE.findall(text):
        values.setdefault((family, name), int(value, 0) << int(shift or 0))
    return values


def ours(version: str = VERSIONS[0]) -> dict[tuple[str, str], int]:
    """Return the constants that the patch series defines."""
    added = "\n".join(
        line[1:]
        for patch in sorted((PATCHES / version).glob("*.patch"))
        for line in patch.read_text().splitlines()
        if line.startswith("+") and not line.startswith("+++")
    )
    return {key: value for key, value in defines(added).items() if OURS.search(key[1]) and value}


def mainline() -> dict[tuple[str, str], int]:
    values = {}
    for line in (PATCHES / "mainline-values.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            family, value, name = line.split("\t")
            number, _, shift = value.partition("<<")
            values[family, name] = int(number, 0) << int(shift or 0)
    return values


def clashes(own: dict[tuple[str, str], int], others: dict[tuple[str, str], int]) -> list[str]:
    """Return our constants that share a bit, or the number, with another of their family."""
    return [
        f"{family}{name} = {value:#x} is {other_family}{other} = {theirs:#x}"
        for (family, name), value in own.items()
        for (other_family, other), theirs in others.items()
        # an RWF_ flag sets the IOCB_ flag of the same value in a kiocb
        if other_family in ({family} | ({"IOCB_"} if family == "RWF_" else set()))
        and not OURS.search(other)
        and (value == theirs if family in NUMBERS else value & theirs)
    ]


def test_constants_of_the_patches_do_not_collide_with_mainline() -> None:
    assert not clashes(ours(), mainline())


BUILD = Path(__file__).parents[2] / "kernel" / "build.sh"
FIRST = min((BUILD.parent / "patches" / "6.12").glob("*.patch"))


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


def test_configurations_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    none, wrong = tmp_path / "none", tmp_path / "notes"
    wrong.write_text("CONFIG_NET=y\n")
    assert f"no configuration to read at {none}" in refused(tmp_path, "deb", "--config", none)
    assert f"{wrong} is not a kernel's configuration" in refused(tmp_path, "deb", "--config", wrong)
    assert "--config is for deb" in refused(tmp_path, "um", "--config", wrong)


def test_a_configuration_may_be_compressed_and_long(tmp_path: Path) -> None:
    """The configuration is accepted; the script stops at the tree."""
    text = b"CONFIG_BLOCK=y\n" + b"# CONFIG_OTHER is not set\n" * 20_000
    for name, content in (("config", text), ("config.xz", lzma.compress(text))):
        (tmp_path / name).write_bytes(content)
        message = refused(tmp_path, "deb", "--config", tmp_path / name, "--ksrc", tmp_path)
        assert f"{tmp_path} is not a kernel source tree" in message


def before(patch: Path) -> dict[str, list[str]]:
    """Return the files that a patch changes, as far as its hunks show them."""
    files: dict[str, list[str]] = {}
    lines: list[str] = []
    lines_left = 0
    for line in patch.read_text().splitlines():
        if lines_left and line[:1] != "+":
            lines.append(line[1:])
            lines_left -= 1
        elif found := re.match(r"--- a/(.*)", line):
            lines = files[found[1]] = []
        elif found := re.match(r"@@ -(\d+),(\d+) ", line):
            lines_left = int(found[2])
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


def last_line(message: str) -> str:
    return message.splitlines()[-1]


def test_a_patch_that_does_not_apply_is_named_with_the_file(tmp_path: Path, tree: Path) -> None:
    for name in ("drivers/md/raid1.c", "drivers/md/raid10.c"):
        text = (tree / name).read_text()
        (tree / name).write_text(re.sub("(?<!line)[a-z]{3}", "new", text))
    message = last_line(refused(tmp_path, "um", "--ksrc", tree))
    assert message.endswith(
        f": {FIRST.name} does not apply to {tree}: drivers/md/raid1.c,drivers/md/raid10.c"
    )


@pytest.mark.parametrize("release", ["5.10.0-30-amd64", "6.8.0-45-generic", "6.12.9+none-amd64"])
@pytest.mark.parametrize("options", [[], ["--check"]])
def test_module_build_names_the_package_of_missing_headers(
    release: str, options: list[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [BUILD.parent / "module" / "build.sh", "--kernel", release, "--out", tmp_path, *options],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no headers" in done.stderr
    assert f"apt-get install linux-headers-{release}" in done.stderr
