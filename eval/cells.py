# SPDX-License-Identifier: MIT
"""The unit of the evaluation: a workload on an array, recorded and trained once.

A cell's workload is one stretch of time, cut in two: the first part is
recorded with blktrace and trains one model a drive, the second part is
replayed under the policies. Recordings, models and replays are cached, so
that experiments share them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eval import guests, workers
from eval.cache import Cache, digest
from eval.files import write_json
from linnapp.lab.array import Array
from linnapp.trace import iolog, replay_log
from linnapp.trace.generation import generate, load_profile

#: The two arrays: three equal consumer drives, three different enterprise ones.
ARRAYS = {
    "consumer": "consumer",
    "enterprise": "enterprise-a,enterprise-b,enterprise-c",
}
N_DRIVES = 3

#: The workloads' rate on an array, as a multiple of their profile's. Consumer drives cannot write
#: at the rates that enterprise drives can: at the full one two of the workloads outrun their
#: garbage collection for good, and every read waits for tens of milliseconds.
RATES = {"consumer": 0.4, "enterprise": 1.0}

WORKLOADS = ("azure", "bingindex", "bingselect", "cosmos")

POLICIES = (
    "baseline", "clone", "random", "hedge", "hedge-ip", "heuristic", "heuristic-adv",
    "linnos", "linnos-hl", "linnos-h99", "oracle",
)  # fmt: skip

#: Options of `linnapp train` for what the paper does: the recording alone, every read beyond the
#: inflection point slow, a fixed bias. Without options it trains as this project does by default.
PAPER_TRAINING = ("--bursts", "0", "--label", "paper", "--bias", "5")

#: Nothing is written before a replay: the emulator reads a block that was
#: never written as zeros, at the same speed, and the replayer checks for that.
REPLAYER_OPTIONS = ("--quiet", "--prefill", "none", "--settle-ms", "0")

#: Separates the seeds of a cell's parts: its drives, its workload, its replay.
_WORKLOAD, _REPLAY = 1, 2


@dataclass(frozen=True)
class Cell:
    """A workload on an array.

    Attributes
    ----------
    workload : str
        A profile of `linnapp generate`.
    array : str
        A key of ``ARRAYS``, or a flashsim profile.
    seed : int
        Of the drives, the workload, the training and the replays.
    train_s, replay_s : float
        Lengths of the two parts, in seconds of the workload's time.
    train_inject : str or None
        The replayer's `--inject` while recording.
    """

    workload: str
    array: str
    seed: int
    train_s: float
    replay_s: float
    train_inject: str | None = None

    @property
    def label(self) -> str:
        """Workload and array."""
        return f"{self.workload} on {self.array}"

    @property
    def rate(self) -> float:
        """Multiple of the workload's own rate."""
        return RATES.get(self.array, 1.0)

    @property
    def replay_seed(self) -> int:
        """Of the replayer in the cell's own replays."""
        return self.seed + _REPLAY

    def drives(self) -> Array:
        """The array."""
        return Array(n_drives=N_DRIVES, profile=ARRAYS.get(self.array, self.array), seed=self.seed)


@dataclass(frozen=True)
class Replay:
    """One replay of a cell under one policy.

    Attributes
    ----------
    cell : Cell
    policy : str
    inject : str or None
        The replayer's `--inject`.
    train_options : tuple of str
        Options of `linnapp train` for the models.
    models_of : Cell or None
        The cell whose models are uploaded; by default the replayed one.
    mode : str
        Of the drives with a model.
    workload_seed : int or None
        Replay a fresh workload of the same profile, not the cell's second part.
    options : tuple of str
        More options of the replayer.
    prepare, finish : str
        Shell commands in the guest before and after the replay.
    keep_log : bool
        Leave the per-I/O log in the folder.
    """

    cell: Cell
    policy: str
    inject: str | None = None
    train_options: tuple[str, ...] = ()
    models_of: Cell | None = None
    mode: str = "enforce"
    workload_seed: int | None = None
    options: tuple[str, ...] = ()
    prepare: str = ""
    finish: str = ""
    keep_log: bool = False


@dataclass(frozen=True)
class Replayed:
    """A finished replay: its record, and the folder with what else it left."""

    replay: Replay
    summary: dict[str, Any]
    folder: Path

    @property
    def log(self) -> Path:
        """The per-I/O log, where the replay kept it."""
        return self.folder / f"{self.replay.policy}.log"


def write_workload(
    name: str,
    folders: Sequence[tuple[Path, float, float]],
    seed: int,
    rate: float = 1.0,
) -> None:
    """Draw a workload and write slices of it, one iolog a drive and slice.

    Parameters
    ----------
    name : str
        The profile.
    folders : sequence of (Path, float, float)
        Where a slice goes, and its first and last second.
    seed : int
    rate : float
        Multiple of the profile's rate.
    """
    profile = load_profile(name)
    drive_bytes = Array().size_mb << 20
    end_s = max(last_s for _, _, last_s in folders)
    # The last is what the drives' bursts have in common.
    *children, shared = np.random.SeedSequence([seed, _WORKLOAD]).spawn(N_DRIVES + 1)
    for drive, child in enumerate(children):
        chunks = [
            replace(chunk, time_us=(chunk.time_us / rate).astype(np.int64))
            for chunk in generate(profile, end_s * rate, child, drive_bytes, shared)
        ]
        for folder, first_s, last_s in folders:
            folder.mkdir(parents=True, exist_ok=True)
            slices = []
            for chunk in chunks:
                inside = (chunk.time_us >= first_s * 1e6) & (chunk.time_us < last_s * 1e6)
                cut = chunk.take(inside)
                slices.append(replace(cut, time_us=cut.time_us - int(first_s * 1e6)))
            iolog.write(folder / f"flash{drive}.iolog", slices, f"/dev/flash{drive}")


