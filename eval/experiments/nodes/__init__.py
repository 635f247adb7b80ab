# SPDX-License-Identifier: MIT
"""Three nodes of a storage engine, and a client that fails over when a read is refused.

    make eval-nodes

`make eval` does not run it: it needs WiredTiger (packaging/apt/apps.txt).

Each node is a WiredTiger of its own, unmodified, with all data on a file system of its own on one
drive. The client (`guest/failover_client.c`) reads values by key from the node of the key, or from
another one. Its background is that of `apps`: a workload is replayed on another part of each drive.
"""

from __future__ import annotations

import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from eval import grid
from eval.cache import ROOT, code_version
from eval.cells import LATENCY_TRAINING, N_DRIVES, trained
from eval.experiment import Context
from eval.experiments.apps import lab, reports
from eval.experiments.apps.lab import Setup
from eval.experiments.apps.programs import APPLICATIONS, Application, require, version
from eval.scores import Reads
from eval.study import READ_MEASURES, Measure, Study, load_study_texts
from linnapp.lab import guests
from linnapp.lab.work import StepError, write_json

#: Workloads of the background, each with its own seed.
WORKLOADS = ("az-e", "bi-e", "bs-e", "co-e")

#: All workloads run with the first file system, and the first one with all of them.
FILE_SYSTEMS = ("ext4", "xfs", "f2fs", "btrfs")

#: How the client chooses, by the name of the policy; see guest/failover_client.c.
POLICIES = {"baseline": "home", "hedge": "hedge", "linnos": "refuse", "fastest": "ask"}

#: Modes of the drives and options of their models' training, for policies that need models.
MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "linnos": ("enforce", ()),
    "fastest": ("observe", LATENCY_TRAINING),
}

#: The percentile of the reads without steering after which the client hedges.
HEDGE_PERCENT = 95

GUEST = Path(__file__).parent / "guest"
CLIENT = GUEST / "failover_client.c"
LIBRARY = ROOT / "build" / "liblinnos" / "liblinnos.a"
ENGINE = APPLICATIONS["wiredtiger"]

_SOURCES = (
    "eval/experiments/nodes",
    *(f"eval/experiments/apps/guest/{name}" for name in ("array.sh", "wiredtiger_values.h")),
    "eval/experiments/apps/lab.py",
)


def prepare(context: Context, *, workload: str, file_system: str, seed: int) -> None:
    """Record and train a cell; make the data of the engine."""
    require([ENGINE])
    cell = grid.cell(workload, seed)
    trained(context.cache, cell)
    trained(context.cache, cell, LATENCY_TRAINING)
    lab.data(context.cache, ENGINE)


def compile_client(folder: Path) -> Path:
    """Compile the client into a folder."""
    if not LIBRARY.exists():
        raise StepError(f"{LIBRARY} does not exist; `make liblinnos` builds it")
    program = folder / CLIENT.stem
    subprocess.run(
        ["gcc", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror",
         f"-I{ROOT / 'liblinnos/include'}", "-o", program, CLIENT, LIBRARY,
         "-lwiredtiger", "-luring", "-lm", "-pthread"],
        check=True,
    )  # fmt: skip
    return program


def measure(
    context: Context, *, workload: str, file_system: str, policy: str, seed: int
) -> Reads | None:
    """Read from the nodes by a policy; None if this combination is not part of the study."""
    if file_system != FILE_SYSTEMS[0] and workload != WORKLOADS[0]:
        return None
    timeout_us = 0
    if policy == "hedge":
        plain = measure(
            context, workload=workload, file_system=file_system, policy="baseline", seed=seed
        )
        assert plain is not None
        timeout_us = round(float(np.percentile(plain.latency_us, HEDGE_PERCENT)))
    cell = grid.cell(workload, seed)
    made_from = {
        "cell": asdict(cell), "file_system": file_system, "policy": policy,
        "timeout_us": timeout_us, "data": ENGINE.data, "load": ENGINE.load,
        "version": version(ENGINE), "recipe": code_version(*_SOURCES),
    }  # fmt: skip

    def make(folder: Path) -> None:
        training = MODELS[policy][1] if policy in MODELS else None
        setup = lab.make_setup(context.cache, cell, ENGINE, training)
        result = run_once(ENGINE, setup, file_system, policy, timeout_us, folder)
        write_json(folder / "run.json", result)

    folder = context.cache.get("nodes", made_from, make)
    operations = reports.read_client_report(folder / "reads.csv", ENGINE.seconds)
    elsewhere = int((folder / "elsewhere").read_text())
    summary: dict[str, Any] = {"elsewhere_ratio": elsewhere / len(operations.latency_us)}
    return Reads(operations.start_us, operations.latency_us, ENGINE.seconds, summary)


def run_once(
    engine: Application, setup: Setup, file_system: str, policy: str, timeout_us: int, folder: Path
) -> dict[str, Any]:
    """Read from the nodes in a guest while the background is replayed; return its summary.

    The policy `hedge` reads from a second node after `timeout_us`. The folder gets ``reads.csv``
    and ``elsewhere``, what the client reports and prints.
    """
    uploaded = setup.place(folder)
    places, drives = guests.places_of(folder), setup.array.drives
    client = compile_client(folder)
    mounted = [f"$files/{k}" for k in range(N_DRIVES)]
    make_file_systems = "".join(
        f"mkdir -p {place}\nfs_up {drive}p1 {file_system} {place}\n"
        for place, drive in zip(mounted, drives, strict=True)
    )
    of_client = " ".join(
        (
            *(places.of(client), POLICIES[policy], str(timeout_us)),
            *(*map(str, engine.load), str(setup.seed), f"{places.cwd}/reads.csv"),
            *(f"{place}/db {drive}" for place, drive in zip(mounted, drives, strict=True)),
        )
    )
    mode = MODELS[policy][0] if policy in MODELS else ""
    summary = lab.replay_background_during(
        f"( wait_until $start_s; {of_client} >{places.cwd}/elsewhere )",
        setup.scenario(f"three nodes on {file_system}, {policy}"),
        folder,
        engine.seconds,
        prepare=f"set -e\n. {lab.SCRIPTS}/array.sh\n"
        + guests.upload(drives[: len(uploaded)], uploaded, mode)
        + f"{make_file_systems}fill {' '.join(mounted)}\n",
        finish=f"umount {' '.join(mounted)}\n",
    )
    client.unlink()
    return summary


EXPERIMENT = Study(
    **load_study_texts("nodes"),
    factors={"workload": WORKLOADS, "file_system": FILE_SYSTEMS},
    policies=tuple(POLICIES),
    cell=measure,
    prepare=prepare,
    reads=True,
    seeds=grid.seed_of_workload(WORKLOADS),
    seed_fields=("elsewhere_ratio",),
    measures={
        **READ_MEASURES,
        "elsewhere_ratio": Measure("% of the reads sent to another node", 1, 100.0),
    },
    adds=True,
)
