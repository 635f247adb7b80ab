# SPDX-License-Identifier: MIT
"""Recordings and replays, each in a guest of its own.

Its drives start from the same state, and it sees everything at fixed places.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from linnapp.lab.array import WAIT_FOR_FULL_SECOND, Array
from linnapp.lab.cluster import Cluster
from linnapp.lab.guest import Guest, LabError
from linnapp.lab.places import Places
from linnapp.lab.uml import DEFAULT_KERNEL, run
from linnapp.lab.work import StepError, keep_copy, tail
from linnapp.trace import replay_log

#: Charged in virtual time for each network inference, which the guest's clock
#: does not see: all of LinnOS's work on a read, history included, as `make bench`
#: measures it for the plain C engine, rounded up.
INFERENCE_NS = 400

#: Charged between a revocation and the next try, the paper's figure.
FAILOVER_US = 15

#: Every drive's flush interval (8 ms to 1 s) divides this: however long the
#: guest took to get there, a replay meets the drives in the same phase. Waiting is free.
START_EVERY_S = 8

#: Rest between uploading models and replaying: what an upload leaves to the kernel to tidy up must
#: be over by then.
REST_S = 4

#: Policies whose reads carry the hint, and so need a model in the kernel.
NEEDS_MODEL = frozenset({"linnos", "linnos-hl", "linnos-h99"})

#: Policies that need only a model's inflection point; the drives stay off.
NEEDS_THRESHOLD = frozenset({"hedge-ip", "heuristic-adv", "verdict"})

#: Policies that run models of latencies themselves.
NEEDS_LATENCY_MODEL = frozenset({"fastest"})

#: Policies that run Heimdall's networks (eval/heimdall.py).
NEEDS_HEIMDALL = frozenset({"heimdall"})

_kernel = DEFAULT_KERNEL
_programs: Path | None = None


def use_copies(kernel: Path, programs: Path | None) -> None:
    """Boot this kernel, and look for programs first in this folder; not in what `make` built."""
    global _kernel, _programs
    _kernel, _programs = kernel, programs


@contextmanager
def on_kernel(kernel: Path, target: str, programs: Path) -> Iterator[None]:
    """Boot another kernel, a copy of what this target of make builds, for as long as this lasts.

    `programs` is the folder with the programs of the run: see `eval.programs`.
    """
    if not kernel.exists():
        raise StepError(f"{kernel}: not there; `make {target}` builds it")
    before = _kernel, _programs
    kept = programs / kernel.parent.name
    keep_copy(kernel, kept)
    use_copies(kept, programs)
    try:
        yield
    finally:
        use_copies(*before)


@dataclass(frozen=True)
class Scenario:
    """A replay: its traces, its drives and its options."""

    #: A name that every run's summary contains.
    name: str
    #: The drives.
    array: Array
    #: One fio iolog (version 3) a drive.
    traces: tuple[Path, ...]
    #: The replayer's seed: for the written data, and for policies that choose at random.
    seed: int = 1
    #: The replayer's `--inject`.
    inject: str | None = None
    #: More options of the replayer; a file of the host as a Path.
    options: tuple[str | Path, ...] = ()
    inference_ns: int = INFERENCE_NS
    failover_us: int = FAILOVER_US
    #: Memory of the guest, which contains the drives' data.
    memory_mb: int = Guest.memory_mb

    def config(self) -> dict[str, Any]:
        """Everything needed to repeat a run, for its record; nothing of where it was run."""
        config = asdict(self)
        config["traces"] = [_name(trace) for trace in self.traces]
        config["options"] = [_name(o) if isinstance(o, Path) else o for o in self.options]
        return config


def _name(path: Path) -> str:
    """A file of a run by its folder in the run's output and its name."""
    return "/".join(path.parts[-2:])


def places_of(out_dir: Path) -> Places:
    """The places of a run that writes to a folder, with the programs of :func:`use_copies`."""
    return Places(out_dir, _programs)


def run_in_guest(
    command: Sequence[str],
    places: Places,
    log: Path,
    *,
    array: Array | Cluster,
    setup: str = "",
    memory_mb: int = Guest.memory_mb,
) -> None:
    """Run a command in a fresh guest, on the kernel of :func:`use_copies`.

    Parameters
    ----------
    log : Path
        Gets the command's output. The guest's kernel log has the same name with ``.dmesg``.
    setup : str
        Shell commands that come once they are there.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    guest = Guest(
        kernel=_kernel,
        memory_mb=memory_mb,
        folders=places.folders,
        setup=array.setup_script() + setup + places.setup(),
        environment={
            **places.environment(array.devices),
            **(array.environment if isinstance(array, Cluster) else {}),
        },
    )
    with log.open("wb") as output:
        try:
            result = run(command, guest, cwd=places.cwd, stdout=output, stderr=output)
        except LabError as error:
            raise StepError(f"{error}\n{tail(log)}") from None
    log.with_suffix(".dmesg").write_text(result.dmesg)
    if result.status:
        raise StepError(f"exit status {result.status} of {shlex.join(command)}\n{tail(log)}")


def _run(command: Sequence[str], scenario: Scenario, places: Places, log: Path) -> None:
    """Run a command on a scenario's drives, where inferences cost time, if there can be any."""
    charge = f"echo {scenario.inference_ns} >/sys/module/flashsim/parameters/charge_ns"
    run_in_guest(
        command,
        places,
        log,
        array=scenario.array,
        # A kernel without LinnOS makes none.
        setup=f"[ ! -e /sys/block/flash0/linnos ] || {charge}\n",
        memory_mb=scenario.memory_mb,
    )


