# SPDX-License-Identifier: MIT
"""liblinnos for Rust: its tests, built offline; its structures equal the header's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from replaying import BUILT, LIBRARY

CRATE = LIBRARY / "rust"


def test_crate_reads_from_replicas(tmp_path: Path) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("there is no cargo")
    subprocess.run(["make", "-s", "-C", LIBRARY, f"OUT={BUILT}"], check=True, capture_output=True)
    ran = subprocess.run(
        [cargo, "test", "--offline", "--locked", "--quiet"],
        cwd=CRATE,
        env={**os.environ, "LINNOS_LIB_DIR": str(BUILT), "CARGO_TARGET_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "test result: ok. 5 passed; 0 failed" in ran.stdout


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
