# SPDX-License-Identifier: MIT
"""Record and replay a part of the demo's workload, for test_same_everywhere.py to compare.

python tests/lab/short_loop.py OUT        # OUT/record/flashK.blk, OUT/summary.json
"""

from __future__ import annotations

import sys
from pathlib import Path

from eval import small_cell
from linnapp.lab import guests, host
from linnapp.lab.array import Array
from linnapp.lab.work import write_json

SEED = 3
N_DRIVES = 3
SECONDS = 0.3


def short_scenario(workload: Path) -> guests.Scenario:
    """Return the scenario; its workload is written to a folder, its drives are small."""
    host.linnapp(
        "generate", "demo", "-o", str(workload), "--drives", str(N_DRIVES),
        "--duration", str(SECONDS), "--seed", str(SEED), "--drive-bytes", "64M",
    )  # fmt: skip
    return guests.Scenario(
        "short",
        Array(n_drives=N_DRIVES, size_mb=64, seed=SEED),
        tuple(workload / f"flash{k}.iolog" for k in range(N_DRIVES)),
        SEED,
        memory_mb=512,
    )


def main(out: Path) -> None:
    """Write the output of both guests."""
    scenario = short_scenario(out / "workload")
    guests.record(scenario, out / "record")
    models = [small_cell.FOLDER / f"flash{k}.linnos" for k in range(N_DRIVES)]
    run = guests.replay(scenario, "linnos-hl", out / "replays", models=models, hedge_us=300)
    write_json(out / "summary.json", {"runs": [run]})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
