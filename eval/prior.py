# SPDX-License-Identifier: MIT
"""`make prior`: train the trees for drives with too few recorded reads.

    python -m eval.prior                    # records, some ten minutes; writes models/prior

Records the workloads of `linnapp generate` on drives of all profiles, without bursts and with
several kinds of slowness, and grows one set of trees from all recordings. Times are in units of
each drive's median. The seeds are the development seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eval.cache import ROOT, Cache
from eval.cells import N_DRIVES, WORKLOADS, Cell, recorded
from eval.programs import keep_programs
from eval.seeds import DEVELOPMENT
from linnapp.engine import predict_us
from linnapp.lab.work import StepError, write_json
from linnapp.learn import examples as bursts
from linnapp.learn.examples import load_reads
from linnapp.learn.fit import record_of_versions
from linnapp.learn.trees import (
    BURST_LEARNING_RATE,
    N_BURST_TREES,
    OVERDUE_PERCENTILE,
    PRIOR_NAME,
    PRIOR_UNIT_US,
    grow_from_reads,
    to_prior_units,
    unit_of_drive_us,
)
from linnapp.model import NEVER, LatencyModel
from linnapp.trace.workload import load_profile

OUT = Path("out") / "prior"
FOLDER = ROOT / "models" / "prior"
SEED = 1

#: Arrays, with the flashsim profile of each drive.
ARRAYS = (
    ("consumer", "consumer-nvme", "enterprise-a"),
    ("enterprise-c", "consumer-nvme", "enterprise-b"),
)
SYNTHETIC = ("azure", "bingindex", "bingselect", "cosmos", "demo")
#: The number of reads of each drive. It decides the length of the synthetic workloads' recordings.
READS = 3500
#: Lengths of the paper's workloads in seconds, and the seconds that are kept of each ten.
LENGTHS = {
    "az-c": (12, 1), "bi-c": (40, 2), "bs-c": (80, 10), "co-c": (60, 5),
    "az-e": (1, 0.1), "bi-e": (6, 0.5), "bs-e": (9, 1), "co-e": (6, 0.5),
}  # fmt: skip
_SLOTS = "op=read,slot_ms=100,every_ms=500,rotate"
SLOW = (
    f"continuous:ratio=100%,latency_us=2000,{_SLOTS}",
    f"continuous:ratio=100%,shape=ramp,latency_us=4000,{_SLOTS}",
    f"continuous:ratio=100%,shape=queue,at_depth=4,latency_us=1000,{_SLOTS}",
    f"continuous:ratio=100%,shape=pareto,tail=1.2,latency_us=500,{_SLOTS}",
    "continuous:ratio=100%,latency_us=1000,op=read,start_ms=1000,slot_ms=3000,every_ms=100000,"
    "rotate",
)

#: A drive's own reads add eight trees; a model then has as many trees as without a prior.
TREES, RATE = 24, 0.2

#: The number of added reads of a drive. Their total weight is `BURST_WEIGHT`.
ADDED = 3000


def cells() -> Iterator[Cell]:
    """Yield the recordings."""
    for seed, slow in ((DEVELOPMENT[1], False), (DEVELOPMENT[2], True)):
        for i, name in enumerate(SYNTHETIC):
            profile = load_profile(name)
            seconds = round(READS / (profile.mean_iops * profile.read_fraction), 1)
            for j, array in enumerate(ARRAYS):
                inject = SLOW[(i + j) % len(SLOW)] if slow else None
                yield Cell(name, ",".join(array), seed, seconds, 0.0, train_inject=inject)
    for name in WORKLOADS:
        array = ARRAYS[name.endswith("-e")]
        seconds, kept_s = LENGTHS[name]
        yield Cell(name, ",".join(array), DEVELOPMENT[3], float(seconds), 0.0, kept_s=kept_s)


class DriveExamples(NamedTuple):
    """Training data of a drive in its own units: its reads, and bursts that are added to them."""

    features: NDArray[np.uint32]
    latency: NDArray[np.float64]
    added_features: NDArray[np.uint32]
    added_latency: NDArray[np.float64]

    @classmethod
    def read(cls, path: Path) -> DriveExamples:
        """Read a recording."""
        reads = load_reads(path, overdue_us=1)
        overdue_us = max(1, int(np.percentile(reads.latency_us, OVERDUE_PERCENTILE)))
        reads = load_reads(path, overdue_us=overdue_us)
        unit_us = unit_of_drive_us(reads.latency_us, reads.pages)
        added = bursts.sample_slow_reads(path, len(reads), overdue_us, SEED)
        added = added.take(np.sort(np.random.default_rng(SEED).permutation(len(added))[:ADDED]))
        return cls(
            to_prior_units(reads.features, unit_us), _in_unit(reads.latency_us, unit_us),
            to_prior_units(added.inputs, unit_us), _in_unit(added.latency_us, unit_us),
        )  # fmt: skip


def _in_unit(latency_us: NDArray[Any], unit_us: float) -> NDArray[np.float64]:
    return np.asarray(np.maximum(latency_us, 1) * (PRIOR_UNIT_US / unit_us))


def learn(drives: Sequence[DriveExamples]) -> LatencyModel:
    """Grow trees from the reads of all drives, and more trees from the added bursts."""
    features, latency, added_features, added_latency = map(
        np.concatenate, zip(*drives, strict=True)
    )
    like = LatencyModel.mean_of_last(PRIOR_UNIT_US, NEVER, PRIOR_UNIT_US)
    calm, _ = grow_from_reads(
        (features,), latency, like, SEED, n_trees=TREES, learning_rate=RATE
    )  # fmt: skip
    n, n_added = len(latency), len(added_latency)
    for_bursts, _ = grow_from_reads(
        (features, added_features),
        np.concatenate((np.ones(n), added_latency / predict_us(calm, added_features))),
        like,
        SEED,
        n_trees=N_BURST_TREES,
        learning_rate=BURST_LEARNING_RATE,
        weights=np.repeat((1.0, bursts.BURST_WEIGHT * n / n_added), (n, n_added)),
    )
    return calm.times(for_bursts)


def write(drives: Sequence[DriveExamples]) -> None:
    """Write the prior and its record."""
    model = learn(drives)
    model.save(FOLDER / f"{PRIOR_NAME}.linnos")
    write_json(
        FOLDER / f"{PRIOR_NAME}.json",
        {
            "model_id": model.model_id,
            "kind": "latency",
            "unit_us": PRIOR_UNIT_US,
            "n_trees": model.n_trees,
            "reads": sum(len(drive.latency) for drive in drives),
            "drives": len(drives),
            "recordings": [
                f"{cell.workload}, {cell.train_s:g} s, of each ten {cell.kept_s:g} kept, on "
                f"{cell.array}, seed {cell.seed}, {cell.train_inject or 'calm'}"
                for cell in cells()
            ],
            "versions": record_of_versions({}),
        },
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m eval.prior", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--any-version", action="store_true", help="accept older recordings")
    arguments = parser.parse_args()
    keep_programs(arguments.out)
    cache = Cache((arguments.out / "cache").resolve(), any_version=arguments.any_version)
    try:
        recordings = [
            recorded(cache, cell) / "record" / f"flash{k}.blk"
            for cell in cells()
            for k in range(N_DRIVES)
        ]
    except StepError as error:
        sys.exit(f"python -m eval.prior: {error}")
    write([DriveExamples.read(path) for path in recordings])


if __name__ == "__main__":
    main()
