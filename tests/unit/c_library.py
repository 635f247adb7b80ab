# SPDX-License-Identifier: MIT
"""A C library: build it, run its test programs, inspect its symbols."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CLibrary:
    """The library's sources and the folder of its build."""

    source: Path
    out: Path

    @property
    def tests(self) -> list[tuple[str, str]]:
        """Return each test, after its program."""
        return [
            (path.stem, test)
            for path in sorted(self.source.glob("tests/test_*.c"))
            for test in re.findall(r"^TEST\((\w+)\)$", path.read_text(), re.MULTILINE)
        ]

    def make(self, *arguments: object) -> str:
        """Return the output of make; it must succeed. Only one process builds at a time."""
        self.out.mkdir(parents=True, exist_ok=True)
        with (self.out / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            result = subprocess.run(
                ["make", "-s", "-C", self.source, f"OUT={self.out}", *map(str, arguments)],
                capture_output=True, text=True, timeout=600,
            )  # fmt: skip
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def passes(self, program: str, test: str, **environment: str) -> None:
        """Run one test, which must pass."""
        result = subprocess.run(
            [self.out / "tests" / program, test],
            env={**os.environ, **environment},
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert (result.returncode, result.stdout) == (0, "1 tests passed\n"), result.stderr

    def symbols(self, library: str, *arguments: str) -> str:
        """Return the output of nm."""
        return subprocess.run(
            ["nm", *arguments, self.out / library], capture_output=True, text=True, check=True
        ).stdout

    def shown(self, name: str, suffix: str) -> list[set[str]]:
        """Return the functions of the archive, and those of the shared library in this version."""
        pattern = rf" T ([a-z]\w+)(?:@@{suffix})?$"
        return [
            names(self.symbols(f"{name}.a", "-g", "--defined-only"), pattern),
            names(self.symbols(f"{name}.so", "-D", "--defined-only"), pattern),
        ]


def names(text: str, pattern: str) -> set[str]:
    """Return the matches of a pattern; there must be some."""
    found = set(re.findall(pattern, text, re.MULTILINE))
    assert found
    return found


def built_as_installed(source: Path, root: Path, package: str, static: list[str] | None) -> Path:
    """Build a program with the files installed below `root`; `static` lists libraries."""
    program = source.with_suffix("")
    if static is None:
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", package],
            env={**os.environ, "PKG_CONFIG_PATH": str(root / "lib/pkgconfig")},
            capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
    else:
        flags = [f"-I{root}/include", f"{root}/lib/{package}.a", *static]
    subprocess.run(
        ["gcc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-o", program, source,
         *flags],
        check=True,
    )  # fmt: skip
    return program
