# SPDX-License-Identifier: MIT
"""LinnApp: the user-space side of LinnOS.

Tracing, labelling, training, quantising and uploading of the models with which the kernel
predicts whether a drive would serve a read fast or slow. As a library (docs/library.md): arrays
in, objects out; what is used is imported when it is first named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linnapp.drive.uploading import upload
    from linnapp.errors import LinnappError
    from linnapp.learn.evaluation import evaluate
    from linnapp.learn.options import LabellingOptions, Recipe
    from linnapp.learn.recipe import fit, inflection_point
    from linnapp.learn.training import TrainingOptions
    from linnapp.model import Model
    from linnapp.trace.recorded import load

__version__ = "0.1.0"

__all__ = [
    "LabellingOptions",
    "LinnappError",
    "Model",
    "Recipe",
    "TrainingOptions",
    "evaluate",
    "fit",
    "inflection_point",
    "load",
    "upload",
]

_HOMES = {
    "LabellingOptions": "linnapp.learn.options",
    "LinnappError": "linnapp.errors",
    "Model": "linnapp.model",
    "Recipe": "linnapp.learn.options",
    "TrainingOptions": "linnapp.learn.training",
    "evaluate": "linnapp.learn.evaluation",
    "fit": "linnapp.learn.recipe",
    "inflection_point": "linnapp.learn.recipe",
    "load": "linnapp.trace.recorded",
    "upload": "linnapp.drive.uploading",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
