# SPDX-License-Identifier: MIT
"""C and Rust: tests, also under sanitizers; and of libraries symbols, headers and man pages."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from c_library import CLibrary, built_as_installed, names
from replaying import BUILT, LIBRARY, REPLAYER

from linnapp import __version__

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
def test_c_test_passes(name: str, program: str, test: str) -> None:
    built(name).builds.passes(program, test)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "test", [test for program, test in CODE["liblinnos"].builds.tests if program == "test_threads"]
)
def test_no_thread_loses_one_of_many_reads(test: str) -> None:
    built("liblinnos").builds.passes("test_threads", test, LINNOS_READS="200000")


@pytest.mark.nightly
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


@pytest.mark.parametrize("how", ["shared", "static"])
@pytest.mark.parametrize(
    ("name", "page", "output", "libraries", "remaining"),
    [
        ("liblinnos", "liblinnos.md", r"\d+ hedged, \d+ slow", "-luring -lm -pthread", set()),
        ("cluster", "cluster.md", r"\d+ slow, \d+ redirected, \d+ copies",
         "-lsodium -lm -pthread", {"linnos_choose.h"}),
    ],
)  # fmt: skip
def test_example_builds_with_installed_files_and_prints_what_its_page_says(
    tmp_path: Path, how: str, name: str, page: str, output: str, libraries: str, remaining: set[str]
) -> None:
    code, root = CODE[name], tmp_path / "opt"
    code.builds.make("install", f"PREFIX={root}")
    shutil.copy(code.builds.source / "examples" / "choose.c", tmp_path / "p.c")
    static = libraries.split() if how == "static" else None
    program = built_as_installed(tmp_path / "p.c", root, code.name, static)
    path = {"LD_LIBRARY_PATH": f"{root}/lib"}
    result = subprocess.run([program], env=path, capture_output=True, text=True, check=True)
    assert re.search(rf"^    ({output})$", (DOCS / page).read_text(), re.M)[1] == result.stdout[:-1]  # type: ignore[index]
    ends = (".a", ".so", ".so.1", f".so.{__version__}")
    assert {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()} == {
        "include/linnos_choose.h",
        *(f"include/{header.name}" for header in code.headers),
        *(f"lib/{code.name}{end}" for end in ends),
        f"lib/pkgconfig/{code.name}.pc",
        *(f"share/man/man3/{page.name}" for page in code.pages),
    }
    code.builds.make("uninstall", f"PREFIX={root}")
    assert {path.name for path in root.rglob("*") if not path.is_dir()} == remaining


@NEEDS_RADOS
def test_ceph_calls_only_public_functions_of_librados() -> None:
    called = names(built("ceph").builds.symbols("liblinnos-ceph.so", "-D", "-u"), r" U (rados_\w+)")
    header = Path("/usr/include/rados/librados.h").read_text()
    for word in called:
        assert re.search(rf"CEPH_RADOS_API [\w ]+?[ *]{word}\(", header), word
    # the library does not write
    assert not {word for word in called if "write" in word or "remove" in word}


CRATE = LIBRARY / "rust"


def test_crate_reads_from_replicas(tmp_path: Path) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("there is no cargo")
    subprocess.run(["make", "-s", "-C", LIBRARY, f"OUT={BUILT}"], check=True, capture_output=True)
    result = subprocess.run(
        [cargo, "test", "--offline", "--locked", "--quiet"],
        cwd=CRATE,
        env={**os.environ, "LINNOS_LIB_DIR": str(BUILT), "CARGO_TARGET_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "test result: ok. 5 passed; 0 failed" in result.stdout


@pytest.mark.parametrize(
    ("struct", "mirror"),
    [
        ("linnos_options", "Options"),
        ("linnos_read_options", "ReadOptions"),
        ("linnos_stats", "Stats"),
        ("linnos_replica_stats", "ReplicaStats"),
    ],
)
def test_structures_equal_the_header(struct: str, mirror: str) -> None:
    header = "".join(
        (LIBRARY / "include" / name).read_text() for name in ("linnos_choose.h", "liblinnos.h")
    )
    body = header[header.index(f"struct {struct} {{") :]
    fields = re.findall(r"^\t(\w.*[ *])(\w+);$", body[: body.index("\n};")], re.MULTILINE)
    types = {"double": "f64", "size_t": "usize", "uint64_t": "u64", "int64_t": "i64",
             "uint32_t": "u32", "int32_t": "i32",
             "const char *const *": "*const *const c_char"}  # fmt: skip
    source = (CRATE / "src" / "ffi.rs").read_text()
    mirrored = source[source.index(f"pub struct {mirror} {{") :]
    assert [(name, types[kind.strip()]) for kind, name in fields] == re.findall(
        r"^    pub (\w+): (.+),$", mirrored[: mirrored.index("\n}")], re.MULTILINE
    )
