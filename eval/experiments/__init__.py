# SPDX-License-Identifier: MIT
"""The experiments: each module or package in this folder is one, and has its name."""

from __future__ import annotations

import importlib
from pathlib import Path

from eval.study import Study

#: In the order in which they run: those that others share work or data with first.
NAMES = (
    "fig08", "fig09", "fig11", "fig05", "table1", "fig10", "fig07", "table3", "cpu", "claims",
    "unseen", "uscope", "fig01",
)  # fmt: skip

#: All others of this folder, which run only when they are named: they need more installed, or more
#: time.
ON_REQUEST = tuple(sorted({path.stem for path in Path(__file__).parent.glob("[!_.]*")} - {*NAMES}))


def source(name: str) -> str:
    """Return the path of an experiment's code, relative to the repository."""
    module = Path(__file__).parent / name
    return f"eval/experiments/{name}" + ("" if module.is_dir() else ".py")


def load(name: str) -> Study:
    """Import an experiment."""
    if name not in (*NAMES, *ON_REQUEST):
        raise KeyError(name)
    experiment = importlib.import_module(f"eval.experiments.{name}").EXPERIMENT
    assert isinstance(experiment, Study)
    return experiment
