# SPDX-License-Identifier: MIT
"""The rooms of the linnapp package: imports go down the way of the data and never in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "linnapp"

#: Each room may import from those named; all may import from what lies at the top of the package
#: (checks of arguments, errors, axes of figures, files, types of options). The lab stands beside:
#: it may be used by commands alone.
MAY_IMPORT = {
    "commands": {"watch", "layers", "drive", "learn", "model", "trace", "lab", "native"},
    "layers": {"drive", "trace", "native"},
    "watch": {"trace", "native"},
    "drive": {"learn", "model", "trace"},
    "learn": {"trace", "model", "native"},
    "model": {"native"},
    "trace": {"native"},
    "lab": {"trace"},
    "native": set(),
}
GROUND = {"arguments", "errors", "figures", "files", "option_types", "signals"}


def modules() -> dict[str, Path]:
    """Dotted name below linnapp -> file."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        found[".".join(parts)] = path
    return found


def imports(path: Path) -> Iterator[str]:
    """What of linnapp a file imports, also inside functions; not for types alone."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            if node.module == "linnapp":
                yield from (alias.name for alias in node.names)
            elif node.module.startswith("linnapp."):
                below = node.module.removeprefix("linnapp.")
                yield below
                yield from (f"{below}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (
                alias.name.removeprefix("linnapp.")
                for alias in node.names
                if alias.name.startswith("linnapp.")
            )


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_arrows_point_down(room: str) -> None:
    climbing = []
    for name, path in modules().items():
        if name.split(".")[0] != room:
            continue
        for target in imports(path):
            to = target.split(".")[0]
            if to in MAY_IMPORT and to != room and to not in MAY_IMPORT[room]:
                climbing.append(f"{name} imports {target}")
    assert not climbing


#: The same of the shelves of `learn`, each by those below it. What stands beside them, as options
#: and records, is of all, and may be used by the trees alone, which are trained by whole recipes.
LEARN_MAY_IMPORT = {
    "labelling": set(),
    "features": {"labelling"},
    "judging": {"labelling", "features"},
    "network": {"labelling", "features", "judging"},
    "trees": {"labelling", "features", "judging", "network", "options", "record"},
}


@pytest.mark.parametrize("shelf", sorted(LEARN_MAY_IMPORT))
def test_arrows_point_down_in_learn(shelf: str) -> None:
    climbing = []
    for name, path in modules().items():
        if not name.startswith(f"learn.{shelf}."):
            continue
        for target in imports(path):
            room, _, below = target.partition(".")
            to = below.split(".")[0]
            if room == "learn" and to not in {"", shelf} | LEARN_MAY_IMPORT[shelf]:
                climbing.append(f"{name} imports {target}")
    assert not climbing


def test_every_module_has_a_room() -> None:
    at_the_top = {name for name in modules() if name and "." not in name} - MAY_IMPORT.keys()
    # The libraries' bindings are for programs: nothing else here uses them.
    assert at_the_top == GROUND | {"cli", "__main__", "replicas", "nodes", "ceph"}


def test_no_circles() -> None:
    known = modules()
    arrows = {
        name: {target for target in imports(path) if target in known and target != name}
        for name, path in known.items()
    }
    # A module imports the packages around it; that is no use of what they hold.
    for name, targets in arrows.items():
        targets -= {around for around in known if name.startswith(f"{around}.")}
    while removable := [name for name, targets in arrows.items() if not targets & arrows.keys()]:
        for name in removable:
            del arrows[name]
    assert not arrows, f"in or behind a circle: {sorted(arrows)}"


#: Modules on one shelf: more are hard to look through.
MOST_ON_A_SHELF = 12

#: Shelves of modules that are all of one kind: a command each.
OF_ONE_KIND = {"commands"}


def test_no_shelf_is_too_long() -> None:
    shelves: dict[str, int] = {}
    for path in PACKAGE.rglob("*.py"):
        if path.name != "__init__.py":
            shelf = ".".join(path.parent.relative_to(PACKAGE).parts)
            shelves[shelf] = shelves.get(shelf, 0) + 1
    too_long = {shelf for shelf, n in shelves.items() if n > MOST_ON_A_SHELF}
    assert too_long == OF_ONE_KIND


def test_no_two_classes_have_one_name() -> None:
    homes: dict[str, list[str]] = {}
    for name, path in modules().items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name)
    assert not {name: places for name, places in homes.items() if len(places) > 1}
