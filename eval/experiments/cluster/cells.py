# SPDX-License-Identifier: MIT
"""Measure situations in which clients read from a cluster under each rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from eval import scores
from eval.experiment import Context, check_names
from eval.experiments.cluster.lab import (
    MEASURED_MS,
    TURN_US,
    Measured,
    Situation,
    compile_client,
    measure_rules,
    record_and_train,
)
from eval.experiments.cluster.rules import AGENT_RULES, LIBRARY
from eval.intervals import Blocks, Pooled
from eval.long_table import LongTable
from linnapp.lab import guests
from linnapp.lab.cluster import CLUSTER_KERNEL
from linnapp.lab.work import Step

PERCENT = 99.0


def measure(
    context: Context,
    *,
    engine: str,
    cells: Mapping[str, Situation],
    names: Sequence[str],
    rules: Sequence[str],
    n_seeds: Mapping[str, int],
    variable: str,
    base: str = "round-robin",
    compared: Sequence[str] = (*AGENT_RULES, *LIBRARY),
) -> LongTable:
    """Measure the situations that the environment variable names under every rule.

    Each has one seed unless `n_seeds` has another number. A finished seed of a situation is in the
    cache.
    """
    check_names(variable, names, cells)
    client = compile_client(context.folder, engine)
    situations = {
        name: [replace(cells[name], seed=seed) for seed in context.seeds[: n_seeds.get(name, 1)]]
        for name in names
    }
    work = context.work()
    # Models depend on the drives and the load, not on the network.
    drives = {
        (situation.load, situation.seed, situation.nodes): situation
        for same in situations.values()
        for situation in same
    }
    for situation in drives.values():
        work.add("training", partial(record_and_train, context.cache, client, situation))
    work.do()
    work = context.work()
    steps: dict[str, list[Step[dict[str, Measured]]]] = {name: [] for name in names}
    with guests.on_kernel(CLUSTER_KERNEL, "kernel-cluster", context.folder.parent / "bin"):
        for name, same in situations.items():
            for situation in same:
                do = partial(measure_rules, context.cache, client, situation, rules)
                steps[name].append(work.add(f"reading, {name}", do))
        work.do()
    table = LongTable(("situation",))
    for name in names:
        add_reads(
            table, name, [step.result for step in steps[name]], cells[name].measured_ms, base,
            compared,
        )  # fmt: skip
    return table


def add_reads(
    table: LongTable,
    situation: str,
    seeds: Sequence[Mapping[str, Measured]],
    measured_ms: int = MEASURED_MS,
    base: str = "round-robin",
    compared: Sequence[str] = (*AGENT_RULES, *LIBRARY),
) -> None:
    """Add the numbers of reads under each rule, seeds pooled.

    The share of the oracle's gain is relative to the rule `base`. The means of the rules in
    `compared` are compared with those of all others.
    """
    blocks = []
    pooled: dict[str, list[np.ndarray[Any, Any]]] = {}
    for by_rule in seeds:
        due_us = next(iter(by_rule.values())).reads["due_ns"] / 1e3
        # Blocks are whole turns of the burst, whose reads depend on each other.
        seed_blocks = Blocks(due_us, measured_ms * 1e3, measured_ms * 1000 // TURN_US)
        for name, done in by_rule.items():
            if not np.array_equal(done.reads["due_ns"] / 1e3, due_us):
                raise ValueError(f"{name}: the reads differ from those of the other rules")
            latency_us = done.reads["latency_ns"] / 1e3
            seed_blocks.add(name, latency_us)
            pooled.setdefault(name, []).append(latency_us)
        blocks.append(seed_blocks)
    drawn = Pooled(blocks, (PERCENT,))
    place = (situation,)
    ours = [name for name in compared if name in drawn.policies]
    pairs = [(name, other) for name in ours for other in drawn.policies if other != name]
    scores.add_pooled(table, place, drawn, pooled, pairs, tails={}, n_beyond=0)
    for name in drawn.policies:
        runs = [by_rule[name] for by_rule in seeds]
        n = sum(len(run.reads) for run in runs)
        table.add(place, name, "share_of_oracle", drawn.share(name, "oracle", base))
        attempts = sum(int(run.reads["attempts"].sum()) for run in runs)
        table.add(place, name, "extra_io_ratio", attempts / n - 1)
        table.add(place, name, "asked", sum(run.counted["asked"] for run in runs) / n)
        table.add(place, name, "strayed", sum(run.counted["strayed"] for run in runs))
        for node, served in enumerate(np.sum([run.disk_reads for run in runs], axis=0)):
            table.add(place, name, f"node_{node}", float(served))
