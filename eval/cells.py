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

from eval import heimdall, workers
from eval.cache import Cache, code_version
from linnapp.lab import guests
from linnapp.lab.array import Array
from linnapp.lab.work import write_json
from linnapp.trace import convert as iolog
from linnapp.trace import replay_log
from linnapp.trace.workload import generate, load_profile

#: The two arrays: three equal consumer drives, of the class of the paper's SM951, and three
#: different enterprise ones.
ARRAYS = {
    "consumer": "consumer-nvme",
    "enterprise": "enterprise-a,enterprise-b,enterprise-c",
}
N_DRIVES = 3

#: The workloads of the paper's Table 1: Azure, Bing Index, Bing Select and Cosmos, each with the
#: rates and sizes of its rows for the consumer array (-c) and the enterprise array (-e).
WORKLOADS = ("az-c", "bi-c", "bs-c", "co-c", "az-e", "bi-e", "bs-e", "co-e")

#: The array on which each workload runs.
ARRAY_OF = {name: "consumer" if name.endswith("-c") else "enterprise" for name in WORKLOADS}

#: Options of `linnapp train` for every network: LinnOS as published refuses what its network says,
#: however many fast reads that is, and is replayed even if training finds no gain.
NETWORK_TRAINING = ("--max-refused", "1", "--even-if-worse")

#: Options for the paper's training: the recording alone, an inflection point near the CDF's knee,
#: every slower read slow, a fixed bias. Without them training is this project's default.
PAPER_TRAINING = ("--search", "paper", "--bursts", "0", "--label", "paper", "--bias", "5")

#: For a model of latencies, with which `fastest` chooses.
LATENCY_TRAINING = ("--kind", "latency")

#: Nothing is written before a replay: the emulator reads a block that was
#: never written as zeros, at the same speed, and the replayer checks for that.
REPLAYER_OPTIONS = ("--quiet", "--prefill", "none", "--settle-ms", "0")

#: Option of the replayer if each write goes to all drives.
REPLICATED = ("--replicate-writes",)

#: Separates the seeds of a cell's parts: its drives, its workload, its replay.
_WORKLOAD, _REPLAY = 1, 2

#: The interval at which a workload's rate changes, in seconds (linnapp.trace.workload).
WINDOW_S = 10.0

#: Memory of a guest, in addition to the data of its drives and a tenth of that for their index.
#: With less memory the guest would spend its time reclaiming some.
MEMORY_MB = 1536

#: Reads of a replay, in a replay's folder: see ``write_reads``.
READS = "reads.npz"


