# SPDX-License-Identifier: MIT
"""Run an application in the lab, on a raid1 whose drives also serve a background workload.

Each drive has two parts. The first parts are the mirrors of the array with the application's file
system. On the second parts a Table 1 workload is replayed at the same time, one trace for each
drive. The two loads meet only in the drive: md does not see the background. The models, networks or
latency models, were trained on a recording of that workload alone.

The modules do the same on a kernel that has neither LinnOS nor md built in.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from eval.cache import ROOT, Cache, code_version
from eval.cells import (
    LATENCY_TRAINING,
    N_DRIVES,
    REPLAYER_OPTIONS,
    Cell,
    trained,
    write_workload,
)
from eval.experiments.apps import reports
from eval.experiments.apps.comparison import LATENCY, MODULE, ON
from eval.experiments.apps.programs import APPLICATIONS, Application, version
from eval.experiments.apps.reports import Operations
from linnapp.lab import guests
from linnapp.lab.array import Array
from linnapp.lab.work import StepError, write_json

#: Part of each drive for the mirror; the background uses the rest.
MIRROR_MB = 512

#: Appended to the name of a file system on an array of two mirrors.
TWO_MIRRORS = " on two mirrors"

#: Time that the background continues after the expected end of the application.
MORE_S = 1.0

#: A kernel without LinnOS, and the modules to load, in this order. md-mod comes with the kernel.
MODULE_KERNEL = ROOT / "build" / "linux-um-module" / "linux"
_BUILT = ROOT / "build" / "module" / MODULE_KERNEL.parent.name
MODULES = (
    MODULE_KERNEL.parent / "drivers" / "md" / "md-mod.ko",
    _BUILT / "linnos.ko",
    _BUILT / "raid" / "raid1.ko",
)

#: The folder of the scripts in the guest.
SCRIPTS = "/run/linnos/linnapp/eval/experiments/apps/guest"

#: A file system's content, in a folder of the cache and in that of a run.
DATA = "data.tar"

#: Memory of the guest in which data are made.
_MAKE_MEMORY_MB = 2048


@dataclass(frozen=True)
class PartitionedArray(Array):
    """Drives of two parts. ``devices`` are the second parts, which the replayer uses."""

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
        """Return commands that power the drives on and divide them without a partition table."""
        middle, end = (mb << 11 for mb in (self.mirror_mb, self.size_mb))
        parts = [
            f"addpart {drive} 1 0 {middle}\naddpart {drive} 2 {middle} {end - middle}\n"
            for drive in self.drives
        ]
        return super().setup_script() + "".join(parts)


@dataclass(frozen=True)
class Case:
    """One run of an application."""

    #: A key of ``APPLICATIONS``.
    application: str
    #: The file system on the array.
    file_system: str
    #: "off", "on" or "unguarded" (with networks), or "latency" (on, with models of latencies), of
    #: md's attribute; "module": as "latency", by the modules; "btrfs": no md, but btrfs' raid1c3.
    mode: str
    n_mirrors: int = N_DRIVES

    @property
    def place(self) -> str:
        """The file system, and the number of mirrors if it is not that of most runs."""
        return self.file_system + ("" if self.n_mirrors == N_DRIVES else TWO_MIRRORS)


@dataclass(frozen=True)
class FinishedRun:
    """A finished run and its folder."""

    case: Case
    cell: Cell
    folder: Path

    @property
    def record(self) -> dict[str, Any]:
        """The summary of the background, and ``counted``: reads by mirror, inferences, probes."""
        record: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        return record

    def operations(self) -> dict[str, Operations]:
        """Return the operations that the application reported, by load."""
        app = APPLICATIONS[self.case.application]
        return app.operations(app, self.folder / "run")


@dataclass(frozen=True)
class Setup:
    """The setup of a run: everything that it needs in addition to its program."""

    array: PartitionedArray
    #: The program's files, as :func:`make_data` makes them.
    data: Path
    #: The background, one trace for each drive.
    traces: Sequence[Path]
    #: Models of the drives; none if the program needs none.
    models: Sequence[Path]
    #: The seed of the program and of the replay of the background.
    seed: int
    memory_mb: int

    def scenario(self, title: str) -> guests.Scenario:
        """Return the replay of the background."""
        return guests.Scenario(
            title, self.array, tuple(self.traces), self.seed,
            options=REPLAYER_OPTIONS, memory_mb=self.memory_mb,
        )  # fmt: skip

    def place(self, folder: Path) -> list[str]:
        """Fill the folder that a guest sees; return the paths of the models in the guest."""
        folder.mkdir(parents=True, exist_ok=True)
        place_file(self.data, folder / DATA)
        places, models = guests.places_of(folder), []
        for drive, model in enumerate(self.models):
            shutil.copyfile(model, folder / f"flash{drive}.linnos")
            models.append(places.of(folder / f"flash{drive}.linnos"))
        return models


def make_setup(
    cache: Cache, cell: Cell, app: Application, training: tuple[str, ...] | None
) -> Setup:
    """Return the setup of a cell, with models if there are options of their training."""
    whole = cell.drives()
    models = None if training is None else trained(cache, cell, training)
    return Setup(
        PartitionedArray(
            n_drives=whole.n_drives, profile=whole.profile, size_mb=whole.size_mb, seed=whole.seed
        ),
        data(cache, app),
        background(cache, cell, app.seconds + MORE_S),
        [models / f"flash{drive}.linnos" for drive in range(N_DRIVES)] if models else [],
        cell.replay_seed,
        cell.memory_mb,
    )


def background(cache: Cache, cell: Cell, seconds: float) -> tuple[Path, ...]:
    """Return the background's traces: the cell's workload after its recorded part."""
    size_mb = cell.size_mb - MIRROR_MB
    # The length of the cell's own replay does not matter here.
    parameters = {**asdict(replace(cell, replay_s=seconds)), "mirror_mb": MIRROR_MB}

    def make(folder: Path) -> None:
        write_workload(
            cell.workload, [(folder, cell.train_s, cell.train_s + seconds)], cell.seed,
            kept_s=cell.kept_s, size_mb=size_mb,
        )  # fmt: skip

    folder = cache.get("background", parameters, make)
    return tuple(folder / f"flash{drive}.iolog" for drive in range(N_DRIVES))


def data(cache: Cache, app: Application) -> Path:
    """Return the application's files, which it creates once in a guest without drives."""
    # The files do not depend on the load.
    made_from = {
        "application": app.name, "data": app.data, "version": version(app),
        "recipe": code_version(*_scripts(app)),
    }  # fmt: skip
    return cache.get("app-data", made_from, lambda folder: make_data(app, folder)) / DATA


