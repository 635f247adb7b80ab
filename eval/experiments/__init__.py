# SPDX-License-Identifier: MIT
"""The experiments: each module or package in this folder is one, and has its name."""

from __future__ import annotations

import importlib
from pathlib import Path

from eval.study import Study

#: The experiments of `make eval` in the order in which they run: first those whose work or data
#: others use.
NAMES = (
    "fig08", "fig09", "fig11", "fig05", "table1", "fig10", "fig07", "table3", "cpu", "claims",
    "unseen", "uscope", "fig01",
)  # fmt: skip

#: All other experiments of this folder. They run only when they are named, because they need more
#: time, or more to be installed.
ON_REQUEST = tuple(sorted({path.stem for path in Path(__file__).parent.glob("[!_.]*")} - {*NAMES}))


def load(name: str) -> Study:
    """Import an experiment."""
    if name not in (*NAMES, *ON_REQUEST):
        raise KeyError(name)
    experiment = importlib.import_module(f"eval.experiments.{name}").EXPERIMENT
    assert isinstance(experiment, Study)
    return experiment
