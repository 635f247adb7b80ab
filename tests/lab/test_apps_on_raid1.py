# SPDX-License-Identifier: MIT
"""An application on a raid1 with background load, as in `make eval-apps`, but smaller."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from networks_by_hand import network

from eval.experiments.apps import lab
from eval.experiments.apps.comparison import MODULE
from eval.experiments.apps.lab import (
    MODULE_KERNEL,
    Case,
    PartitionedArray,
    Setup,
    make_data,
    run_once,
)
from eval.experiments.apps.programs import APPLICATIONS
from eval.programs import REPLAYER
from linnapp.lab import guests
from linnapp.trace import convert as iolog

pytestmark = pytest.mark.lab

#: More than WiredTiger keeps in its cache.
ROWS = {"sqlite": 6000, "wiredtiger": 40000}
ARRAY = PartitionedArray(size_mb=128, mirror_mb=64, precondition=False)


def always(slow: bool, path: Path) -> Path:
    """Save a model with a constant answer."""
    # Therefore a probe of a drive that is predicted slow never finds it fast.
    network(bias=(0, 1) if slow else (1, 0), threshold_us=1).save(path)
    return path


def background(folder: Path) -> list[Path]:
    """Write traces of reads and writes on the second parts, 500 per second on each."""
    rng = np.random.default_rng(1)
    n = 900
    paths = []
    for drive in range(3):
        time_us = np.sort(rng.integers(0, 1_900_000, n))
        offset = rng.integers(0, (64 << 20) // 4096, n) * 4096
        load = iolog.Workload(time_us, offset, np.full(n, 4096), rng.random(n) < 0.5)
        paths.append(folder / f"flash{drive}.iolog")
        iolog.write_iolog(paths[-1], [load], f"/dev/flash{drive}")
    return paths


@pytest.mark.parametrize(("name", "n_mirrors"), [("sqlite", 3), ("sqlite", 2), ("wiredtiger", 3)])
def test_application_reads_from_mirrors_that_are_predicted_fast(
    name: str, n_mirrors: int, tmp_path: Path
) -> None:
    rows = ROWS[name]
    app = replace(APPLICATIONS[name], data=(rows,), load=(rows, 1000, 1), seconds=1.0)
    if missing := app.missing():
        pytest.skip(f"not installed: {', '.join(package for _, package in missing)}")
    make_data(app, tmp_path)
    # md prefers the first of idle mirrors; the models predict that this one is slow.
    models = [always(drive == 0, tmp_path / f"model{drive}") for drive in range(3)]
    setup = Setup(ARRAY, tmp_path / lab.DATA, background(tmp_path), models, 1, 1024)
    reads, keys = {}, {}
    # These models have no gain, so the guard would soon stop following them.
    for state in ("off", "unguarded"):
        folder = tmp_path / state
        result = run_once(app, Case(name, "ext4", state, n_mirrors), setup, folder)
        # The guest compared every row or value, and the mirrors block by block.
        done = app.operations(app, folder)[name]
        reads[state], keys[state] = result["counted"], done.start_us.tolist()
        assert result["reads"] > 1000 and result["data_errors"] == 0
        assert 900 < len(done.latency_us) < 1100
        assert 50 < np.median(done.latency_us) < 1000
    assert keys["off"] == keys["unguarded"]
    assert sum(reads["off"]["inferences"]) == 0
    assert not any(sum(counted["mirrors"][n_mirrors:]) for counted in reads.values())
    assert reads["off"]["mirrors"][0] > sum(reads["off"]["mirrors"]) / 2
    # Probes of the mirror with slow predictions, and other simultaneous file system reads.
    assert reads["unguarded"]["mirrors"][0] < sum(reads["unguarded"]["mirrors"]) / 4
    assert sum(reads["unguarded"]["mirrors"]) > 500 and reads["unguarded"]["probes"][0] > 0


def test_application_runs_with_the_modules_on_a_kernel_without_linnos(tmp_path: Path) -> None:
    if not MODULE_KERNEL.exists():
        pytest.skip(f"{MODULE_KERNEL}: no kernel; make kernel-um-module")
    rows = ROWS["sqlite"]
    app = replace(APPLICATIONS["sqlite"], data=(rows,), load=(rows, 1000, 1), seconds=1.0)
    make_data(app, tmp_path)
    models = [always(drive == 0, tmp_path / f"model{drive}") for drive in range(3)]
    (tmp_path / "bin").mkdir()
    shutil.copy2(REPLAYER, tmp_path / "bin")
    with guests.on_kernel(MODULE_KERNEL, "kernel-um-module", tmp_path / "bin"):
        setup = Setup(ARRAY, tmp_path / lab.DATA, background(tmp_path), models, 1, 1024)
        result = run_once(app, Case("sqlite", "ext4", MODULE), setup, tmp_path / MODULE)
    assert result["reads"] > 1000 and result["data_errors"] == 0
    # The guard of the module lets md follow the models for a while.
    assert all(result["counted"]["inferences"]) and result["counted"]["probes"][0] > 0
