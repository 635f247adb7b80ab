# SPDX-License-Identifier: MIT
"""A small cell that can be replayed anywhere, bit for bit.

    python -m eval.small_cell    # replays it under every policy, and writes numbers.json

Training gives equal models only on equal machines. Therefore this cell's models, and everything
else that policies learn from the recording, are under version control in eval/results/fig08-cell.
The workload and the drives follow from the seed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from eval.cache import RESULTS
from eval.cells import N_DRIVES, REPLAYER_OPTIONS, Cell, write_workload
from eval.seeds import EVALUATION
from linnapp.lab import guests
from linnapp.lab.work import StepError, write_json

FOLDER = RESULTS / "fig08-cell"
CELL = Cell("azure", "enterprise", EVALUATION[0], train_s=8.0, replay_s=2.0)
POLICIES = ("baseline", "hedge", "linnos", "linnos-hl", "oracle")

#: Fields of the summary that must be equal in every run: all except names of files.
FIELDS = (
    "reads", "writes", "mean_us", "p50_us", "p95_us", "p99_us", "p999_us", "max_us", "revoked",
    "hedged", "extra_ios", "data_errors", "io_errors", "false_submit_ratio",
)  # fmt: skip


def replay(policy: str, out_dir: Path, *, prepare: str = "", finish: str = "") -> dict[str, Any]:
    """Replay the cell under a policy with the committed models."""
    learnt = json.loads((FOLDER / "learnt.json").read_text())
    hedge_us = learnt["hedge_us"].get(policy)
    first_s, last_s = CELL.train_s, CELL.train_s + CELL.replay_s
    write_workload(CELL.workload, [(out_dir / "workload", first_s, last_s)], CELL.seed)
    scenario = guests.Scenario(
        CELL.label,
        CELL.drives(),
        tuple(out_dir / "workload" / f"flash{k}.iolog" for k in range(N_DRIVES)),
        CELL.replay_seed,
        options=(*REPLAYER_OPTIONS, *(() if hedge_us is None else ("--hedge-us", f"{hedge_us}"))),
    )
    models = [FOLDER / f"flash{k}.linnos" for k in range(N_DRIVES)]
    summary = guests.replay(
        scenario, policy, out_dir, models=models, prepare=prepare, finish=finish
    )
    return {field: summary[field] for field in FIELDS}


def main() -> None:
    runs = {}
    for policy in POLICIES:
        with tempfile.TemporaryDirectory() as name:
            try:
                runs[policy] = replay(policy, Path(name))
            except StepError as error:
                sys.exit(f"python -m eval.small_cell: {error}")
    # tests/lab/test_eval_cell.py expects these.
    write_json(FOLDER / "numbers.json", {"command": "python -m eval.small_cell", "runs": runs})
    print(FOLDER)


if __name__ == "__main__":
    main()
