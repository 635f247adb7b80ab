# SPDX-License-Identifier: MIT
"""An application in the lab, on a raid1 whose drives have other work to do.

Each drive has two parts. The first are the mirrors of the array that the application's file system
is on; on the second a Table 1 workload is replayed meanwhile, on each drive its own. So both meet
in the drive and nowhere else: md knows nothing of the other load. The models are those of the cell,
networks or models of latencies, trained on a recording of that workload alone.

By the modules the same is done on a kernel that has neither LinnOS nor md built in.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from eval import guests
from eval.cache import ROOT, Cache, code_version
from eval.cells import (
    LATENCY_TRAINING,
    N_DRIVES,
    REPLAYER_OPTIONS,
    Cell,
    brief,
    trained,
    write_workload,
)
from eval.experiments.apps import reports
from eval.experiments.apps.comparison import LATENCY, MODULE, ON
from eval.experiments.apps.programs import APPLICATIONS, Application, version
from eval.experiments.apps.reports import Operations
from eval.work import StepError, write_json
from linnapp.lab.array import Array

#: Of each drive, for its mirror; the rest is the background's.
MIRROR_MB = 512

#: The background goes on for so long after the application should have ended.
MORE_S = 1.0

#: Without LinnOS, and what is loaded there, in this order: md-mod is its own.
MODULE_KERNEL = ROOT / "build" / "linux-um-module" / "linux"
_BUILT = ROOT / "build" / "module" / MODULE_KERNEL.parent.name
MODULES = (
    MODULE_KERNEL.parent / "drivers" / "md" / "md-mod.ko",
    _BUILT / "linnos.ko",
    _BUILT / "raid" / "raid1.ko",
)

#: In the guest.
SCRIPTS = "/run/linnos/linnapp/eval/experiments/apps/guest"

#: A file system's content, in a folder of the cache and in that of a run.
DATA = "data.tar"

#: Memory of the guest in which data are made.
_MAKE_MEMORY_MB = 2048


@dataclass(frozen=True)
class PartedArray(Array):
    """Drives of two parts; ``devices``, what is replayed on, are the second ones."""

    mirror_mb: int = MIRROR_MB

    @property
    def devices(self) -> list[str]:
        """Paths of the second parts in the guest."""
        return [f"{drive}p2" for drive in self.drives]

    @property
    def drives(self) -> list[str]:
        """Paths of the whole drives in the guest."""
        return super().devices

    def setup_script(self) -> str:
        """Shell commands that power the drives on and part them; nothing is written for that."""
        middle, end = (mb << 11 for mb in (self.mirror_mb, self.size_mb))
        parts = [
            f"addpart {drive} 1 0 {middle}\naddpart {drive} 2 {middle} {end - middle}\n"
            for drive in self.drives
        ]
        return super().setup_script() + "".join(parts)


@dataclass(frozen=True)
class Case:
    """One application once."""

    #: A key of ``APPLICATIONS``.
    application: str
    #: On the array.
    file_system: str
    #: "off", "on" or "unguarded" (with networks), or "latency" (on, with models of latencies), of
    #: md's attribute; "module": as "latency", by the modules; "btrfs": no md, but btrfs' raid1c3.
    mode: str


@dataclass(frozen=True)
class Ran:
    """A finished run: its folder and what it left."""

    case: Case
    cell: Cell
    folder: Path

    @property
    def record(self) -> dict[str, Any]:
        """The background's, and ``counted``: reads of each mirror, inferences, probes."""
        record: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        return record

    def operations(self) -> dict[str, Operations]:
        """What the application said of itself, by load."""
        app = APPLICATIONS[self.case.application]
        return app.operations(app, self.folder / "run")


def drives_of(cell: Cell) -> PartedArray:
    """A cell's drives in two parts."""
    whole = cell.drives()
    return PartedArray(
        n_drives=whole.n_drives, profile=whole.profile, size_mb=whole.size_mb, seed=whole.seed
    )


def background(cache: Cache, cell: Cell, seconds: float) -> tuple[Path, ...]:
    """What is replayed beside: the cell's workload from the end of its recorded part on."""
    size_mb = cell.size_mb - MIRROR_MB
    # How long a cell is replayed elsewhere does not matter here.
    parameters = {**asdict(replace(cell, replay_s=seconds)), "mirror_mb": MIRROR_MB}

    def make(folder: Path) -> None:
        write_workload(
            cell.workload, [(folder, cell.train_s, cell.train_s + seconds)], cell.seed,
            kept_s=cell.kept_s, size_mb=size_mb,
        )  # fmt: skip

    folder = cache.get("background", parameters, make)
    return tuple(folder / f"flash{drive}.iolog" for drive in range(N_DRIVES))


def data(cache: Cache, app: Application) -> Path:
    """The application's files, made once by itself, in a guest without drives."""

    # The load does not matter: what is read is the same however often.
    made_from = {
        "application": app.name, "data": app.data, "version": version(app),
        "recipe": code_version(*_scripts(app)),
    }  # fmt: skip
    return cache.get("app-data", made_from, lambda folder: make_data(app, folder)) / DATA


