# SPDX-License-Identifier: MIT
"""Programs and libraries of different versions, whose structures differ."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from linnapp import __version__

ROOT = Path(__file__).parents[2]
ABI = Path(__file__).parent / "abi"
HEADERS = [
    "liblinnos/include/linnos_choose.h",
    "liblinnos/include/liblinnos.h",
    "cluster/client/linnos_cluster.h",
]
#: Structures that the library fills up to the size that the caller has.
STATISTICS = {
    *("linnos_stats", "linnos_replica_stats", "linnos_cluster_stats", "linnos_cluster_node")
}
#: All structures that may grow; the others have the size of their first version in the header.
VERSIONED = STATISTICS | {
    name.lower()
    for header in HEADERS
    for name in re.findall(r"#define (LINNOS_\w+)_SIZE_VER0 ", (ROOT / header).read_text())
}
GOOD = "1 reads, 1 served by 1, guards 1\n"


def build_libraries(tree: Path, out: Path) -> Path:
    for source, name in (("liblinnos", "liblinnos"), ("cluster/client", "liblinnos-cluster")):
        subprocess.run(
            ["make", "-s", "-C", tree / source, f"OUT={out / name}",
             f"{out / name / name}.so.{__version__}"],
            check=True, capture_output=True,
        )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sources with a member appended to each structure that may grow."""
    tree = tmp_path_factory.mktemp("next")
    for part in ("liblinnos", "cluster/client", "cluster/wire", "core"):
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("target"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    grown = set()
    for header in HEADERS:
        text = (tree / header).read_text()
        for name in VERSIONED:
            text, n = re.subn(
                rf"(^struct {name} \{{.*?)(^\}};)", r"\1\tuint64_t appended;\n\2", text,
                flags=re.M | re.S,
            )  # fmt: skip
            grown |= {name} if n else set()
        (tree / header).write_text(text)
    assert grown == VERSIONED
    return tree


@pytest.fixture(scope="module")
def next_libraries(next_version: Path) -> Path:
    return build_libraries(next_version, next_version / "build")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_libraries(ROOT, tmp_path_factory.mktemp("libraries"))


def run_program(
    folder: Path, libraries: Path, tree: Path, *flags: str, which: int = -1
) -> subprocess.CompletedProcess[str]:
    """Build the program with a tree's headers, and run it with other libraries."""
    program = folder / "program"
    subprocess.run(
        ["gcc", "-D_GNU_SOURCE", "-Wall", "-Werror", *flags, f"-I{tree}/liblinnos/include",
         f"-I{tree}/cluster/client", f"-I{ABI}", "-o", program, ABI / "program.c",
         f"-L{libraries}/liblinnos", f"-L{libraries}/liblinnos-cluster",
         "-llinnos", "-llinnos-cluster"],
        check=True,
    )  # fmt: skip
    path = f"{libraries}/liblinnos:{libraries}/liblinnos-cluster"
    return subprocess.run(
        [program, str(which)], env={"LD_LIBRARY_PATH": path}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def test_program_of_this_version_works_with_this_library_and_the_next(
    tmp_path: Path, libraries: Path, next_libraries: Path
) -> None:
    for built in (libraries, next_libraries):
        old = run_program(tmp_path, built, ROOT)
        assert (old.returncode, old.stdout) == (0, GOOD)


def test_program_of_the_next_version_works_when_its_new_members_are_zero(
    tmp_path: Path, libraries: Path, next_version: Path
) -> None:
    new = run_program(tmp_path, libraries, next_version, "-DFILLED")
    assert (new.returncode, new.stdout) == (0, GOOD)


@pytest.mark.parametrize("which", range(len(VERSIONED) - len(STATISTICS)))
def test_program_of_the_next_version_is_refused_when_a_new_member_is_not_zero(
    tmp_path: Path, libraries: Path, next_version: Path, which: int
) -> None:
    new = run_program(tmp_path, libraries, next_version, "-DFILLED", which=which)
    assert new.returncode == 1
    # Only the read has an error text of its own; for the others the error is E2BIG.
    assert re.match(r"\d (-7|1) ", new.stdout)
    assert "is not zero" in new.stdout and "older than the program's header" in new.stdout


@pytest.mark.parametrize("header", [*HEADERS, "cluster/ceph/linnos_ceph.h"])
def test_sizes_of_the_first_version_are_frozen(header: str) -> None:
    sizes = dict(
        re.findall(r"#define (LINNOS_\w+)_SIZE_VER0 (\d+)$", (ROOT / header).read_text(), re.M)
    )
    frozen = {
        "LINNOS_OPTIONS": "48", "LINNOS_READ_OPTIONS": "32", "LINNOS_QUEUE_OPTIONS": "40",
        "LINNOS_REPLICA": "32", "LINNOS_BACKEND": "72", "LINNOS_CLUSTER_OPTIONS": "88",
        "LINNOS_CEPH_OPTIONS": "40",
    }  # fmt: skip
    assert sizes and sizes.items() <= frozen.items()
