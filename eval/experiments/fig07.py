# SPDX-License-Identifier: MIT
"""Stability of the inflection point over 20 hours, for windows of 15 min, 1 h and 2 h."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval import figures, grid
from eval.cache import Cache
from eval.cells import N_DRIVES, REPLAYER_OPTIONS, WORKLOADS, read_log
from eval.experiment import Context
from eval.long_table import LongTable
from eval.study import Study, load_study_texts
from linnapp.lab import guests
from linnapp.learn.labels import LatencyDistribution, find_inflection_points
from linnapp.learn.options import LabellingOptions
from linnapp.trace import convert as iolog
from linnapp.trace.workload import Profile, generate, load_profile

HOURS = 20
WINDOWS_MIN = (15, 60, 120)

#: The workload runs this often, and for this many seconds: about as many reads in 20 hours for each
#: workload, except where they are large.
EVERY_S = 300.0
ACTIVE_S = {
    "az-c": 0.9, "bi-c": 2.4, "bs-c": 4.8, "co-c": 2.4,
    "az-e": 0.06, "bi-e": 0.3, "bs-e": 0.45, "co-e": 0.15,
}  # fmt: skip
LOAD_SWING = 0.5

#: Reads of each drive that a window must have for its inflection point.
ENOUGH_READS = 100

#: The hours after a window in which its point is compared with later ones, as in the paper.
AHEAD_H = 15

#: The deviation in the paper's Fig. 7, in percentiles.
BOUND = 5.0


def write_day(folder: Path, workload: str, seed: int) -> None:
    """Write one iolog a drive: short pieces of the workload, whose rate varies over the day."""
    profile = load_profile(workload)
    n_pieces = int(HOURS * 3600 / EVERY_S)
    *children, shared = np.random.SeedSequence([seed, 7]).spawn(N_DRIVES + 1)
    for drive, child in enumerate(children):
        pieces = []
        pieces_of_day = _pieces(profile, child, shared, n_pieces, ACTIVE_S[workload])
        for i, chunk in enumerate(pieces_of_day):
            swing = 1 + LOAD_SWING * np.sin(2 * np.pi * i * EVERY_S / (24 * 3600))
            time_us = (chunk.time_us / swing).astype(np.int64) + int(i * EVERY_S * 1e6)
            pieces.append(replace(chunk, time_us=time_us))
        iolog.write_iolog(folder / f"flash{drive}.iolog", pieces, f"/dev/flash{drive}")


def _pieces(
    profile: Profile,
    child: np.random.SeedSequence,
    shared: np.random.SeedSequence,
    n_pieces: int,
    active_s: float,
) -> list[iolog.Workload]:
    """Cut one stretch of the workload into pieces that each start at 0."""
    whole = iolog.Workload.joined(
        generate(profile, n_pieces * active_s, child, grid.SIZE_MB << 20, shared)
    )
    edges = np.searchsorted(whole.time_us, np.arange(n_pieces + 1) * active_s * 1e6)
    pieces = []
    for i in range(n_pieces):
        piece = whole.take(slice(int(edges[i]), int(edges[i + 1])))
        pieces.append(replace(piece, time_us=piece.time_us - int(i * active_s * 1e6)))
    return pieces


def day(cache: Cache, workload: str, seed: int) -> Path:
    """Replay the 20 hours and return the per-I/O log."""

    def make(folder: Path) -> None:
        write_day(folder, workload, seed)
        cell = grid.cell(workload, seed)
        scenario = guests.Scenario(
            f"20 hours of {workload}",
            cell.drives(),
            tuple(folder / f"flash{k}.iolog" for k in range(N_DRIVES)),
            seed,
            options=REPLAYER_OPTIONS,
            memory_mb=cell.memory_mb,
        )
        guests.replay(scenario, "baseline", folder)

    parameters = {
        "workload": workload, "seed": seed, "hours": HOURS, "every_s": EVERY_S,
        "active_s": ACTIVE_S[workload], "load_swing": LOAD_SWING,
        "size_mb": grid.SIZE_MB,
    }  # fmt: skip
    return cache.get("day", parameters, make) / "baseline.log"


def prepare(context: Context, *, workload: str, seed: int) -> None:
    """Replay the 20 hours of a workload."""
    day(context.cache, workload, seed)


def measure(context: Context, *, workload: str, policy: str, seed: int) -> list[dict[str, Any]]:
    """Find the inflection point of each window, and how far it is from those of later windows."""
    reads = read_log(day(context.cache, workload, seed))
    hour = reads["start_us"] / 3.6e9
    rows = []
    for minutes in WINDOWS_MIN:
        n_windows = round(HOURS * 60 / minutes)
        percentiles = np.full((N_DRIVES, n_windows), np.nan)
        for i in range(n_windows):
            inside = (hour >= i * minutes / 60) & (hour < (i + 1) * minutes / 60)
            if np.bincount(reads["home"][inside], minlength=N_DRIVES).min() >= ENOUGH_READS:
                percentiles[:, i] = _points(reads, inside)
        for drive in range(N_DRIVES):
            rows.append(
                {"window_min": minutes, "drive": drive, **stability(percentiles[drive], minutes)}
            )
    return rows


def _points(reads: dict[str, Any], inside: NDArray[np.bool_]) -> list[float]:
    """Return the percentile of each drive's inflection point among some reads."""
    distributions = [
        LatencyDistribution(reads["device_latency_us"][inside & (reads["home"] == drive)])
        for drive in range(N_DRIVES)
    ]
    points = find_inflection_points(distributions, LabellingOptions(search="paper"))
    # Many reads can have equal latencies, so the candidate's own percentile is only one of several:
    # take the share of the reads that are not slower than the point.
    return [100 * (1 - point.slow_ratio) for point in points]


def stability(percentiles: NDArray[np.float64], minutes: int) -> dict[str, float | None]:
    """Summarise how far a window's point is from those of the next hours: the paper's measure.

    The deviation of a window is the largest difference within ``AHEAD_H`` hours. Windows with too
    few reads are NaN and left out.
    """
    n_ahead = round(AHEAD_H * 60 / minutes)
    deviations = []
    for first in range(len(percentiles) - n_ahead):
        away = np.abs(percentiles[first + 1 : first + 1 + n_ahead] - percentiles[first])
        if np.isfinite(away).any():
            deviations.append(float(np.nanmax(away)))
    known = percentiles[np.isfinite(percentiles)]
    return {
        "largest": max(deviations, default=None),
        "within_bound": float(np.mean(np.array(deviations) <= BOUND)) if deviations else None,
        "median": float(np.median(known)) if len(known) else None,
        "std": float(known.std()) if len(known) else None,
        "left_out": 1 - len(known) / len(percentiles),
    }


def draw(table: LongTable, path: Path) -> None:
    """Draw the largest deviations of windows of an hour, with the paper's bound."""
    cases = {
        of.place[1]: {"": number}
        for of, number in table.items()
        if (of.measure, of.seed) == ("largest", "") and of.place[1] and of.place[0] == "60"
    }
    title = "largest deviation of an hour's point in 15 hours, percentiles"
    figures.draw_ranges(dict.fromkeys(cases, (0.0, BOUND)), cases, 1.0, path, title)


EXPERIMENT = Study(
    **load_study_texts("fig07"),
    figure=draw,
    factors={"workload": WORKLOADS},
    groups=(("window_min",), ("workload", "window_min")),
    cell=measure,
    prepare=prepare,
)
