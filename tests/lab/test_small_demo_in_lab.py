# SPDX-License-Identifier: MIT
"""`linnapp demo`: its table is what the replayer wrote, and depends on the seed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from linnapp.lab import demo


@pytest.mark.lab
@pytest.mark.long
def test_table_equals_the_replayer_s_results_and_depends_on_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run a second of workload under the policies that the result names."""
    rows = {row: what for row, what in demo.ROWS.items() if row.name in (
        "baseline", "c3", "linnos", "fastest",
    )}  # fmt: skip
    monkeypatch.setattr(demo, "ROWS", rows)
    monkeypatch.setattr(demo, "HALF_S", 1)
    tables = []
    for run, seed in enumerate((5, 6)):
        out = tmp_path / str(run)
        shown = demo.explain_runs(demo.run_small_demo(out, seed), out)
        for row in rows:
            written = json.loads((out / "replays" / row.folder / f"{row.policy}.json").read_text())
            assert written["data_errors"] == 0
            (line,) = re.findall(rf"^{row.name}  +([\d.].*)$", shown, re.M)
            mean, p50, p95, p99, *_ = line.split()
            assert mean == f"{written['mean_us']:.1f}" and p99 == f"{written['p99_us']:.0f}"
            assert p50 == f"{written['p50_us']:.0f}" and p95 == f"{written['p95_us']:.0f}"
        assert (out / "picture.svg").read_text().startswith("<svg")
        tables.append(shown.split(str(out))[0])
    assert tables[0] != tables[1]
