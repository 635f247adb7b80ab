# SPDX-License-Identifier: MIT
"""Three nodes of WiredTiger and a client that fails over, as in `make eval-nodes`, but smaller."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_apps_on_raid1 import ARRAY, ROWS, always, background

from eval.experiments.apps import lab, reports
from eval.experiments.nodes import CLIENT, ENGINE, MODELS, run_once

pytestmark = pytest.mark.lab


def test_client_reads_from_another_node_when_a_read_is_refused(tmp_path: Path) -> None:
    rows = ROWS["wiredtiger"]
    if missing := ENGINE.missing():
        pytest.skip(f"not installed: {', '.join(package for _, package in missing)}")
    engine = replace(ENGINE, data=(rows,), load=(rows, 1000, 1), seconds=1.0)
    lab.make_data(engine, tmp_path)
    models = [always(drive == 0, tmp_path / f"model{drive}") for drive in range(3)]
    traces, found = background(tmp_path), {}
    elsewhere: dict[str, int] = {}
    timeout_us = 0
    for policy in ("baseline", "hedge", "linnos", "fastest"):
        folder = tmp_path / policy
        uploaded = models if policy in MODELS else []
        setup = lab.Setup(ARRAY, tmp_path / lab.DATA, traces, uploaded, 1, 1024)
        result = run_once(engine, setup, "ext4", policy, timeout_us, folder)
        assert result["reads"] > 1000 and result["data_errors"] == 0
        # The client compared each value.
        found[policy] = reports.read_client_report(folder / "reads.csv", 1.0)
        elsewhere[policy] = int((folder / "elsewhere").read_text())
        timeout_us = round(np.percentile(found["baseline"].latency_us, 80))
    n = len(found["baseline"].latency_us)
    assert 900 < n < 1100 and elsewhere["baseline"] == 0
    for policy, operations in found.items():
        assert operations.start_us.tolist() == found["baseline"].start_us.tolist(), policy
        assert 50 < np.median(operations.latency_us) < 1000, policy
    # A third of the keys has the first node, whose drive is predicted to be always slow. Some of
    # their leaves are cached, and some reads are probes.
    for policy in ("linnos", "fastest"):
        assert 0.15 * n < elsewhere[policy] < 0.4 * n, policy
    # A fifth of the reads of `baseline` took longer than the timeout.
    assert 0.1 * n < elsewhere["hedge"] < 0.3 * n


def test_client_has_at_most_150_lines() -> None:
    assert len(CLIENT.read_text().splitlines()) <= 150
