# SPDX-License-Identifier: MIT
"""Every policy on random windows.

The workload, the seeds, the start and the injection of each window are random. All windows are
reported.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from eval import contenders, grid, seeds
from eval.cells import ARRAY_OF, WORKLOADS, replayed
from eval.experiment import GRID_SOURCES, NOT_AVAILABLE, Context, Table
from eval.long_table import FASTER, NOT_SIGNIFICANT, SLOWER, LongTable, Place, verdict
from eval.metrics import improvement, percent, quantiles, ranked_share
from eval.scores import Reads, as_reads
from eval.study import Study
from linnapp.stats import quantile_interval

#: Number of windows with five seeds. With fewer seeds, there are `A_SEED` windows per seed.
WINDOWS = 40
A_SEED = 8

#: Length of a window as a share of the part of a cell that is replayed. A window has about two
#: thousand reads or more.
LENGTH = 0.125

POLICIES = (
    "baseline", "clone", "shortest-queue", "shortest-queue-h95", "prequal", "c3", "heimdall",
    "hedge", "hedge-ip", "heuristic", "heuristic-adv", "linnos", "linnos-hl", "fastest", "oracle",
    "verdict",
)  # fmt: skip
OURS = ("linnos", "linnos-hl", "fastest")

KINDS = ("none", "continuous", "random", "interval")

#: Names of two measures, which identify the workload and the injection of a window by their
#: indexes in `WORKLOADS` and `KINDS`, because the table contains only numbers.
WORKLOAD, KIND = "workload_index", "kind_index"


class Window(NamedTuple):
    """A random window."""

    seed: int
    workload: str
    #: The seed of its cell.
    cell_seed: int
    #: Its start, as a share of the cell's second part.
    start: float
    kind: str
    inject: str | None


@functools.cache
def draw_window(seed: int, cell_seeds: tuple[int, ...]) -> Window:
    """Draw a window.

    On average, half of the windows have no injection. The others have one of three patterns of
    injected slowness on all drives, with random parameters from mild to severe.
    """
    rng = np.random.default_rng(seed)
    workload = str(rng.choice(WORKLOADS))
    cell_seed = int(rng.choice(cell_seeds))
    start = float(rng.uniform(0, 1 - LENGTH))
    kind = str(rng.choice(KINDS, p=[0.5, 0.3, 0.1, 0.1]))
    latency_us = round(float(np.exp(rng.uniform(np.log(50), np.log(10_000)))))
    inject = None
    if kind == "continuous":
        every_ms = int(rng.integers(50, 401))
        slot_ms = max(5, round(every_ms * rng.uniform(0.1, 0.8)))
        inject = (
            f"continuous:ratio=100%,op=read,latency_us={latency_us},"
            f"slot_ms={slot_ms},every_ms={every_ms},rotate"
        )
    elif kind == "random":
        ratio = round(float(rng.uniform(1, 20)), 1)
        inject = f"random:ratio={ratio}%,op=read,latency_us={latency_us}"
    elif kind == "interval":
        inject = f"interval:interval={int(rng.integers(5, 101))},op=read,latency_us={latency_us}"
    return Window(seed, workload, cell_seed, start, kind, inject)


def _drawn(context: Context, window: int) -> Window:
    return draw_window(seeds.window_base(context.development) + window, context.seeds)


def prepare(context: Context, *, window: int, seed: int) -> None:
    """Prepare the cell of a window."""
    drawn = _drawn(context, window)
    grid.prepare_cell(context.cache, grid.cell(drawn.workload, drawn.cell_seed))


def measure(context: Context, *, window: int, policy: str, seed: int) -> Reads:
    """Replay a window under a policy."""
    drawn = _drawn(context, window)
    cell = grid.cell(drawn.workload, drawn.cell_seed)
    (contender,) = contenders.named([policy])
    # The replayer takes whole milliseconds.
    start_s, length_s = round(drawn.start * cell.replay_s, 3), LENGTH * cell.replay_s
    replay = grid.replay_of(
        context.cache, cell, contender, inject=drawn.inject, workload_seed=drawn.seed,
        options=("--skip", f"{start_s:g}", "--duration", f"{length_s:g}"),
    )  # fmt: skip
    reads = as_reads(replayed(context.cache, replay))
    facts = {WORKLOAD: WORKLOADS.index(drawn.workload), KIND: KINDS.index(drawn.kind)}
    return reads._replace(summary={**reads.summary, **facts})


def _one_seed(seeds: Sequence[int], *, window: int) -> Sequence[int]:
    """Return one seed for each window, or none for windows beyond `A_SEED` per seed."""
    return seeds[:1] if window < A_SEED * len(seeds) else ()


def facts(table: LongTable, place: Place) -> tuple[str, str]:
    """Return the workload and the kind of injection of a window."""
    seed = table.seeds()[0]
    workload, kind = (round(table.value(place, "baseline", of, seed)) for of in (WORKLOAD, KIND))
    return WORKLOADS[workload], KINDS[kind]


def tables(table: LongTable) -> dict[str, Table]:
    """Return tables of distributions over the windows, verdicts by kind, and all windows."""

    def means(policy: str) -> list[float]:
        return [table.value(place, policy, "mean_us") for place in table.places]

    baseline, oracle = means("baseline"), means("oracle")
    spread = []
    for policy in table.policies():
        row = [policy]
        for reference in ("hedge", "baseline"):
            gains = map(improvement, means(policy), means(reference))
            row += [percent(q) for q in quantiles(list(gains), (0, 10, 50, 90, 100))]
        shares = list(map(ranked_share, means(policy), baseline, oracle))
        row += [percent(q, 0) for q in quantiles(shares, (10, 50, 90))]
        middle = quantile_interval(shares)
        row.append(f"[{percent(middle.low, 0)}, {percent(middle.high, 0)}]")
        spread.append(tuple(row))
    groups: dict[str, list[Place]] = {"all": table.places}
    for place in table.places:
        workload, kind = facts(table, place)
        for name in (f"{ARRAY_OF[workload]} drives", f"injection: {kind}"):
            groups.setdefault(name, []).append(place)
    verdicts = []
    for name, places in groups.items():
        for policy in OURS:
            for reference in contenders.rivals(table.policies()):
                reductions = (table.reduction(place, policy, reference) for place in places)
                words = [verdict(of) for of in reductions if of is not None]
                counted = (str(words.count(of)) for of in (FASTER, SLOWER, NOT_SIGNIFICANT))
                verdicts.append((name, policy, reference, *counted))
    return {
        "Reduction of the mean, and share of the oracle's gain, over the windows": Table(
            ("policy", "than hedge: min", "p10", "p50", "p90", "max", "than baseline: min", "p10",
             "p50", "p90", "max", "oracle's gain: p10", "p50", "p90", "95 % interval of the p50"),
            tuple(spread),
        ),
        "Windows by verdict": Table(
            ("windows", "policy", "reference", FASTER, SLOWER, NOT_SIGNIFICANT), tuple(verdicts)
        ),
        "The windows": Table(
            ("window", "workload", "injection"),
            tuple((*place, *facts(table, place)) for place in table.places),
        ),
    }  # fmt: skip


EXPERIMENT = Study(
    name="windows",
    title="Random windows",
    factors={"window": range(int(os.environ.get("LINNOS_WINDOWS", WINDOWS)))},
    policies=POLICIES,
    cell=measure,
    prepare=prepare,
    reads=True,
    seeds=_one_seed,
    seed_fields=("reads", WORKLOAD, KIND),
    more_tables=tables,
    settings={**grid.PARTS, "length": LENGTH, "windows": WINDOWS},
    paper=f"The paper's own random windows: {NOT_AVAILABLE}.",
    differs="The windows' workloads and injections are new to the models, which were trained on "
    "the cells of Fig. 8 (same drives, same kind of workload, no injection).",
    notes="If the oracle gains less than 1 % over baseline, a policy within 1 % of baseline has a "
    "share of 0 %, a slower one a loss, and a faster one all of the gain.\n\nThe oracle reads each "
    "block once, so `clone`, which takes the faster of two reads, can have a lower mean. Where the "
    "injection counts reads or is random, a drive whose next read is slow stays so until a read "
    "takes it: avoiding the drive only delays this, and if all drives are in this state the oracle "
    "has no good choice. There it is no bound, and shares of its gain can be over 100 %.",
    sources=(*GRID_SOURCES, "eval/seeds.py"),
)
