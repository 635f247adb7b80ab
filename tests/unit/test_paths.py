# SPDX-License-Identifier: MIT
"""Every public function accepts a path as a Path or as a str."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_model_format import random_model
from test_training import array_trace

import linnapp
from linnapp.learn.evaluate import evaluate
from linnapp.learn.examples import load_reads
from linnapp.learn.fit import train_array
from linnapp.learn.network import TrainingOptions
from linnapp.learn.options import Recipe
from linnapp.model import Model, find_model
from linnapp.trace.convert import convert, detect_format
from linnapp.trace.inspection import inspect as inspect_trace


def public_functions() -> Iterator[tuple[str, object]]:
    """Return functions and methods outside the command line and the lab."""
    for module_info in pkgutil.walk_packages(linnapp.__path__, "linnapp."):
        if any(part in module_info.name for part in (".commands", ".lab", "__main__")):
            continue
        module = importlib.import_module(module_info.name)
        for name, item in vars(module).items():
            if name.startswith("_") or getattr(item, "__module__", "") != module.__name__:
                continue
            members = vars(item) if inspect.isclass(item) else {"": item}
            for member in members:
                function = getattr(item, member) if member else item
                written = member == "__init__" and "__dataclass_fields__" not in vars(item)
                if inspect.isroutine(function) and (written or not member.startswith("_")):
                    yield f"{module.__name__}.{name}.{member}", function


def test_no_signature_requires_a_path_object() -> None:
    checked = 0
    for name, function in public_functions():
        for parameter in inspect.signature(function).parameters.values():  # type: ignore[arg-type]
            words = str(parameter.annotation).replace("[", " ").replace("]", " ").split()
            assert "Path" not in words, f"{name}: {parameter}"
            checked += "AnyPath" in words
    assert checked > 30


def test_strings_work_like_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = random_model()
    model.save("x.linnos")
    assert Model.load("x.linnos").model_id == model.model_id
    assert find_model("x.linnos") == Path("x.linnos")

    array_trace(Path("d.blk"), 1, 1000)
    assert detect_format("d.blk") == "blktrace"
    assert convert("d.blk", "d.iolog", target_format="iolog") == 1200
    assert inspect_trace("d.blk").summary["reads"] == len(load_reads("d.blk")) == 1000
    recipe = Recipe(training=TrainingOptions(max_epochs=1), auto_bias=False)
    train_array(["d.blk"], "models", recipe)
    assert evaluate(Model.load("models/d.linnos"), "d.blk").confusion.total == 1000