@dataclass(frozen=True)
class Cell:
    """A workload on an array."""

    #: A profile of `linnapp generate`.
    workload: str
    #: A key of ``ARRAYS``, or a flashsim profile.
    array: str
    #: The seed of the drives, the workload, the training and the replays.
    seed: int
    #: `train_s`, `replay_s`: lengths of the two parts, in seconds of the workload's time.
    train_s: float
    replay_s: float
    #: The replayer's `--inject` while recording.
    train_inject: str | None = None
    #: Only the first seconds of each ``WINDOW_S`` of the workload are kept, and joined: the cell
    #: sees the rates of a longer stretch of time than it replays.
    kept_s: float = WINDOW_S
    #: Exported size of each drive.
    size_mb: int = Array.size_mb
    #: Send each write to all drives instead of its default replica alone. Each drive's trace then
    #: keeps one in ``N_DRIVES`` writes, drawn from the seed, so that a drive gets as many writes
    #: as without replication.
    replicate_writes: bool = False

    @property
    def label(self) -> str:
        """Workload and array."""
        replicated = ", writes replicated" if self.replicate_writes else ""
        return f"{self.workload} on {self.array}{replicated}"

    @property
    def options(self) -> tuple[str, ...]:
        """Options of the replayer, in its recording and in its replays."""
        return REPLAYER_OPTIONS + (REPLICATED if self.replicate_writes else ())

    @property
    def replay_seed(self) -> int:
        """The replayer's seed in the cell's own replays."""
        return self.seed + _REPLAY

    def drives(self) -> Array:
        """The array."""
        return Array(
            n_drives=N_DRIVES,
            profile=ARRAYS.get(self.array, self.array),
            size_mb=self.size_mb,
            seed=self.seed,
        )

    @property
    def memory_mb(self) -> int:
        """Memory of its guests, which contains the drives' data."""
        return max(guests.Scenario.memory_mb, MEMORY_MB + N_DRIVES * self.size_mb * 11 // 10)


@dataclass(frozen=True)
class Replay:
    """One replay of a cell under one policy."""

    cell: Cell
    policy: str
    #: The replayer's `--inject`.
    inject: str | None = None
    #: Options of `linnapp train` for the models.
    train_options: tuple[str, ...] = ()
    #: The replayed part of the cell: "replay", or "train", the part that models learn from.
    part: str = "replay"
    #: More options of the replayer.
    options: tuple[str, ...] = ()
    #: Keep the per-I/O log in the folder.
    keep_log: bool = False

    @property
    def replayed_s(self) -> float:
        """Length of the replay in seconds: that of the part, or the option `--duration`."""
        if "--duration" in self.options:
            return float(self.options[self.options.index("--duration") + 1])
        return self.cell.train_s if self.part == "train" else self.cell.replay_s


@dataclass(frozen=True)
class Replayed:
    """A finished replay: its summary, and the folder with its other results."""

    replay: Replay
    summary: dict[str, Any]
    folder: Path

    @property
    def log(self) -> Path:
        """The per-I/O log, which exists if the replay has ``keep_log``."""
        return self.folder / f"{self.replay.policy}.log"


def write_workload(
    name: str,
    folders: Sequence[tuple[Path, float, float]],
    seed: int,
    *,
    kept_s: float = WINDOW_S,
    size_mb: int = Array.size_mb,
    replicate_writes: bool = False,
) -> None:
    """Draw a workload and write slices of it, one iolog a drive and slice.

    Parameters
    ----------
    folders : sequence of (Path, float, float)
        The folder of each slice, and the slice's first and last second.
    """
    profile = load_profile(name)
    end_s = max(last_s for _, _, last_s in folders)
    # The last seed determines the bursts that all drives have in common.
    sequence = np.random.SeedSequence([seed, _WORKLOAD])
    *children, shared = sequence.spawn(N_DRIVES + 1)
    write_draws = [np.random.default_rng(child) for child in sequence.spawn(N_DRIVES)]
    for drive, child in enumerate(children):
        drawn = generate(profile, end_s * WINDOW_S / kept_s, child, size_mb << 20, shared)
        chunks = [_kept(chunk, kept_s) for chunk in drawn]
        if replicate_writes:
            chunks = [_fewer_writes(chunk, write_draws[drive]) for chunk in chunks]
        for folder, first_s, last_s in folders:
            folder.mkdir(parents=True, exist_ok=True)
            slices = []
            for chunk in chunks:
                inside = (chunk.time_us >= first_s * 1e6) & (chunk.time_us < last_s * 1e6)
                cut = chunk.take(inside)
                slices.append(replace(cut, time_us=cut.time_us - int(first_s * 1e6)))
            iolog.write_iolog(folder / f"flash{drive}.iolog", slices, f"/dev/flash{drive}")


def _kept(chunk: iolog.Workload, kept_s: float) -> iolog.Workload:
    """Return the first `kept_s` seconds of each window, joined."""
    if kept_s >= WINDOW_S:
        return chunk
    window, within_us = np.divmod(chunk.time_us, round(WINDOW_S * 1e6))
    kept_us = round(kept_s * 1e6)
    inside = within_us < kept_us
    return replace(chunk.take(inside), time_us=(window * kept_us + within_us)[inside])


def _fewer_writes(chunk: iolog.Workload, draw: np.random.Generator) -> iolog.Workload:
    """Keep all reads, and each write with a probability of one in ``N_DRIVES``."""
    return chunk.take(~chunk.is_write | (draw.random(len(chunk)) * N_DRIVES < 1))


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
        write_workload(
            cell.workload, slices, cell.seed, kept_s=cell.kept_s, size_mb=cell.size_mb,
            replicate_writes=cell.replicate_writes,
        )  # fmt: skip
        scenario = guests.Scenario(
            "record",
            cell.drives(),
            _iologs(folder / "train"),
            cell.seed + _REPLAY,
            cell.train_inject,
            cell.options,
            memory_mb=cell.memory_mb,
        )
        guests.record(scenario, folder / "record")

    return cache.get("cell", asdict(cell), make)


def trained(cache: Cache, cell: Cell, train_options: tuple[str, ...] = ()) -> Path:
    """Train a cell's models, and return their folder."""
    source = recorded(cache, cell)

    def make(folder: Path) -> None:
        blks = [source / "record" / f"flash{drive}.blk" for drive in range(N_DRIVES)]
        kind_options = () if set(LATENCY_TRAINING) <= set(train_options) else NETWORK_TRAINING
        options = ("--seed", str(cell.seed), *kind_options, *train_options)
        workers.train(blks, folder / "models", folder / "train.txt", *options)

    parameters = {"cell": asdict(cell), "options": train_options}
    return cache.get("models", parameters, make) / "models"


def training_records(models: Path) -> list[dict[str, Any]]:
    """The training record of each drive's model."""
    return [json.loads((models / f"flash{drive}.json").read_text()) for drive in range(N_DRIVES)]


def read_profile(cache: Cache, cell: Cell) -> Path:
    """Return the per-I/O log of a cell's recording: the knowledge of an operator beforehand."""
    return recorded(cache, cell) / "record" / "baseline.log"


def train_heimdall(
    log: Path, folder: Path, seed: int, *, replicate_writes: bool = False
) -> list[Path]:
    """Train the networks of `heimdall`, one per drive, on the per-I/O log of a recording."""
    records = replay_log.read(log)
    served = [ios_of_drive(records, k, replicate_writes=replicate_writes) for k in range(N_DRIVES)]
    paths: list[Path] = workers.call(heimdall.train, served, folder, seed)
    return paths


def _heimdall_of(cache: Cache, cell: Cell) -> list[Path]:
    """Return the networks of `heimdall` for a cell's drives."""

    def make(folder: Path) -> None:
        log = read_profile(cache, cell)
        train_heimdall(log, folder, cell.seed, replicate_writes=cell.replicate_writes)

    parameters = {"cell": asdict(cell), "recipe": code_version("eval/heimdall.py")}
    folder = cache.get("heimdall", parameters, make)
    return [folder / f"flash{drive}{heimdall.SUFFIX}" for drive in range(N_DRIVES)]


def replayed(cache: Cache, replay: Replay) -> Replayed:
    """Replay a cell under a policy, unless the result is in the cache.

    Timeouts and queue limits of the policies come from the cell's recording,
    inflection points and the false-submit ratio from its models.
    """
    parameters = asdict(replay)
    source = recorded(cache, replay.cell)
    models: list[Path] = []
    options: list[str | Path] = [
        *replay.cell.options, "--profile", source / "record" / "baseline.log"
    ]  # fmt: skip
    if replay.policy in guests.NEEDS_LATENCY_MODEL:
        options_of_kind = (*LATENCY_TRAINING, *replay.train_options)
        folder = trained(cache, replay.cell, options_of_kind)
        models = [folder / f"flash{drive}.linnos" for drive in range(N_DRIVES)]
    elif replay.policy in guests.NEEDS_MODEL | guests.NEEDS_THRESHOLD:
        folder = trained(cache, replay.cell, replay.train_options)
        models = [folder / f"flash{drive}.linnos" for drive in range(N_DRIVES)]
        ratios = [record["false_submit_ratio"] for record in training_records(folder)]
        if replay.policy == "linnos-hl":
            options += ["--false-submit-ratio", f"{np.mean(ratios):.6f}"]
    elif replay.policy in guests.NEEDS_HEIMDALL:
        models = _heimdall_of(cache, replay.cell)
        parameters["recipe"] = code_version("eval/heimdall.py")
    else:
        # Replays of policies without a model are the same whatever the model.
        parameters.pop("train_options")

    def make(folder: Path) -> None:
        seed = replay.cell.seed
        scenario = guests.Scenario(
            f"{replay.cell.label}, seed {seed}",
            replay.cell.drives(),
            _iologs(source / replay.part),
            seed + _REPLAY,
            replay.inject,
            (*options, *replay.options),
            memory_mb=replay.cell.memory_mb,
        )
        summary = guests.replay(scenario, replay.policy, folder, models=models)
        write_reads(folder / f"{replay.policy}.log", folder / READS)
        write_json(folder / "summary.json", summary)
        if not replay.keep_log:
            (folder / f"{replay.policy}.log").unlink()

    folder = cache.get("replay", parameters, make)
    summary = json.loads((folder / "summary.json").read_text())
    return Replayed(replay, summary, folder)


def write_reads(log: Path, path: Path) -> None:
    """Extract what statistics need from a per-I/O log: its reads, a fifth of its size.

    The reads are in the order of :func:`read_log`, which is the same for every policy. Latencies
    are response times, from the moment at which the workload wants a read. They include the wait
    until it is submitted, which is long if the drives do not keep up.
    """
    reads = read_log(log)
    np.savez(
        path,
        due_us=(reads["due_ns"] / 1000).astype(np.float64),
        latency_us=((reads["latency_ns"] + reads["lag_ns"]) / 1000).astype(np.float32),
        home=reads["home"],
        served_by=reads["served_by"],
        revocations=np.minimum(reads["revocations"], 255).astype(np.uint8),
    )


def load_replayed_reads(done: Replayed) -> dict[str, np.ndarray[Any, Any]]:
    """Load the result of :func:`write_reads`."""
    with np.load(done.folder / READS) as kept:
        return {name: kept[name] for name in kept.files}


def ios_of_drive(
    records: np.ndarray[Any, Any], drive: int, *, replicate_writes: bool = False
) -> np.ndarray[Any, Any]:
    """Return the I/Os of one drive in the log of a policy that sends each read to one drive.

    A write that went to all drives is in the log once, with the time of the last drive.
    """
    here = records["served_by"] == drive
    if replicate_writes:
        here |= records["op"] == replay_log.WRITE
    return np.asarray(records[here])


def read_log(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the columns of a log's reads by due time, with `latency_us` and `start_us`."""
    records = replay_log.read(path)
    reads = records[records["op"] == replay_log.READ]
    # The order in which they were due, the same for every policy.
    reads = reads[np.lexsort((reads["offset_bytes"], reads["home"], reads["due_ns"]))]
    columns = {name: np.asarray(reads[name]) for name in replay_log.RECORD.names or ()}
    columns["latency_us"] = reads["latency_ns"] / 1000.0
    columns["start_us"] = (reads["due_ns"] + reads["lag_ns"]) / 1000.0
    return columns
