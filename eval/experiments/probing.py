# SPDX-License-Identifier: MIT
"""LinnOS's protocol at its best: probes sooner, training repaired, models of latencies.

A drive that is avoided keeps its old history, so the network goes on to refuse it until a read has
been let through all the same, a probe. How soon that is, and two options of the training, were
tried on development seeds (`python -m eval --dev probing`); what was chosen there is held against
the defaults and the rivals on evaluation seeds. The same protocol with models of latencies, which
refuse reads that they predict to be slow, is compared with `lowest`, which chooses by the same
models before it asks.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt

from eval import contenders, figures, grid, scores
from eval.cells import (
    LATENCY_TRAINING,
    WORKLOADS,
    Cell,
    Replay,
    Replayed,
    replayed,
    trained,
)
from eval.experiment import GRID_SOURCES, Context, Experiment, Table
from eval.intervals import BLOCKS, RESAMPLES, RESTS_ON
from eval.metrics import percent
from eval.work import Step
from linnapp.stats import LEVEL


class Variant(NamedTuple):
    """A contender with other settings."""

    #: The contender.
    of: str
    #: `after_us`, `after_revokes`: ``probe_after_us`` and ``probe_after_revokes`` of the drives.
    after_us: int
    after_revokes: int
    #: Of its models.
    train_options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What tables call it."""
        what = {REPAIRED: ", repaired training", LATENCY_TRAINING: ", models of latencies"}
        return (
            f"{self.of}, probes after {self.after_us / 1000:g} ms{what.get(self.train_options, '')}"
        )


#: Inputs scaled, weights held small: what was found to help against overfitting.
REPAIRED = ("--standardise", "--weight-decay", "10")

#: Tried on development seeds; the kernel's defaults are 10,000 us and 100 refusals.
TRIED = (
    Variant("linnos", 3000, 30),
    Variant("linnos", 1000, 10),
    Variant("linnos", 300, 3),
    Variant("linnos", 10_000, 100, REPAIRED),
    Variant("linnos", 1000, 10, REPAIRED),
    Variant("linnos", 10_000, 100, LATENCY_TRAINING),
)

#: Judged on evaluation seeds. Of what was tried on seed 1010 this has the lowest geometric mean of
#: the eight cells' means; the repaired training gained nothing.
CHOSEN = (
    Variant("linnos", 300, 3),
    Variant("linnos-hl, 5% cap", 300, 3),
    Variant("linnos", 10_000, 100, LATENCY_TRAINING),
)

#: What they are held against, with the contenders that they are variants of.
OTHERS = (
    "baseline", "clone", "shortest-queue", "shortest-queue-h95, 5% cap", "prequal", "c3",
    "heimdall", "hedge", "linnos", "linnos-hl, 5% cap", "lowest", "oracle", "verdict",
)  # fmt: skip

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    "tried": TRIED,
    "chosen": CHOSEN,
    "others": OTHERS,
    **grid.PARTS,
    "level": LEVEL,
    "resamples": RESAMPLES,
    "blocks": BLOCKS,
    "rests_on": RESTS_ON,
}


def replay_of(cell: Cell, variant: Variant) -> Replay:
    """The replay of a cell under a variant."""
    (contender,) = contenders.named([variant.of])
    knobs = {"probe_after_us": variant.after_us, "probe_after_revokes": variant.after_revokes}
    writes = "".join(f" echo {value} >$drive/linnos/{knob};" for knob, value in knobs.items())
    prepare = f"for drive in /sys/block/flash*; do{writes} done\n"
    return Replay(
        cell,
        contender.policy,
        train_options=variant.train_options,
        options=contender.options,
        prepare=prepare,
    )


