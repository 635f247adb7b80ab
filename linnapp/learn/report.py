# SPDX-License-Identifier: MIT
"""The result of training a drive: a model of any kind, and the record of how it was made."""

from __future__ import annotations

import dataclasses
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import __version__
from linnapp.errors import ModelError
from linnapp.files import AnyPath, replace_text
from linnapp.learn.labels import InflectionPoint
from linnapp.learn.options import Recipe
from linnapp.model import LatencyModel, Model, find_model, load_model
from linnapp.trace.blktrace import TraceStats
from linnapp.trace.reads import IoTable, Recorded, contents_of

#: Upper limits of the size classes in pages of 4 KiB. They are those of the kernel.
SIZES_TO_PAGES = (16, 256, 2**32 - 1)

#: Percentiles of the predictions that are recorded. Each represents the same number of reads.
PREDICTED_PERCENTILES = tuple(2.5 + 5 * k for k in range(20))


@dataclasses.dataclass(frozen=True)
class TrainedDrive:
    """The result of training a drive."""

    model: Model | LatencyModel
    #: How the model was made and how good it is (linnapp/topics/records.txt), JSON serialisable.
    record: dict[str, Any]

    def save(self, path: AnyPath) -> None:
        """Write the model, and then its record: if the record exists, the model is complete."""
        path = Path(path)
        self.model.save(path)
        replace_text(path.with_suffix(".json"), json.dumps(self.record, indent=1) + "\n")

    @classmethod
    def load(cls, path: AnyPath) -> TrainedDrive:
        """Read a model file or directory and, if it exists, the record next to the model.

        Raises
        ------
        ModelError
            If the model or its record cannot be read.
        """
        path = find_model(path)
        beside = path.with_suffix(".json")
        try:
            record = json.loads(beside.read_bytes()) if beside.is_file() else {}
        except (OSError, ValueError) as error:
            raise ModelError(
                f"{beside}: not a training record ({error}); remove it to load the model alone"
            ) from error
        if not isinstance(record, dict):
            raise ModelError(f"{beside}: not a training record; remove it to load the model alone")
        return cls(load_model(path), record)

    @property
    def interrupted(self) -> bool:
        """True if ctrl-C ended training early."""
        return bool(self.record["interrupted"])


def record_of_point(point: InflectionPoint, recipe: Recipe) -> dict[str, Any]:
    """Return the part of the record that describes how the inflection point was found."""
    return {
        "threshold_us": point.threshold_us,
        "threshold_percentile": round(point.percentile, 2),
        "slow_ratio": point.slow_ratio,
        "start_percentile": round(point.start_percentile, 2),
        "boost_area_us": point.boost_area_us,
        "searched_percentiles": [round(float(end), 2) for end in point.searched_percentiles],
        "search_ended_at_edge": point.at_edge,
        "labelling": {**dataclasses.asdict(recipe.labelling), "replicas": point.replicas},
    }


def record_of_predictions(
    predicted_us: npt.NDArray[np.uint32], pages: npt.NDArray[Any]
) -> list[dict[str, Any]]:
    """Return the distribution of a latency model's predictions, by size class of the reads."""
    found, from_pages = [], 0
    for to_pages in SIZES_TO_PAGES:
        these = predicted_us[(pages > from_pages) & (pages <= to_pages)]
        from_pages = to_pages
        if len(these):
            us = np.percentile(these, PREDICTED_PERCENTILES, method="nearest")
            found.append(
                {
                    "pages_to": to_pages,
                    "share": len(these) / len(predicted_us),
                    "percentiles": us.tolist(),
                }
            )
    return found


def record_of_trace(trace: Recorded, stats: TraceStats) -> dict[str, Any]:
    """Return the part of the record that describes the training data."""
    files, sha256 = contents_of(trace)
    part: dict[str, Any] = {}
    if isinstance(trace, IoTable) and not trace.whole:
        part["rows"] = [trace.first, trace.first + len(trace)]
    if isinstance(trace, IoTable) and trace.selected:
        part["selected_reads"] = int(np.count_nonzero(trace.is_served_read))
    return {"files": files, "sha256": sha256, **part, **stats.counts}


def record_of_versions(trainer: dict[str, str]) -> dict[str, str]:
    """Return the versions of this program, the libraries in `trainer`, numpy and Python."""
    return {
        "linnapp": __version__,
        **trainer,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
