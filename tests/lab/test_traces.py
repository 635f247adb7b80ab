# SPDX-License-Identifier: MIT
"""Traces on md raid1: bursts reach the mirrors, and the attribute has the stated values."""

from __future__ import annotations

from pathlib import Path

import pytest
from md_arrays import recent_model

from eval import trace_counts
from eval.cache import Cache
from eval.experiment import Context
from eval.experiments import traces

pytestmark = pytest.mark.lab

N_READS = 1200


def test_bursts_reach_the_mirrors_and_the_attribute_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt = tmp_path / "learnt"
    (learnt / "latency").mkdir(parents=True)
    for k in range(3):
        model = learnt / "latency" / f"flash{k}.linnos"
        recent_model().save(model)
        model.with_suffix(".json").write_text('{"prior": false}')
    (learnt / "replay").mkdir()
    (learnt / "replay" / "volume.iolog").write_text(
        "fio version 3 iolog\n"
        + "".join(f"{k * 2500} /dev/v read {k * 8192} 4096\n" for k in range(N_READS))
    )
    trace = traces.TraceAtRate("mine", tmp_path / "mine.trace", 400.0)
    trace.path.write_text("told from others by its content\n")
    monkeypatch.setattr(traces, "learn", lambda context, trace: learnt)
    context = Context("traces", Cache(tmp_path / "cache"), 1, True, tmp_path, n_seeds=1)
    slow = {}
    for what, slowness in (
        (trace_counts.OFF, trace_counts.CALM),
        (trace_counts.OFF, trace_counts.BURSTS),
        (trace_counts.ON, trace_counts.BURSTS),
        (trace_counts.ON_TWO_MIRRORS, trace_counts.BURSTS),
    ):
        result = traces.on_md(context, trace, what, slowness)
        done = result.summary
        assert (done["reads"], done["data_errors"], done["io_errors"]) == (N_READS, 0, 0)
        # There is one I/O at a time, so md reads from the first mirror, whose turn is 100 ms in 1.5
        # s.
        slow[what, slowness] = done["p95_us"]
    assert slow[trace_counts.OFF, trace_counts.CALM] < 1000
    assert slow[trace_counts.OFF, trace_counts.BURSTS] > 2000
    assert slow[trace_counts.ON, trace_counts.BURSTS] < 1000
    assert slow[trace_counts.ON_TWO_MIRRORS, trace_counts.BURSTS] < 1000
