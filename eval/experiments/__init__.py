# SPDX-License-Identifier: MIT
"""The experiments, one module each; a module's name is the experiment's."""

from __future__ import annotations

import importlib

from eval.experiment import Experiment

#: In the order in which they run: those that others share work with first.
NAMES = (
    "fig08", "fig09", "fig11", "fig05", "table1", "bursts", "windows", "fig10",
    "uscope", "table3", "fig07", "fig01", "cpu", "fig12",
)  # fmt: skip


def load(name: str) -> Experiment:
    """Import an experiment.

    Raises
    ------
    KeyError
        When there is none of that name.
    """
    if name not in NAMES:
        raise KeyError(name)
    experiment = importlib.import_module(f"eval.experiments.{name}").EXPERIMENT
    assert isinstance(experiment, Experiment)
    return experiment