def make_data(app: Application, folder: Path) -> None:
    """Have the application make what it will read, and keep that in a folder as ``DATA``."""
    places = guests.places_of(folder)
    script = (
        f"{_sourced(app)}mount -t tmpfs none $files\n"
        f"make_data $files {_words(app.data)}\n"
        f"tar -C $files --numeric-owner -cf {places.cwd}/{DATA} .\n"
    )
    try:
        guests.run_in_guest(
            ["sh", "-ec", script], places, folder / "log.txt",
            array=Array(n_drives=0), memory_mb=_MAKE_MEMORY_MB,
        )  # fmt: skip
    except StepError as error:
        raise StepError(f"{app.title}: making its data: {error}") from None


def _scripts(app: Application) -> list[str]:
    """What runs in its guests, relative to the repository."""
    guest = Path(__file__).parent / "guest"
    names = sorted(path.name for path in guest.glob(f"{app.name}[._]*"))
    return [f"eval/experiments/apps/guest/{name}" for name in ("array.sh", *names)]


def _words(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def _sourced(app: Application) -> str:
    return f"set -e\n. {SCRIPTS}/array.sh\n. {SCRIPTS}/{app.name}.sh\n"


def run_case(cache: Cache, cell: Cell, case: Case) -> Ran:
    """Run an application once, unless that was done before."""
    models = trained(cache, cell, LATENCY_TRAINING if case.mode in (LATENCY, MODULE) else ())
    app = APPLICATIONS[case.application]
    made_from = {
        "cell": asdict(cell), "case": asdict(case), "data": app.data, "load": app.load,
        "version": version(app),
        "recipe": code_version(*_scripts(app), "eval/experiments/apps/lab.py"),
    }  # fmt: skip

    def make(folder: Path) -> None:
        write_json(
            folder / "run.json",
            run_once(
                app, case, drives_of(cell), data(cache, app), folder / "run",
                [models / f"flash{drive}.linnos" for drive in range(N_DRIVES)],
                background(cache, cell, app.seconds + MORE_S),
                seed=cell.replay_seed, memory_mb=cell.memory_mb,
            ),
        )  # fmt: skip

    return Ran(case, cell, cache.get("app", made_from, make))


def run_once(
    app: Application,
    case: Case,
    array: PartedArray,
    tar: Path,
    folder: Path,
    models: Sequence[Path],
    traces: Sequence[Path],
    *,
    seed: int,
    memory_mb: int,
) -> dict[str, Any]:
    """An application in a guest of its own, from an empty array to the comparison of its mirrors.

    Parameters
    ----------
    app : Application
        The one that the case names, or with less to do.
    seed : int
        Of the application and of the background's replay.

    Raises
    ------
    StepError
        If the application failed, a read of it or of the background was wrong, or mirrors differ.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # The guest sees this one folder.
    _at_hand(tar, folder / DATA)
    for drive, model in enumerate(models):
        shutil.copyfile(model, folder / f"flash{drive}.linnos")
    kind = "btrfs" if case.mode == "btrfs" else "md"
    state = {LATENCY: ON, MODULE: ON, "btrfs": "off"}.get(case.mode, case.mode)
    places = guests.places_of(folder)
    uploaded = [places.of(folder / f"flash{drive}.linnos") for drive in range(len(models))]
    prepare = (
        _sourced(app)
        + _uploaded(case, array, uploaded, folder)
        + f"array_up {kind} {case.file_system} {state}\n"
        "fill\n"
        "start_app\n"
        # The replayer starts at the second multiple from now: it is given a rest, and takes one.
        f"ready_s=$((($(date +%s) / {guests.START_EVERY_S} + 1) * {guests.START_EVERY_S}))\n"
        f"start_s=$((ready_s + {guests.START_EVERY_S}))\n"
        f"( run_app $start_s {_words(app.load)} {seed} ) &\n"
        "app=$!\n"
        "wait_until $ready_s\n"
        "reads_of before\n"
    )
    finish = (
        f"ended_beside $start_s {round(app.seconds + MORE_S)}\n"
        f"wait $app\nreads_of after\nstop_app\narray_down {kind}\n"
    )
    scenario = guests.Scenario(
        f"{app.title} on {case.file_system}, {case.mode}",
        array,
        tuple(traces),
        seed,
        options=REPLAYER_OPTIONS,
        memory_mb=memory_mb,
    )
    summary = guests.replay(scenario, "baseline", folder, prepare=prepare, finish=finish)
    (folder / DATA).unlink()
    (folder / "baseline.log").unlink()
    return {
        **brief(summary),
        "counted": reports.counters(folder / "before", folder / "after"),
    }


def _uploaded(case: Case, array: PartedArray, models: Sequence[str], folder: Path) -> str:
    """Shell commands that upload models, by the modules once they are loaded."""
    if case.mode != MODULE:
        return guests.upload(array.drives, models, "observe")
    for module in MODULES:
        shutil.copyfile(module, folder / module.name)
    places = guests.places_of(folder)
    md_mod, linnos, raid1 = (places.of(folder / module.name) for module in MODULES)
    names = ",".join(Path(drive).name for drive in array.drives)
    return f"insmod {md_mod}\ninsmod {linnos} drives={names}\ninsmod {raid1}\n" + guests.upload(
        array.drives, models, "observe", "/sys/kernel/linnos/{}"
    )


def _at_hand(source: Path, target: Path) -> None:
    """Have a large file in another folder too, without a second copy where that can be."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
