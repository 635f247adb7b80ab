# SPDX-License-Identifier: MIT
"""liblinnos-ceph: its C tests, also under sanitizers; the symbols that it exports and uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from c_library import CLibrary, documented, names, takes_cplusplus

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "cluster" / "ceph"
HEADER = SOURCE / "linnos_ceph.h"
BUILDS = CLibrary(SOURCE, ROOT / "build" / "ceph")
FUNCTIONS = names(HEADER.read_text(), r"^[\w ]+?[ *](linnos_ceph_\w+)\(")

pytestmark = pytest.mark.skipif(
    not Path("/usr/include/rados/librados.h").exists(), reason="no librados: `make ceph`"
)


@pytest.fixture(scope="module")
def built() -> Path:
    CLibrary(ROOT / "cluster" / "client", ROOT / "build" / "cluster").make("all")
    BUILDS.make("all")
    return BUILDS.out


@pytest.mark.parametrize(("program", "test"), BUILDS.tests)
def test_library_module(built: Path, program: str, test: str) -> None:
    BUILDS.passes(program, test)


def test_c_tests_pass_under_asan_ubsan_and_tsan(built: Path) -> None:
    assert BUILDS.make("check-sanitized").count("tests passed") == 5


def test_exported_symbols_equal_the_header(built: Path) -> None:
    version = (SOURCE / "liblinnos-ceph.map").read_text()
    assert names(version, r"^\t(linnos_\w+);") == FUNCTIONS
    assert BUILDS.shown("liblinnos-ceph", "LIBLINNOS_CEPH_1") == [FUNCTIONS, FUNCTIONS]


def test_library_calls_only_public_functions_of_librados(built: Path) -> None:
    called = names(BUILDS.symbols("liblinnos-ceph.so", "-D", "-u"), r" U (rados_\w+)")
    header = Path("/usr/include/rados/librados.h").read_text()
    for name in called:
        assert re.search(rf"CEPH_RADOS_API [\w ]+?[ *]{name}\(", header), name
    # the library does not write
    assert not {name for name in called if "write" in name or "remove" in name}


def test_header_compiles_as_c_plus_plus() -> None:
    takes_cplusplus(HEADER, ROOT / "liblinnos" / "include", ROOT / "cluster" / "client")


def test_man_page_documents_the_whole_header() -> None:
    macros = {"LINNOS_CEPH_OPTIONS_INIT", "LINNOS_CEPH_AGENT_PORT"}
    documented(ROOT / "docs" / "linnos_ceph.3", HEADER.read_text(), FUNCTIONS | macros)
