# SPDX-License-Identifier: MIT
"""What training a drive gives: a model, and the record of how it was made, whatever its kind."""

from __future__ import annotations

import dataclasses
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp import __version__
from linnapp.files import AnyPath, os_errors, replace_text
from linnapp.learn.labelling.inflection import InflectionPoint
from linnapp.learn.options import Recipe
from linnapp.learn.trees.hedge_table import HedgeTable
from linnapp.model import LatencyModel, Model
from linnapp.trace.blktrace import TraceStats
from linnapp.trace.recorded import Recorded, contents_of
from linnapp.trace.table import IoTable

#: Beside a latency model: when to hedge by it.
HEDGE_SUFFIX = ".hedge"

#: Reads of up to so many pages of 4 KiB are alike: the kernel's orders of size.
SIZES_TO_PAGES = (16, 256, 2**32 - 1)

#: Of which predictions are recorded: each stands for as many reads.
PREDICTED_PERCENTILES = tuple(2.5 + 5 * k for k in range(20))


@dataclasses.dataclass(frozen=True)
class TrainedDrive:
    """What a drive was trained to."""

    model: Model | LatencyModel
    #: How it was made and how good it is (linnapp/topics/records.txt), as JSON takes it.
    record: dict[str, Any]
    #: With a latency model.
    hedge_table: HedgeTable | None = None

    def save(self, path: AnyPath) -> None:
        """Write the model, and the rest beside it; the record comes last: with it, it is done."""
        path = Path(path)
        self.model.save(path)
        hedge_table = path.with_suffix(HEDGE_SUFFIX)
        if self.hedge_table is not None:
            replace_text(hedge_table, self.hedge_table.to_text())
        else:  # that of a latency model, in whose place a network comes
            with os_errors(hedge_table):
                hedge_table.unlink(missing_ok=True)
        replace_text(path.with_suffix(".json"), json.dumps(self.record, indent=1) + "\n")

    @property
    def interrupted(self) -> bool:
        """Whether ctrl-C ended training early."""
        return bool(self.record["interrupted"])


def record_of_point(point: InflectionPoint, recipe: Recipe) -> dict[str, Any]:
    """How a drive's inflection point was found."""
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
    """What a latency model predicts, by size of the reads."""
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
    """What was trained from."""
    files, sha256 = contents_of(trace)
    part = {}
    if isinstance(trace, IoTable) and not trace.whole:
        part = {"rows": [trace.first, trace.first + len(trace)]}
    return {"files": files, "sha256": sha256, **part, **stats.counts}


def record_of_versions(trainer: dict[str, str]) -> dict[str, str]:
    """What trained: this program, the libraries `trainer`, and what all stand on."""
    return {
        "linnapp": __version__,
        **trainer,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
