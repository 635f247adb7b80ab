# SPDX-License-Identifier: MIT
"""liblinnos-gluster: its C tests, under sanitizers too; what it shows and calls."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from c_library import CLibrary, documented, names, takes_cplusplus

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "cluster" / "gluster"
HEADER = SOURCE / "linnos_gluster.h"
BUILDS = CLibrary(SOURCE, ROOT / "build" / "gluster")
GFAPI = Path("/usr/include/glusterfs/api/glfs.h")
FUNCTIONS = names(HEADER.read_text(), r"^[\w ]+?[ *](linnos_gluster_\w+)\(")

pytestmark = pytest.mark.skipif(not GFAPI.exists(), reason="no gfapi: `make gluster`")


@pytest.fixture(scope="module")
def built() -> Path:
    CLibrary(ROOT / "cluster" / "client", ROOT / "build" / "cluster").make("all")
    BUILDS.make("all")
    return BUILDS.out


@pytest.mark.parametrize(("program", "test"), BUILDS.tests)
def test_library_module(built: Path, program: str, test: str) -> None:
    BUILDS.passes(program, test)


def test_it_is_clean_under_asan_ubsan_and_tsan(built: Path) -> None:
    assert BUILDS.make("check-sanitized").count("tests passed") == 3


def test_what_can_be_seen_is_what_the_header_has(built: Path) -> None:
    version = (SOURCE / "liblinnos-gluster.map").read_text()
    assert names(version, r"^\t(linnos_\w+);") == FUNCTIONS
    assert BUILDS.shown("liblinnos-gluster", "LIBLINNOS_GLUSTER_1") == [FUNCTIONS, FUNCTIONS]


def test_of_glusterfs_it_calls_what_gfapi_has_for_everybody(built: Path) -> None:
    called = names(BUILDS.symbols("liblinnos-gluster.so", "-D", "-u"), r" U (\w*glfs_\w+)")
    headers = "".join(path.read_text() for path in GFAPI.parent.glob("*.h"))
    for name in called:
        assert re.search(rf"GFAPI_PUBLIC\({name}, ", headers), name
    # it writes nothing
    assert not {name for name in called if "write" in name or "creat" in name}


def test_c_plus_plus_takes_the_header() -> None:
    takes_cplusplus(HEADER, ROOT / "liblinnos", ROOT / "cluster" / "client")


def test_the_page_s_program_is_taken() -> None:
    page = (ROOT / "docs" / "cluster.md").read_text().split("\n## GlusterFS\n")[1]
    headers = (SOURCE, ROOT / "cluster" / "client", ROOT / "liblinnos")
    subprocess.run(
        ["gcc", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *(f"-I{path}" for path in headers),
         "-x", "c", "-"],
        input=page.split("```c\n")[1].split("```")[0], text=True, check=True,
    )  # fmt: skip


def test_the_man_page_has_all_that_the_header_has() -> None:
    macros = {"LINNOS_GLUSTER_OPTIONS_INIT", "LINNOS_GLUSTER_AGENT_PORT"}
    documented(ROOT / "docs" / "linnos_gluster.3", HEADER.read_text(), FUNCTIONS | macros)
