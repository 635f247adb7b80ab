# SPDX-License-Identifier: MIT
"""The replayer's modules, one by one: their C tests, and what they may know of each other."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from replaying import LIBRARY, REPLAYER

SOURCE = REPLAYER.parents[2] / "replayer"
SHARED = (
    "budget", "chooser", "hedge_table", "histogram", "latcrit", "model_file", "observer", "race",
    "thread",
)  # fmt: skip
TESTS = [
    (path.stem, test)
    for path in sorted(SOURCE.glob("tests/test_*.c"))
    for test in re.findall(r"^TEST\((\w+)\)$", path.read_text(), re.MULTILINE)
]


@pytest.fixture(scope="module")
def programs() -> Path:
    subprocess.run(
        ["make", "-s", "-C", SOURCE, f"OUT={REPLAYER.parent}", "tests"],
        check=True, capture_output=True,
    )  # fmt: skip
    return REPLAYER.parent / "tests"


@pytest.mark.parametrize(("program", "test"), TESTS)
def test_module(programs: Path, program: str, test: str) -> None:
    ran = subprocess.run([programs / program, test], capture_output=True, text=True, timeout=600)
    assert (ran.returncode, ran.stdout) == (0, "1 tests passed\n"), ran.stderr


def modules() -> dict[str, list[Path]]:
    """The sources of each module, the library's that it shares among them: its .c and its .h."""
    found: dict[str, list[Path]] = {}
    shared = [LIBRARY / f"{name}.{kind}" for name in SHARED for kind in "ch"]
    own = [path for path in SOURCE.glob("**/*.[ch]") if path.parent.name != "tests"]
    for path in [*own, *shared]:
        found.setdefault(path.stem, []).append(path)
    return found


def test_no_two_modules_have_one_name() -> None:
    for name, paths in modules().items():
        assert len([path for path in paths if path.suffix == ".c"]) <= 1, name


def test_what_is_shared_has_one_home() -> None:
    for name in SHARED:
        assert not [*SOURCE.glob(f"**/{name}.[ch]")]


def includes() -> dict[str, set[str]]:
    names = modules()
    return {
        name: {
            Path(header).stem
            for path in paths
            for header in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE)
            if Path(header).stem in names
        }
        - {name}
        for name, paths in names.items()
    }


def calls() -> dict[str, set[str]]:
    """Whose functions and data each module's object uses, as the linker sees it."""
    defines: dict[str, str] = {}
    uses: dict[str, set[str]] = {}
    for name, paths in modules().items():
        sources = [path for path in paths if path.suffix == ".c"]
        if not sources:  # a header alone
            continue
        shared = sources[0].parent == LIBRARY
        place = sources[0].relative_to(LIBRARY if shared else SOURCE).with_suffix(".o")
        symbols = subprocess.run(
            ["nm", REPLAYER.parent / "obj" / place], capture_output=True, text=True, check=True
        )
        for line in symbols.stdout.splitlines():
            kind, symbol = line.split()[-2:]
            if kind == "U":
                uses.setdefault(name, set()).add(symbol)
            elif kind.isupper():
                defines[symbol] = name
    return {
        name: {defines[symbol] for symbol in symbols if symbol in defines}
        for name, symbols in uses.items()
    }


@pytest.mark.parametrize("graph", [includes, calls])
def test_no_module_needs_one_that_needs_it(graph: Callable[[], dict[str, set[str]]]) -> None:
    edges = graph()
    assert sum(map(len, edges.values())) > 100
    order = [*TopologicalSorter(edges).static_order()]  # raises CycleError, which names the circle
    assert order.index("ring") < order.index("attempts") < order.index("engine")


def test_what_is_tested_alone_knows_no_replay() -> None:
    """Not even through what it includes."""
    edges = includes()

    def known(module: str) -> set[str]:
        return edges[module].union(*(known(other) for other in edges[module]))

    alone = {"budget", "content", "histogram", "latency", "number", "ring", "series", "sources"}
    alone |= {"device", "hedge_table", "io_log", "options", "profile", "timers", "trace"}
    for module in alone:
        assert not known(module) & {"replay", "attempts", "engine"}, module
