# SPDX-License-Identifier: MIT
"""The constants of the patches are unused in mainline, in the patched tree and in newer ones.

kernel/patches/mainline-values.txt lists those of mainline. Installed kernel headers and unpacked
trees are checked as well.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PATCHES = REPOSITORY / "kernel" / "patches"
VERSIONS = ("6.12", "7.3")
HEADERS = (
    "include/uapi/linux/fs.h",
    "include/linux/fs.h",
    "include/linux/blkdev.h",
    "include/linux/blk_types.h",
    "include/linux/device-mapper.h",
)
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


def clashes(mine: dict[tuple[str, str], int], others: dict[tuple[str, str], int]) -> list[str]:
    """Return our constants that share a bit, or the number, with another of their family."""
    return [
        f"{family}{name} = {value:#x} is {other_family}{other} = {theirs:#x}"
        for (family, name), value in mine.items()
        for (other_family, other), theirs in others.items()
        # an RWF_ flag sets the IOCB_ flag of the same value in a kiocb
        if other_family in ({family} | ({"IOCB_"} if family == "RWF_" else set()))
        and not OURS.search(other)
        and (value == theirs if family in NUMBERS else value & theirs)
    ]


def trees() -> list[Path]:
    """Return the available kernel trees and headers."""
    build = [path for path in REPOSITORY.glob("build/linux-source*") if path.is_dir()]
    return [*build, *Path("/usr/src").glob("linux-headers-*-common"), Path("/usr")]


def version_of(tree: Path) -> tuple[int, int]:
    match = re.search(
        r"^VERSION = (\d+)\nPATCHLEVEL = (\d+)", (tree / "Makefile").read_text(), re.MULTILINE
    )
    assert match, tree
    return int(match[1]), int(match[2])


def test_ours_finds_every_constant_of_the_patches() -> None:
    assert {family + name for family, name in ours()} == {
        "RWF_LATCRIT",
        "FMODE_CAN_LATCRIT",
        "DM_TARGET_PASSES_LATCRIT",
        "BLK_STS_REVOKED",
        "BLK_FEAT_PASSES_LATCRIT",
    }


def test_constants_are_the_same_in_the_patches_of_all_versions() -> None:
    assert all(ours(version) == ours() for version in VERSIONS)


def test_values_do_not_collide_with_mainline() -> None:
    assert not clashes(ours(), mainline())


def test_values_do_not_collide_with_available_kernel_trees() -> None:
    looked_at = 0
    for tree in trees():
        text = "\n".join(
            (tree / header).read_text() for header in HEADERS if (tree / header).exists()
        )
        if (tree / "include/linux/device-mapper.h").exists():
            if version_of(tree) < (6, 12):
                continue
            mine = ours()
        else:
            # user space has only the RWF_ flags
            text = (tree / "include/linux/fs.h").read_text()
            mine = {key: value for key, value in ours().items() if key[0] == "RWF_"}
        assert ("RWF_", "NOWAIT") in defines(text), tree
        assert not clashes(mine, defines(text)), tree
        looked_at += 1
    assert looked_at


def test_ioctl_number_is_unused_elsewhere() -> None:
    """BLKEXPECT's, among all of the block layer, which uses numbers up to 142 in Linux 6.18."""
    ours_in = REPOSITORY / "core" / "uapi" / "linux" / "blk-linnos.h"
    number = re.compile(r"\b_IO[WR]*\(\s*0x12\s*,\s*(\d+)")
    mine = set(number.findall(ours_in.read_text()))
    assert len(mine) == 1 and int(min(mine)) > 142
    for tree in trees():
        folder = tree / "include" / ("uapi/linux" if (tree / "Makefile").exists() else "linux")
        taken = {
            found
            for header in folder.glob("*.h")
            if header.name != ours_in.name
            for found in number.findall(header.read_text(errors="replace"))
        }
        assert "128" in taken and not mine & taken, folder


@pytest.mark.parametrize("policy", [True, False])
def test_files_without_a_policy_refuse_the_hint(tmp_path: Path, policy: bool) -> None:
    """The test for FMODE_CAN_LATCRIT fails for every mode a file can have."""
    patch = next((PATCHES / VERSIONS[0]).glob("*-RWF_LATCRIT-*.patch")).read_text()
    start = patch.rindex("+#ifdef CONFIG_BLK_LATCRIT", 0, patch.index("+#define FMODE_CAN_LATCRIT"))
    end = patch.index("+#endif", start)
    lines = [line[1:] for line in patch[start:end].splitlines()] + ["#endif"]
    source = tmp_path / "fmode.c"
    source.write_text(
        "typedef unsigned int fmode_t;\n#define __force\n"
        + "\n".join(lines)
        + "\nint main(void) { return (~0u & FMODE_CAN_LATCRIT) ? 0 : 95; }\n"
    )
    flags = ["-DCONFIG_BLK_LATCRIT"] if policy else []
    subprocess.run(["gcc", *flags, source, "-o", tmp_path / "fmode"], check=True)
    ran = subprocess.run([tmp_path / "fmode"], check=False)
    assert ran.returncode == (0 if policy else 95)
