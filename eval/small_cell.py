# SPDX-License-Identifier: MIT
"""A small cell that can be replayed anywhere, bit for bit.

    python -m eval.small_cell             # trains it again: writes eval/results/fig08-cell/
    python -m eval.small_cell --numbers   # only replays the committed models: numbers.json

Training gives equal models only on equal machines, so this cell's models and
what else its policies learnt from the recording are under version control;
everything else, workload and drives, comes from the seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from eval.cache import RESULTS, Cache
from eval.cells import (
    N_DRIVES,
    REPLAYER_OPTIONS,
    Cell,
    Replay,
    replayed,
    trained,
    write_workload,
)
from eval.seeds import EVALUATION
from linnapp.lab import guests
from linnapp.lab.work import StepError, write_json

FOLDER = RESULTS / "fig08-cell"
CELL = Cell("azure", "enterprise", EVALUATION[0], train_s=8.0, replay_s=2.0)
POLICIES = ("baseline", "hedge", "linnos", "linnos-hl", "oracle")

#: What of a run must be the same: all that does not name a file.
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
    summary = guests.replay(
        scenario,
        policy,
        out_dir,
        models=[FOLDER / f"flash{k}.linnos" for k in range(N_DRIVES)],
        prepare=prepare,
        finish=finish,
    )
    return {field: summary[field] for field in FIELDS}


def commit(cache: Cache) -> None:
    """Copy the cell's models, and write down what its policies learnt and its numbers.

    StepError if a number is not that of the replay in the cache.
    """
    models = trained(cache, CELL)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for drive in range(N_DRIVES):
        name = f"flash{drive}.linnos"
        (FOLDER / name).write_bytes((models / name).read_bytes())
    expected = {policy: replayed(cache, Replay(CELL, policy)).summary for policy in POLICIES}
    hedging = {
        policy: summary["config"]
        for policy, summary in expected.items()
        if summary["config"]["hedge_percentile"] is not None
    }
    write_json(
        FOLDER / "learnt.json",
        {
            "hedge_us": {policy: config["hedge_us"][0] for policy, config in hedging.items()},
            "percentile": {
                policy: config["hedge_percentile"] for policy, config in hedging.items()
            },
        },
    )
    runs = replay_all()
    for policy in POLICIES:
        for field in FIELDS:
            if runs[policy][field] != expected[policy][field]:
                raise StepError(
                    f"{policy}: {field} is {runs[policy][field]} here and "
                    f"{expected[policy][field]} in {cache.folder}"
                )
    write_numbers(runs)


def replay_all() -> dict[str, dict[str, Any]]:
    """Replay the cell under every policy with the committed models."""
    runs = {}
    for policy in POLICIES:
        with tempfile.TemporaryDirectory() as name:
            runs[policy] = replay(policy, Path(name))
    return runs


def write_numbers(runs: dict[str, dict[str, Any]]) -> None:
    """Write what ``tests/lab/test_eval_cell.py`` expects."""
    write_json(FOLDER / "numbers.json", {"command": "python -m eval.small_cell", "runs": runs})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m eval.small_cell", description=__doc__)
    parser.add_argument(
        "--numbers",
        action="store_true",
        help="keep the models; replay them and write their numbers",
    )
    try:
        if parser.parse_args().numbers:
            write_numbers(replay_all())
        else:
            commit(Cache((Path("out") / "eval" / "cache").resolve(), any_version=True))
    except StepError as error:
        sys.exit(f"python -m eval.small_cell: {error}")
    print(FOLDER)


if __name__ == "__main__":
    main()