def make_data(app: Application, folder: Path) -> None:
    """Let the application create its files, and store them in a folder as ``DATA``."""
    places = guests.places_of(folder)
    script = (
        f"{_source_scripts(app)}mount -t tmpfs none $files\n"
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
    """Return the scripts of an application's guests, relative to the repository."""
    guest = Path(__file__).parent / "guest"
    names = sorted(path.name for path in guest.glob(f"{app.name}[._]*"))
    return [f"eval/experiments/apps/guest/{name}" for name in ("array.sh", *names)]


def _words(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def _source_scripts(app: Application) -> str:
    return f"set -e\n. {SCRIPTS}/array.sh\n. {SCRIPTS}/{app.name}.sh\n"


def run_case(cache: Cache, cell: Cell, case: Case) -> FinishedRun:
    """Run an application once, unless the run is in the cache."""
    app = APPLICATIONS[case.application]
    training = LATENCY_TRAINING if case.mode in (LATENCY, MODULE) else ()
    made_from = {
        "cell": asdict(cell), "case": asdict(case), "data": app.data, "load": app.load,
        "version": version(app),
        "recipe": code_version(*_scripts(app), "eval/experiments/apps/lab.py"),
    }  # fmt: skip

    def make(folder: Path) -> None:
        summary = run_once(app, case, make_setup(cache, cell, app, training), folder / "run")
        write_json(folder / "run.json", summary)

    return FinishedRun(case, cell, cache.get("app", made_from, make))


def run_once(app: Application, case: Case, setup: Setup, folder: Path) -> dict[str, Any]:
    """Run an application in a guest, from an empty array to the comparison of its mirrors.

    `app` is the application that the case names; its load may be smaller.

    Raises
    ------
    StepError
        If the application failed, a read of it or of the background was wrong, or mirrors differ.
    """
    models = setup.place(folder)
    kind = "btrfs" if case.mode == "btrfs" else "md"
    state = {LATENCY: ON, MODULE: ON, "btrfs": "off"}.get(case.mode, case.mode)
    mirrors = " ".join(f"{drive}p1" for drive in setup.array.drives[: case.n_mirrors])
    summary = replay_background_during(
        f"( run_app $start_s {_words(app.load)} {setup.seed} )",
        setup.scenario(f"{app.title} on {case.file_system}, {case.mode}"),
        folder,
        app.seconds,
        prepare=_source_scripts(app)
        + _upload_commands(case, setup.array, models, folder)
        + f"array_up {kind} {case.file_system} {state} {mirrors}\nfill\nstart_app\n",
        ready="write_counters before\n",
        finish=f"write_counters after\nstop_app\narray_down {kind}\n",
    )
    return {**summary, "counted": reports.counters(folder / "before", folder / "after")}


def replay_background_during(
    program: str,
    scenario: guests.Scenario,
    folder: Path,
    seconds: float,
    *,
    prepare: str,
    ready: str = "",
    finish: str = "",
) -> dict[str, Any]:
    """Replay the background in a guest while a program runs; return the replay's summary.

    Parameters
    ----------
    program : str
        A shell command that waits until ``$start_s`` and then runs for `seconds`.
    folder : Path
        Is seen by the guest. Its data and the log of the background are removed.
    prepare, ready, finish : str
        Shell commands to run first, shortly before the background starts, and after the program.
    """
    every = guests.START_EVERY_S
    before = (
        prepare
        # The replayer starts at the second multiple of START_EVERY_S from now.
        + f"ready_s=$((($(date +%s) / {every} + 1) * {every}))\n"
        f"start_s=$((ready_s + {every}))\n"
        f"{program} &\n"
        "program=$!\n"
        f"wait_until $ready_s\n{ready}"
    )
    after = f"check_background_length $start_s {round(seconds + MORE_S)}\nwait $program\n{finish}"
    summary = guests.replay(scenario, "baseline", folder, prepare=before, finish=after)
    for done in (DATA, "baseline.log"):
        (folder / done).unlink()
    del summary["config"]
    return summary


def _upload_commands(
    case: Case, array: PartitionedArray, models: Sequence[str], folder: Path
) -> str:
    """Return commands that upload the models, after loading the modules if the case has them."""
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


def place_file(source: Path, target: Path) -> None:
    """Link a large file into a folder that a guest sees, or copy it if it cannot be linked."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
