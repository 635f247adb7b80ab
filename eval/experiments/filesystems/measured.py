# SPDX-License-Identifier: MIT
"""Every case on every seed, and its numbers: by how much operations take longer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from eval.experiment import Context
from eval.experiments.filesystems import reports
from eval.experiments.filesystems.design import (
    CHOSEN,
    CONFIGURATIONS,
    EVERYTHING,
    NONE,
    SYSTEMS,
    SYSTEMS_VARIABLE,
    Case,
    cases,
    chosen,
)
from eval.experiments.filesystems.lab import run_case
from eval.experiments.filesystems.wrong import Wrong, plan, run_wrong
from eval.work import StepError


def run(context: Context) -> dict[str, Any]:
    """All that was chosen.

    Returns
    -------
    dict
        ``points``, a row for each slowness that a case met: see :func:`rows_of`; ``wrong``, a row
        for each arrangement that stored wrong data; ``runs``, one record for each run.
    """
    try:
        configurations = chosen(CHOSEN)
    except KeyError as error:
        known = ", ".join((*SYSTEMS, *(c.title for c in CONFIGURATIONS)))
        raise StepError(
            f"{SYSTEMS_VARIABLE}: {error.args[0]}: no such file system; known are {known}"
        ) from None
    every = cases(configurations, EVERYTHING)
    pairs = [(case, seed) for seed in context.seeds for case in every]
    done = context.map(lambda pair: run_case(context.cache, *pair), pairs, "running")
    points, records = [], []
    for i, case in enumerate(every):
        of_seeds = done[i :: len(every)]
        points += rows_of(case, of_seeds)
        scenario = f"{case.configuration.title}: {case.mix.name}"
        for (_, seed), runs in zip(pairs[i :: len(every)], of_seeds, strict=True):
            records += [
                {
                    "policy": "none", "scenario": scenario,
                    "mean_us": run["mean_us"], "p99_us": run["p99_us"], **run["drive"],
                    "data_errors": 0,
                    "config": {**where(case), "seed": seed, "slowness": slowness.title},
                }
                for slowness, run in zip((NONE, *case.slownesses), runs, strict=True)
            ]  # fmt: skip
    systems = tuple(dict.fromkeys(c.file_system for c in configurations))
    stored = [(wrong, seed) for seed in context.seeds for wrong in plan(systems)]
    came = context.map(lambda pair: run_wrong(context.cache, *pair), stored, "storing wrong data")
    rows: dict[Wrong, list[dict[str, Any]]] = {}
    for (wrong, _), row in zip(stored, came, strict=True):
        rows.setdefault(wrong, []).append(row)
    return {
        "points": points,
        "wrong": [{**asdict(wrong), "title": wrong.title, **summed(of_seeds)}
                  for wrong, of_seeds in rows.items()],
        "runs": records,
    }  # fmt: skip


def summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs of several seeds: counts added up; how many could be mounted; what checks said."""
    counts = ("injected", "mounted", "right", "wrong", "unreadable", "missing")
    return {
        "runs": len(rows),
        **{name: sum(row[name] or 0 for row in rows) for name in counts},
        "checked": ", ".join(dict.fromkeys(row["checked"] for row in rows)),
    }


def where(case: Case) -> dict[str, Any]:
    """What a row is of."""
    return {
        "file_system": case.configuration.file_system,
        "configuration": case.configuration.title,
        "mix": case.mix.name,
        "cache": case.cache,
        "drive": case.drive.name,
    }


def rows_of(case: Case, of_seeds: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The numbers of a case over its seeds.

    Returns
    -------
    list of dict
        For each slowness: :func:`where`; pattern, ratio_percent, added_us and region; base_us,
        slowed_us, base_p99_us, slowed_p99_us; ``slowdown``, [share, low, high], and ``by_kind``
        likewise; ``hit``, the share of the drive's I/Os that were slowed; ``ios``, how many
        there were; ``steps``, of base and slowed, where there are any.
    """
    runs = [reports.pooled(list(same)) for same in zip(*of_seeds, strict=True)]
    found = []
    for i, slowness in enumerate(case.slownesses, 1):
        base, slowed = runs[0], runs[i]
        drive = {name: sum(seed[i]["drive"][name] for seed in of_seeds)
                 for name in of_seeds[0][i]["drive"]}  # fmt: skip
        ios = drive["reads"] + drive["writes"]
        found.append(
            {
                **where(case),
                "pattern": slowness.pattern, "ratio_percent": slowness.ratio_percent,
                "added_us": slowness.added_us, "region": slowness.where,
                "base_us": base["mean_us"], "slowed_us": slowed["mean_us"],
                "base_p99_us": base["p99_us"], "slowed_p99_us": slowed["p99_us"],
                "slowdown": reports.slowdown(base, slowed),
                "by_kind": {kind: reports.slowdown(base, slowed, kind) for kind in base["count"]},
                "kind_us": {kind: sum(base["total_us"][kind]) / sum(base["count"][kind])
                            for kind in base["count"]},
                "ios": ios,
                "hit": (drive["injected_reads"] + drive["injected_writes"]) / max(ios, 1),
                "steps": [steps_of([seed[at] for seed in of_seeds]) for at in (0, i)]
                if case.steps else None,
            }
        )  # fmt: skip
    return found


def steps_of(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean and p95 of each step of the commits of all seeds, and of the whole."""
    every = [run["steps"] for run in runs]
    steps = {name: np.concatenate([one[name] for one in every]) for name in every[0]}
    steps["commit"] = np.sum(list(steps.values()), axis=0)
    return {
        name: {"mean_us": float(us.mean()), "p95_us": float(np.percentile(us, 95)), "n": len(us)}
        for name, us in steps.items()
    }
