# SPDX-License-Identifier: MIT
"""Public traces: any file in a format that `linnapp convert` knows, one volume on an array.

    make eval-fig12 LINNOS_TRACES=a.csv:b.blk

The first half of a trace is recorded and trains the models, the second is
replayed. Reads have their home drive in turn, writes go to all drives.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from eval import loop
from eval.cache import digest
from eval.cells import ARRAYS, N_DRIVES, POLICIES, brief, training_records
from eval.experiment import NOT_AVAILABLE, Context, Experiment, Table
from eval.gain import improvement, oracle_share, percent
from linnapp.dataset import digest as file_digest
from linnapp.lab.array import Array

VARIABLE = "LINNOS_TRACES"

PARAMETERS: dict[str, Any] = {
    "traces": [
        [path, file_digest([Path(path)])[:16]] if Path(path).is_file() else [path, "missing"]
        for path in os.environ.get(VARIABLE, "").split(":")
        if path
    ],
    "array": "enterprise",
    "policies": POLICIES,
    "target_iops": 6000,
    "part_s": 8.0,
}


def _linnapp(*arguments: str) -> str:
    command = [sys.executable, "-m", "linnapp", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise loop.LoopError(f"linnapp {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout


def prepare(source: Path, folder: Path) -> dict[str, float]:
    """Convert a trace and cut it in two, sped up until it loads the array.

    The public traces were recorded on disks; at their own rate flash would idle.
    """
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / "whole.iolog"
    fit = str(Array().size_mb << 20)
    _linnapp("convert", str(source), str(whole), "--fit", fit, "--device-name", "/dev/flash0")
    facts = json.loads(_linnapp("inspect", str(whole), "--json"))
    iops = (facts["reads"] + facts["writes"]) / facts["duration_s"]
    rerate = max(1.0, PARAMETERS["target_iops"] / iops)
    part_s = min(PARAMETERS["part_s"] * rerate, facts["duration_s"] / 2)
    for name, first_s in (("train", 0.0), ("replay", part_s)):
        _linnapp(
            "convert", str(whole), str(folder / f"{name}.iolog"),
            "--slice", f"{first_s}:{first_s + part_s}", "--rerate", f"{rerate}",
            "--device-name", "/dev/flash0",
        )  # fmt: skip
    return {"iops": iops, "rerate": rerate, "part_s": part_s / rerate}


def replay_trace(context: Context, path: str, file_id: str) -> list[dict[str, Any]]:
    """One trace under every policy."""
    if file_id == "missing":
        raise loop.LoopError(f"{path}: no such file (named in {VARIABLE})")
    seed = context.seeds[0]
    folder = context.cache.folder / f"trace-{digest([file_id, seed, PARAMETERS])}"
    facts = prepare(Path(path), folder)
    array = Array(profile=ARRAYS[PARAMETERS["array"]], seed=seed)
    options = ("--quiet", "--prefill", "none", "--settle-ms", "0", "--spread", "--replicate-writes",
               "--fit")  # fmt: skip
    name = Path(path).name
    loop.record(
        loop.Scenario(name, array, (folder / "train.iolog",), seed, options=options),
        folder / "record",
    )
    blks = [folder / "record" / f"flash{k}.blk" for k in range(N_DRIVES)]
    models = loop.train(blks, folder / "models", folder / "train.txt", "--seed", str(seed))
    records = training_records(folder / "models")
    ratio = sum(record["false_submit_ratio"] for record in records) / N_DRIVES
    scenario = loop.Scenario(
        name, array, (folder / "replay.iolog",), seed,
        options=(*options, "--profile", str(folder / "record" / "baseline.log")),
    )  # fmt: skip

    def one(policy: str) -> dict[str, Any]:
        chosen = scenario
        if policy == "linnos-hl":
            extra = ("--false-submit-ratio", f"{ratio:.6f}")
            chosen = loop.replace(scenario, options=(*scenario.options, *extra))
        return loop.replay(chosen, policy, folder / "replays", models=models)

    runs = context.map(one, PARAMETERS["policies"], name)
    return [{"trace": name, **facts, **brief(run_), "full": run_} for run_ in runs]


def run(context: Context) -> dict[str, Any]:
    """Every trace that was named."""
    rows = [row for path, i in PARAMETERS["traces"] for row in replay_trace(context, path, i)]
    return {"runs": [row.pop("full") for row in rows], "rows": rows}


def _by_trace(data: dict[str, Any], key: str) -> dict[str, dict[str, float]]:
    grid: dict[str, dict[str, float]] = {}
    for row in data["rows"]:
        grid.setdefault(row["trace"], {})[row["policy"]] = row[key]
    return grid


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Mean and p99 of each trace and policy."""
    if not data["rows"]:
        return {}
    return {
        f"{name} (us)": Table(
            ("trace", *POLICIES),
            tuple(
                (trace, *(f"{values[p]:.1f}" for p in POLICIES))
                for trace, values in _by_trace(data, key).items()
            ),
        )
        for key, name in (("mean_us", "Mean"), ("p99_us", "p99"))
    }


def reading(data: dict[str, Any]) -> str:
    """One line a trace."""
    if not data["rows"]:
        return (
            f"No public trace was given, so nothing was measured. Name files in {VARIABLE}, "
            "separated by colons: `make eval-fig12 LINNOS_TRACES=a.csv:b.blk`."
        )
    lines = []
    for trace, v in _by_trace(data, "mean_us").items():
        lines.append(
            f"{trace}: baseline {v['baseline']:.1f} us, hedge {v['hedge']:.1f}, linnos "
            f"{v['linnos']:.1f} ({percent(improvement(v['linnos'], v['hedge']))} below hedge, "
            f"{percent(oracle_share(v['linnos'], v['baseline'], v['oracle']), 0)} of the "
            "oracle's gain)."
        )
    return "\n\n".join(lines)


EXPERIMENT = Experiment(
    name="fig12",
    title="Public traces",
    source="LinnOS Fig. 12",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    paper=NOT_AVAILABLE,
    differs="Public traces are not part of this repository; they are given by path.",
)
