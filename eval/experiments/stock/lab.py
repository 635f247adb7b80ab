# SPDX-License-Identifier: MIT
"""Read a cell by liblinnos while the replayer does its writes, on either kernel."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval.cache import ROOT, Cache, code_version
from eval.cells import (
    LATENCY_TRAINING,
    N_DRIVES,
    READS,
    REPLAYER_OPTIONS,
    Cell,
    Replay,
    Replayed,
    brief,
    due_order,
    recorded,
    trained,
)
from linnapp.lab import guests
from linnapp.lab.work import StepError, write_json
from linnapp.trace import convert as iolog

#: A kernel without LinnOS in its sources: only the drives, and the changes that let a kernel run as
#: a process in virtual time.
STOCK_KERNEL = ROOT / "build" / "linux-um-unpatched" / "linux"

PROGRAM = Path(__file__).parent / "guest" / "read_trace.c"
LIBRARY = ROOT / "build" / "liblinnos" / "liblinnos.a"

#: A read in the input of read_trace.c.
READ = np.dtype([("due_ns", "<u8"), ("offset_bytes", "<u8"), ("bytes", "<u4"), ("home", "<u4")])


class OfKernel(Cache):
    """A cache that keeps the results of some kinds apart, because another kernel made them."""

    def __init__(self, cache: Cache, *kinds: str) -> None:
        super().__init__(cache.folder, any_version=cache.any_version)
        self.seconds = cache.seconds
        self._kinds = kinds

    def get(self, kind: str, parameters: Mapping[str, Any], make: Callable[[Path], None]) -> Path:
        """Return a folder, as a cache does."""
        if kind in self._kinds:
            parameters = {**parameters, "kernel": STOCK_KERNEL.parent.name}
        return super().get(kind, parameters, make)


def compiled(folder: Path) -> Path:
    """Compile the program that reads a trace by liblinnos into a folder."""
    if not LIBRARY.exists():
        raise StepError(f"{LIBRARY} does not exist; `make liblinnos` builds it")
    program = folder / PROGRAM.stem
    compiler = ["gcc", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [*compiler, f"-I{ROOT / 'liblinnos/include'}", "-o", program, PROGRAM, LIBRARY,
         "-luring", "-lm", "-pthread"],
        check=True,
    )  # fmt: skip
    return program


@dataclass(frozen=True)
class Reading:
    """A cell's reads by `read_trace` once."""

    cell: Cell
    #: How it chooses replicas; see guest/read_trace.c.
    who: str


def reads_and_writes(source: Path, folder: Path) -> np.ndarray[Any, Any]:
    """Split a cell's replayed part: return its reads in `eval.cells.due_order`, write its writes.

    The source is the result of `eval.cells.recorded`; the folder gets iologs of the writes.
    """
    reads = []
    folder.mkdir(parents=True, exist_ok=True)
    for drive in range(N_DRIVES):
        whole = iolog.Workload.joined(iolog.read_iolog(source / "replay" / f"flash{drive}.iolog"))
        iolog.write_iolog(
            folder / f"flash{drive}.iolog", [whole.take(whole.is_write)], f"/dev/flash{drive}"
        )
        mine = whole.take(~whole.is_write)
        made = np.empty(len(mine), READ)
        made["due_ns"], made["offset_bytes"] = mine.time_us * 1000, mine.offset_bytes
        made["bytes"], made["home"] = mine.size_bytes, drive
        reads.append(made)
    together = np.concatenate(reads)
    in_order: np.ndarray[Any, Any] = together[due_order(together)]
    return in_order


def read(cache: Cache, program: Path, reading: Reading) -> Replayed:
    """Read a cell's reads, unless that was done before, while the replayer writes its writes.

    The result has the form of a replay of the same cell, so that both can be compared; the data
    read are not compared with the data written.
    """
    cell = reading.cell
    source = recorded(cache, cell)
    folder_of_models = trained(cache, cell, LATENCY_TRAINING)
    made_from = {
        **asdict(reading),
        "recipe": code_version("eval/experiments/stock/lab.py", str(PROGRAM.relative_to(ROOT))),
    }

    def make(folder: Path) -> None:
        reads = reads_and_writes(source, folder / "writes")
        reads.tofile(folder / "reads")
        places = guests.places_of(folder)
        array = cell.drives()
        models = []
        for drive in range(N_DRIVES):
            model = folder / f"flash{drive}.linnos"
            shutil.copyfile(folder_of_models / model.name, model)
            models.append(places.of(model))
        # The guest sees this folder only.
        shutil.copy2(program, folder / program.name)
        by_models = reading.who in ("liblinnos", "hedged")
        replicas = [
            f"{drive}={model}" if by_models else drive
            for drive, model in zip(array.devices, models, strict=True)
        ]
        every = guests.START_EVERY_S
        prepare = guests.upload(array.devices, models, "observe") if reading.who == "asked" else ""
        # The replayer starts at the second multiple of START_EVERY_S from now.
        prepare += (
            f"ready_s=$((($(date +%s) / {every} + 1) * {every}))\n"
            f"{places.of(folder / program.name)} {reading.who} $((ready_s + {every}))"
            f" {places.of(folder / 'reads')} {places.cwd}/latencies {' '.join(replicas)}"
            f" >{places.cwd}/counted &\n"
            "reader=$!\n"
            "left_ns=$((ready_s * 1000000000 - $(date +%s%N)))\n"
            'sleep "$((left_ns / 1000000000)).$(printf %09d $((left_ns % 1000000000)))"\n'
        )
        summary = guests.replay(
            guests.Scenario(
                f"{cell.label}, seed {cell.seed}, writes",
                array,
                tuple(folder / "writes" / f"flash{k}.iolog" for k in range(N_DRIVES)),
                cell.replay_seed,
                options=REPLAYER_OPTIONS,
                memory_mb=cell.memory_mb,
            ),
            "baseline",
            folder,
            prepare=prepare,
            finish="wait $reader",
        )
        latency_ns = np.fromfile(folder / "latencies", "<u8")
        counted = json.loads((folder / "counted").read_text())
        none = np.zeros(len(reads), np.uint8)
        np.savez(
            folder / READS,
            due_us=reads["due_ns"] / 1000,
            latency_us=(latency_ns / 1000).astype(np.float32),
            home=reads["home"].astype(np.uint8),
            served_by=none,
            revocations=none,
        )
        write_json(
            folder / "summary.json",
            {
                "policy": reading.who,
                "scenario": f"{cell.label}, seed {cell.seed}",
                "reads": len(reads),
                "mean_us": float(latency_ns.mean() / 1000),
                "revoked": 0,
                "hedged": counted["hedges"],
                "extra_io_ratio": counted["hedges"] / len(reads),
                "data_errors": summary["data_errors"],
                "io_errors": summary["io_errors"],
                "counted": counted,
                "writes": brief(summary),
            },
        )
        for name in ("baseline.log", "latencies", "reads"):
            (folder / name).unlink()

    folder = cache.get("reading", made_from, make)
    summary = json.loads((folder / "summary.json").read_text())
    return Replayed(Replay(cell, reading.who), summary, folder)
