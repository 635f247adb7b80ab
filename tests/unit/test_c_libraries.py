# SPDX-License-Identifier: MIT
"""C code: its tests, also under sanitizers; and of libraries symbols, headers and man pages."""

from __future__ import annotations

import functools
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from c_library import CLibrary, names
from replaying import BUILT, LIBRARY, REPLAYER

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "cluster" / "client"
CEPH = ROOT / "cluster" / "ceph"
DOCS = ROOT / "docs"

NEEDS_RADOS = pytest.mark.skipif(
    not Path("/usr/include/rados/librados.h").exists(), reason="no librados: `make ceph`"
)


@dataclass(frozen=True)
class Code:
    """C code with tests; a library if it has headers."""

    builds: CLibrary
    headers: tuple[Path, ...] = ()
    #: The number of test programs that `make check-sanitized` runs.
    n_programs: int = 0
    includes: tuple[Path, ...] = ()
    pages: tuple[Path, ...] = ()
    #: A pattern of the macros that the man pages describe.
    macros: str = ""

    @property
    def name(self) -> str:
        """The name of the library, as in its version script."""
        return next(self.builds.source.glob("*.map")).stem

    @property
    def declared(self) -> str:
        """The text of the headers."""
        return "".join(header.read_text() for header in self.headers)

    @property
    def functions(self) -> set[str]:
        """The functions that the headers declare."""
        return names(self.declared, r"^[\w ]+?[ *](linnos_\w+)\(")


CODE = {
    "replayer": Code(CLibrary(ROOT / "replayer", REPLAYER.parent)),
    "simulator": Code(CLibrary(ROOT / "eval" / "simulator", ROOT / "build" / "simulation")),
    "liblinnos": Code(
        CLibrary(LIBRARY, BUILT),
        (LIBRARY / "include" / "linnos_choose.h", LIBRARY / "include" / "liblinnos.h"), 18,
        pages=tuple({*DOCS.glob("*.3")} - {DOCS / "linnos_cluster.3", DOCS / "linnos_ceph.3"}),
        macros=r"\b(LINNOS_[A-Z_]+)\b",
    ),
    "cluster": Code(
        CLibrary(CLUSTER, ROOT / "build" / "cluster"), (CLUSTER / "linnos_cluster.h",), 6,
        (LIBRARY / "include",), (DOCS / "linnos_cluster.3",),
        r"\b(LINNOS_CLUSTER_(?:OBSERVE|CHOOSE|HEDGE|UNGUARDED))\b",
    ),
    "ceph": Code(
        CLibrary(CEPH, ROOT / "build" / "ceph"), (CEPH / "linnos_ceph.h",), 5,
        (LIBRARY / "include", CLUSTER), (DOCS / "linnos_ceph.3",),
        r"\b(LINNOS_CEPH_(?:OPTIONS_INIT|AGENT_PORT))\b",
    ),
}  # fmt: skip


def marked(name: str, *more: str) -> object:
    return pytest.param(name, *more, marks=NEEDS_RADOS if name == "ceph" else ())


EACH_LIBRARY = pytest.mark.parametrize(
    "name", [marked(name) for name, code in CODE.items() if code.headers]
)


@functools.cache
def built(name: str) -> Code:
    """Build code and what its tests are linked with."""
    if name == "ceph":
        built("cluster")
    CODE[name].builds.make("tests" if name == "replayer" else "all")
    return CODE[name]


@pytest.mark.parametrize(
    ("name", "program", "test"),
    [marked(name, *test) for name, code in CODE.items() for test in code.builds.tests],
)
def test_module(name: str, program: str, test: str) -> None:
    built(name).builds.passes(program, test)


@EACH_LIBRARY
def test_c_tests_pass_under_asan_ubsan_and_tsan(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINNOS_READS", "20000" if name == "cluster" else "2000")
    code = built(name)
    assert code.builds.make("check-sanitized").count("tests passed") == code.n_programs


@EACH_LIBRARY
def test_exported_symbols_equal_the_header(name: str) -> None:
    code = built(name)
    script = (code.builds.source / f"{code.name}.map").read_text()
    assert names(script, r"^\t(linnos_\w+);") == code.functions
    version = f"{code.name.replace('-', '_').upper()}_1"
    assert code.builds.shown(code.name, version) == [code.functions] * 2


@EACH_LIBRARY
def test_headers_compile_as_c_plus_plus(name: str) -> None:
    for header in CODE[name].headers:
        subprocess.run(
            ["clang", "-x", "c++", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
             *(f"-I{folder}" for folder in CODE[name].includes), header],
            check=True,
        )  # fmt: skip


@EACH_LIBRARY
def test_man_pages_document_the_whole_header(name: str) -> None:
    code = CODE[name]
    text = "\n".join(page.read_text().replace("\\-", "-") for page in code.pages)
    for word in code.functions | names(code.declared, code.macros):
        assert word in text, word
    # The headers of liblinnos and of the cluster describe each member, too.
    described = set(re.findall(r"^ \* @(\w+):", code.declared, re.M))
    for body in re.findall(r"^struct linnos_\w+ \{\n(.*?)\n\};", code.declared, re.M | re.S):
        for word in {*re.findall(r"\b(\w+)(?:\[\w+\])?;$", body, re.M)} - {
            "own", "reserved", "size",
        }:  # fmt: skip
            assert word in text and (word in described or not described), word


@NEEDS_RADOS
def test_ceph_calls_only_public_functions_of_librados() -> None:
    called = names(built("ceph").builds.symbols("liblinnos-ceph.so", "-D", "-u"), r" U (rados_\w+)")
    header = Path("/usr/include/rados/librados.h").read_text()
    for word in called:
        assert re.search(rf"CEPH_RADOS_API [\w ]+?[ *]{word}\(", header), word
    # the library does not write
    assert not {word for word in called if "write" in word or "remove" in word}