def _iologs(folder: Path) -> tuple[Path, ...]:
    return tuple(folder / f"flash{drive}.iolog" for drive in range(N_DRIVES))


def recorded(cache: Cache, cell: Cell) -> Path:
    """Generate a cell's workload and record its first part.

    Returns
    -------
    Path
        Folder with ``train/``, ``replay/`` (iologs) and ``record/``
        (flashK.blk, and baseline.log, the replayer's own log of it).
    """

    def make(folder: Path) -> None:
        middle_s, end_s = cell.train_s, cell.train_s + cell.replay_s
        slices = [(folder / "train", 0.0, middle_s), (folder / "replay", middle_s, end_s)]
        write_workload(cell.workload, slices, cell.seed, cell.rate)
        scenario = guests.Scenario(
            "record",
            cell.drives(),
            _iologs(folder / "train"),
            cell.seed + _REPLAY,
            cell.train_inject,
            REPLAYER_OPTIONS,
        )
        guests.record(scenario, folder / "record")

    return cache.get("cell", asdict(cell), make)


def trained(cache: Cache, cell: Cell, train_options: tuple[str, ...] = ()) -> Path:
    """Train a cell's models.

    Returns
    -------
    Path
        Folder with flashK.linnos and flashK.json, the training records.
    """
    source = recorded(cache, cell)

    def make(folder: Path) -> None:
        blks = [source / "record" / f"flash{drive}.blk" for drive in range(N_DRIVES)]
        options = ("--seed", str(cell.seed), *train_options)
        workers.train(blks, folder / "models", folder / "train.txt", *options)

    parameters = {"cell": asdict(cell), "options": train_options}
    return cache.get("models", parameters, make) / "models"


def training_records(models: Path) -> list[dict[str, Any]]:
    """The training record of each drive's model."""
    return [json.loads((models / f"flash{drive}.json").read_text()) for drive in range(N_DRIVES)]


def read_profile(cache: Cache, cell: Cell) -> Path:
    """The per-I/O log of a cell's recording: what an operator knows beforehand."""
    return recorded(cache, cell) / "record" / "baseline.log"


def replayed(cache: Cache, replay: Replay) -> Replayed:
    """Replay a cell under a policy, unless that was done before.

    Timeouts and queue limits of the policies come from the cell's recording,
    inflection points and the false-submit ratio from its models.
    """
    parameters = asdict(replay)
    source = recorded(cache, replay.cell)
    models: list[Path] = []
    options: list[str | Path] = [*REPLAYER_OPTIONS, "--profile", source / "record" / "baseline.log"]
    if replay.policy in guests.NEEDS_MODEL | guests.NEEDS_THRESHOLD:
        folder = trained(cache, replay.models_of or replay.cell, replay.train_options)
        models = [folder / f"flash{drive}.linnos" for drive in range(N_DRIVES)]
        ratios = [record["false_submit_ratio"] for record in training_records(folder)]
        if replay.policy == "linnos-hl":
            options += ["--false-submit-ratio", f"{np.mean(ratios):.6f}"]
    else:
        # Replays of policies without a model are the same whatever the model.
        for key in ("train_options", "models_of", "mode"):
            parameters.pop(key)

    def make(folder: Path) -> None:
        traces = _iologs(source / "replay")
        seed = replay.cell.seed
        if replay.workload_seed is not None:
            seed = replay.workload_seed
            slices = [(folder / "workload", 0.0, replay.cell.replay_s)]
            write_workload(replay.cell.workload, slices, seed, replay.cell.rate)
            traces = _iologs(folder / "workload")
        scenario = guests.Scenario(
            f"{replay.cell.label}, seed {seed}",
            replay.cell.drives(),
            traces,
            seed + _REPLAY,
            replay.inject,
            (*options, *replay.options),
        )
        summary = guests.replay(
            scenario,
            replay.policy,
            folder,
            models=models,
            mode=replay.mode,
            prepare=replay.prepare,
            finish=replay.finish,
        )
        write_json(folder / "summary.json", summary)
        if not replay.keep_log:
            (folder / f"{replay.policy}.log").unlink()

    folder = cache.get("replay", parameters, make)
    summary = json.loads((folder / "summary.json").read_text())
    return Replayed(replay, summary, folder)


def read_log(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Reads of a per-I/O log in the order in which they were due.

    Returns
    -------
    dict
        The log's columns, and ``latency_us`` and ``start_us`` (submission,
        from the run's start) as floats.
    """
    records = replay_log.read(path)
    reads = records[records["op"] == replay_log.READ]
    order = np.lexsort((reads["offset_bytes"], reads["home"], reads["due_ns"]))
    reads = reads[order]
    columns = {name: np.asarray(reads[name]) for name in replay_log.RECORD.names or ()}
    columns["latency_us"] = reads["latency_ns"] / 1000.0
    columns["start_us"] = (reads["due_ns"] + reads["lag_ns"]) / 1000.0
    return columns


def brief(summary: dict[str, Any]) -> dict[str, Any]:
    """A run's record without its long configuration, for data files."""
    kept = {key: value for key, value in summary.items() if key != "config"}
    kept["config_digest"] = digest(summary.get("config", {}))
    return kept
