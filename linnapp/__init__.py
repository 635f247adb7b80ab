# SPDX-License-Identifier: MIT
"""LinnApp: the user-space side of LinnOS.

It traces, labels, trains, quantises and uploads the models with which the kernel
predicts whether a drive would serve a read fast or slow. As a library (docs/library.md), it takes
arrays and returns objects; its modules are imported when they are first used.
"""

from __future__ import annotations

import typing as _typing

if _typing.TYPE_CHECKING:
    from linnapp.drive.deployment import upload
    from linnapp.errors import LinnappError
    from linnapp.learn.fit import fit_latency, fit_network, inflection_point, load_model
    from linnapp.learn.judge import evaluate
    from linnapp.trace.reads import load

__version__ = "0.1.0"

_HOMES = {
    "LinnappError": "linnapp.errors",
    "evaluate": "linnapp.learn.judge",
    "fit_latency": "linnapp.learn.fit",
    "fit_network": "linnapp.learn.fit",
    "inflection_point": "linnapp.learn.fit",
    "load": "linnapp.trace.reads",
    "load_model": "linnapp.learn.fit",
    "upload": "linnapp.drive.deployment",
}

__all__ = [
    "LinnappError",
    "evaluate",
    "fit_latency",
    "fit_network",
    "inflection_point",
    "load",
    "load_model",
    "upload",
]


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
