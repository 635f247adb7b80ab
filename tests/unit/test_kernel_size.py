# SPDX-License-Identifier: MIT
"""What a maintainer of the block layer would count before he reads: patches, hooks, functions."""

from __future__ import annotations

import re
from pathlib import Path

from patched_lines import changed_lines

KERNEL = Path(__file__).parents[2] / "kernel"
LINNOS = KERNEL / "linnos"
#: The policy, as it goes into a kernel.
FILES = [
    path
    for path in sorted(LINNOS.rglob("*.[ch]"))
    if "test" not in path.name and path.parent.name != "userspace"
]


def test_there_are_six_patches() -> None:
    assert len(list((KERNEL / "patches" / "6.12").glob("*.patch"))) <= 6


def test_hooks_are_short() -> None:
    """Those of the block layer, of file systems and of who takes the hint; md's are apart."""
    hooks: dict[str, int] = {}
    for patch in (KERNEL / "patches" / "6.12").glob("*.patch"):
        for name, lines in changed_lines(patch, "+").items():
            if not name.startswith("drivers/md/") and not name.endswith("/md.rst"):
                hooks[name] = hooks.get(name, 0) + lines
    assert len(hooks) <= 22
    assert sum(hooks.values()) <= 170


def test_nothing_follows_the_parts_of_a_bio() -> None:
    """A bio has one more flag and no field, and what takes bios apart is as it was."""
    for patch in (KERNEL / "patches" / "6.12").glob("*.patch"):
        text = patch.read_text()
        assert not re.search(r"^@@.*(blk_steal_bios|__bio_queue_enter|bio_chain)", text, re.M)
        assert not re.search(r"^@@.* struct bio \{", text, re.M)
        # choose_best_rdev() is told more, and stays its file's own
        assert set(re.findall(r"^-static .*?(\w+)\(", text, re.M)) <= {"choose_best_rdev"}


def test_functions_are_short() -> None:
    for path in FILES:
        for body in re.findall(r"^\{\n(.*?)^\}", path.read_text(), re.M | re.S):
            assert body.count("\n") <= 60, f"{path.name}: {body.splitlines()[0]}"


def test_a_fifth_or_so_is_comments() -> None:
    text = "".join(path.read_text() for path in FILES)
    comments = sum(each.count("\n") + 1 for each in re.findall(r"/\*.*?\*/", text, re.S))
    assert 0.15 <= comments / text.count("\n") <= 0.25


def test_the_core_knows_of_kernels_by_one_file() -> None:
    for path in (LINNOS / "core").iterdir():
        for header in re.findall(r"#include (\S+)", path.read_text()):
            assert header.startswith('"linnos_') or path.name == "linnos_shim.h", path.name