def _replayer(scenario: Scenario, policy: str, places: Places) -> list[str]:
    command = [
        "replayer",
        "--devices",
        ",".join(scenario.array.devices),
        "--trace",
        ",".join(places.of(trace) for trace in scenario.traces),
        "--policy",
        policy,
        "--seed",
        str(scenario.seed),
        "--failover-us",
        str(scenario.failover_us),
        "--start-every",
        str(START_EVERY_S),
        "--json",
        f"{places.cwd}/{policy}.json",
        "--log",
        f"{places.cwd}/{policy}.log",
        *(places.of(o) if isinstance(o, Path) else o for o in scenario.options),
    ]
    if scenario.inject is not None:
        command += ["--inject", scenario.inject]
    return command


def record(scenario: Scenario, out_dir: Path) -> list[Path]:
    """Replay a scenario's traces under blktrace, with no policy."""
    places = places_of(out_dir)
    drives = scenario.array.devices
    blks = [out_dir / f"{Path(drive).name}.blk" for drive in drives]
    # To write over a file takes the guest other moments than to make one: a recording that is made
    # again would not be the same.
    for left in (*blks, out_dir / "baseline.json", out_dir / "baseline.log"):
        left.unlink(missing_ok=True)
    command = ["linnapp", "trace", *drives, "-o", str(places.cwd), "--"]
    # The recording includes the replayer's writes before the replay.
    replayer = f"{WAIT_FOR_FULL_SECOND}exec {shlex.join(_replayer(scenario, 'baseline', places))}"
    command += ["sh", "-ec", replayer]
    _run(command, scenario, places, out_dir.with_suffix(".txt"))
    return blks


def upload(
    devices: Iterable[str], models: Iterable[str], mode: str, files: str = "/sys/block/{}/linnos"
) -> str:
    """Shell commands that upload models; what `linnapp upload` does, in a hundredth of its time.

    `files` is where those of a drive are, by its name.
    """
    lines = []
    for device, model in zip(devices, models, strict=True):
        linnos = files.format(Path(device).name)
        lines.append(f"cat {shlex.quote(model)} >{linnos}/model")
        lines.append(f"echo {mode} >{linnos}/mode")
    return "".join(f"{line}\n" for line in lines)


def replay(
    scenario: Scenario,
    policy: str,
    out_dir: Path,
    *,
    models: Sequence[Path] = (),
    hedge_us: float | None = None,
    prepare: str = "",
    finish: str = "",
) -> dict[str, Any]:
    """Replay a scenario under one policy.

    Parameters
    ----------
    out_dir : Path
        Gets the policy's JSON summary and per-I/O log.
    models : sequence of Path
        One model or network a drive, uploaded before the replay where the policy asks
        the kernel, and given to the replayer where it predicts itself.
    hedge_us : float, optional
        Timeout of the policies that hedge.
    prepare, finish : str
        Shell commands in the guest after the upload and after the replay.
    """
    places = places_of(out_dir)
    command = _replayer(scenario, policy, places)
    if hedge_us is not None:
        command += ["--hedge-us", f"{hedge_us:.0f}"]
    if models and policy in NEEDS_LATENCY_MODEL:
        command += ["--latency-model", ",".join(map(places.of, models))]
    if models and policy in NEEDS_HEIMDALL:
        command += ["--heimdall-network", ",".join(map(places.of, models))]
    script = []
    mode = "off" if policy in NEEDS_THRESHOLD else "enforce"
    if models and policy in NEEDS_MODEL | NEEDS_THRESHOLD:
        script.append(upload(scenario.array.devices, map(places.of, models), mode))
    script += [prepare, f"sleep {REST_S}", WAIT_FOR_FULL_SECOND + shlex.join(command), finish]
    _run(["sh", "-ec", "\n".join(script)], scenario, places, out_dir / f"{policy}.txt")
    summary: dict[str, Any] = json.loads((out_dir / f"{policy}.json").read_text())
    summary["config"] = {**summary.get("config", {}), "experiment": scenario.config()}
    return summary


def read_latency_us(log: Path) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Latencies of the reads of a per-I/O log, in us, sorted."""
    records = replay_log.read(log)
    latency_ns = records["latency_ns"][records["op"] == replay_log.READ]
    return np.sort(latency_ns.astype(np.float64) / 1000)
