# SPDX-License-Identifier: MIT
"""docs/check.py finds dead links and pages that nobody links to, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECK = ROOT / "docs" / "check.py"

INDEX = """# All pages

[one](one.md), [its end](one.md#the-end-of-it), [picture](a.png), [folder](../kernel), [web](https://x.invalid/y)

## Here

[up](#here), `[quoted](gone.md)`

```
[code](gone.md)
```
"""
ONE = "# One\n\nBack to [the index](README.md).\n\n## The end, of `it`!\n"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose documentation is in order."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "Kbuild").touch()
    (tmp_path / "docs" / "README.md").write_text(INDEX)
    (tmp_path / "docs" / "one.md").write_text(ONE)
    (tmp_path / "docs" / "a.png").touch()
    (tmp_path / "docs" / "site.css").touch()  # build_site.py takes it
    return tmp_path


def check(clone: Path) -> list[str]:
    """What is found."""
    ran = subprocess.run(
        [sys.executable, CHECK, clone], check=False, capture_output=True, text=True
    )
    assert not ran.stderr
    assert ran.returncode == bool(ran.stdout)
    return ran.stdout.splitlines()


def test_ours_are_in_order() -> None:
    assert check(ROOT) == []


def test_what_is_in_order_is_let_be(clone: Path) -> None:
    assert check(clone) == []


@pytest.mark.parametrize(
    ("link", "finding"),
    [
        ("two.md", "docs/one.md: two.md: there is no such file"),
        ("../README.md", "docs/one.md: ../README.md: there is no such file"),
        ("README.md#there", "docs/one.md: README.md#there: docs/README.md has no such heading"),
        ("#the-end", "docs/one.md: #the-end: docs/one.md has no such heading"),
        ("../../elsewhere.md", "docs/one.md: ../../elsewhere.md: there is no such file"),
    ],
)
def test_a_dead_link_is_found(link: str, finding: str, clone: Path) -> None:
    (clone / "docs" / "one.md").write_text(f"{ONE}\n- A [dead\n  one]({link}).\n")
    assert check(clone) == [finding]


def test_what_is_there_but_not_known_to_git_is_not_linked_to(clone: Path) -> None:
    (clone / ".gitignore").write_text("/built.md\n")
    (clone / "built.md").touch()
    (clone / "docs" / "one.md").write_text(f"{ONE}\n[built](../built.md)\n")
    assert check(clone) == ["docs/one.md: ../built.md: there is no such file"]


@pytest.mark.parametrize("name", ["two.md", "two.3", "two.png"])
def test_a_page_that_nobody_links_to_is_found(name: str, clone: Path) -> None:
    # A link to itself does not make it found.
    (clone / "docs" / name).write_text(f"# Two\n\n[here]({name}#two)\n")
    assert check(clone) == [f"docs/{name}: no page links to it; docs/README.md is where"]


def test_headings_that_are_the_same_are_numbered(clone: Path) -> None:
    (clone / "docs" / "one.md").write_text(f"{ONE}\n# Same\n\n# Same\n\n[second](#same-1)\n")
    assert check(clone) == []