def run(context: Context) -> dict[str, Any]:
    """Every workload under the variants and what they are held against."""
    cache, work = context.cache, context.work()
    variants = TRIED if context.development else CHOSEN
    replays: dict[Cell, dict[str, Step[Replayed]]] = {}
    for cell in grid.cells(context.seeds, PARAMETERS["workloads"]):
        ready = grid.preparing(work, cache, [cell], tune=False)
        replays.update(grid.replaying(work, cache, ready, contenders.named(OTHERS)))
        repaired = [
            work.add("repaired networks", partial(trained, cache, cell, options), ready[cell])
            for options in dict.fromkeys(v.train_options for v in variants if v.train_options)
        ]
        for variant in variants:
            replays[cell][variant.name] = work.add(
                "replaying",
                partial(replayed, cache, replay_of(cell, variant)),
                [*ready[cell], *repaired],
            )
    work.do()
    results = grid.results(replays)
    cells, _ = scores.scored(None, results)
    return {
        "cells": cells,
        "variants": [{"name": v.name, **v._asdict()} for v in variants],
        "grid": grid.rows(results),
        "runs": [run_.summary for by_name in results.values() for run_ in by_name.values()],
    }


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Each variant against what it varies and the rivals; then each cell."""
    names = {variant["name"]: variant["of"] for variant in data["variants"]}
    tables = {
        f"{name}: by how much its mean is below": Table(
            (
                "workload",
                of,
                *contenders.rivals(data["cells"][0]["policies"]),
                "revoked",
                f"of {of}",
            ),
            tuple(
                (
                    cell["workload"],
                    *(
                        scores.standing(cell, name, other)
                        for other in (of, *contenders.rivals(data["cells"][0]["policies"]))
                    ),
                    *(_revoked(cell["policies"][which]) for which in (name, of)),
                )
                for cell in data["cells"]
            ),
        )
        for name, of in names.items()
    }
    for cell in data["cells"]:
        tables[f"{cell['workload']}: {cell['reads']} reads, {cell['seeds']} seeds"] = Table(
            ("policy", "mean us", "p50", "p95", "p99", "extra I/O", "revoked",
             "of the oracle's gain"),
            tuple(
                (
                    name, scores.number(fields["mean_us"], 1),
                    *(scores.number(fields[scores.key(p)]) for p in (50.0, 95.0, 99.0)),
                    percent(fields["extra_io_ratio"], 2), _revoked(fields),
                    scores.percent(fields.get("share_of_oracle")),
                )
                for name, fields in cell["policies"].items()
            ),
        )  # fmt: skip
    return tables


def _revoked(fields: dict[str, Any]) -> str:
    return percent(fields["revoked_ratio"], 1)


def reading(data: dict[str, Any]) -> str:
    """Of each variant where it is below what it varies and the best rival, and where above."""
    parts = []
    for variant in data["variants"]:
        for other in (variant["of"], "best rival here"):
            said = scores.by_verdict(
                (cell["workload"], scores.below(cell, variant["name"], other))
                for cell, other in (
                    (cell, scores.best_rival(cell) if other == "best rival here" else other)
                    for cell in data["cells"]
                )
            )
            parts.append(f"`{variant['name']}` against {other}: {said}.")
    return "\n\n".join((*parts, scores.errors(data["grid"])))


def draw(data: dict[str, Any], path: Path) -> None:
    """By how much each variant's mean is below that of what it varies, cell by cell."""
    variants = data["variants"]
    figure, axes = plt.subplots(figsize=(8, 3.5))
    for i, variant in enumerate(variants):
        for j, cell in enumerate(data["cells"]):
            triple = [100 * v for v in cell["below"][variant["name"]][variant["of"]]]
            x = j + (i - (len(variants) - 1) / 2) * 0.6 / len(variants)
            axes.plot(
                x, triple[0], "o", color=f"C{i}", label=None if j else variant["name"], markersize=4
            )
            figures.whisker(axes, x, triple)
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set_xticks(range(len(data["cells"])), [cell["workload"] for cell in data["cells"]])
    axes.set_ylabel("mean below the default's (%)")
    axes.legend(fontsize=7)
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="probing",
    title="LinnOS's protocol at its best: probes sooner, training repaired",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    differs="As for Fig. 8. What was tried is on development seeds only (`--dev`).",
    sources=GRID_SOURCES,
    numbers=lambda data: {
        cell["workload"]: {v["name"]: cell["below"][v["name"]] for v in data["variants"]}
        for cell in data["cells"]
    },
)
