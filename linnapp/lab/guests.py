# SPDX-License-Identifier: MIT
"""Record and replay workloads, each time in a new guest.

The drives of all guests begin in the same state, and files have the same paths in all guests.
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

#: Virtual time that each inference of a network costs, because computation takes no virtual time.
#: It is the time of all of LinnOS's work for a read, including its history, as `make bench`
#: measures it for the plain C engine, rounded up.
INFERENCE_NS = 400

#: Time between a revocation and the next attempt, as in the paper.
FAILOVER_US = 15

#: A replay begins at a multiple of this time, which is a multiple of every drive's flush interval
#: (8 ms to 1 s). The drives are then in the same phase, however long the guest took until then.
#: Waiting takes no real time.
START_EVERY_S = 8

#: Time between the upload of models and the replay, in which the kernel completes deferred work.
REST_S = 4

#: Policies whose reads have the hint, and which therefore need a model in the kernel.
NEEDS_MODEL = frozenset({"linnos", "linnos-hl", "linnos-h99"})

#: Policies that need only a model's inflection point. The mode of the drives is off.
NEEDS_THRESHOLD = frozenset({"hedge-ip", "heuristic-adv", "verdict"})

#: Policies whose latency models are run by the replayer.
NEEDS_LATENCY_MODEL = frozenset({"fastest"})

#: Policies for which the replayer runs Heimdall's networks (eval/heimdall.py).
NEEDS_HEIMDALL = frozenset({"heimdall"})

_kernel = DEFAULT_KERNEL
_programs: Path | None = None


def use_copies(kernel: Path, programs: Path | None) -> None:
    """Boot this kernel from now on, and search this folder for programs first.

    The defaults are the kernel and the programs that `make` builds.
    """
    global _kernel, _programs
    _kernel, _programs = kernel, programs


@contextmanager
def on_kernel(kernel: Path, target: str, programs: Path) -> Iterator[None]:
    """Boot a copy of another kernel until the block ends.

    `target` is the target of make that builds it, for the error message. `programs` is the folder
    of the run's programs, which receives the copy; see `eval.programs`.
    """
    if not kernel.exists():
        raise StepError(f"{kernel}: not there; `make {target}` builds it")
    before = _kernel, _programs
    copy = programs / kernel.parent.name
    keep_copy(kernel, copy)
    use_copies(copy, programs)
    try:
        yield
    finally:
        use_copies(*before)


@dataclass(frozen=True)
class Scenario:
    """A replay: its traces, its drives and its options."""

    #: Name of the scenario in the summary of every run.
    name: str
    #: The drives.
    array: Array
    #: One fio iolog (version 3) for each drive.
    traces: tuple[Path, ...]
    #: Seed of the replayer, for the data that it writes and for random choices of policies.
    seed: int = 1
    #: The replayer's `--inject`.
    inject: str | None = None
    #: Other options of the replayer. Files of the host are of type Path.
    options: tuple[str | Path, ...] = ()
    inference_ns: int = INFERENCE_NS
    failover_us: int = FAILOVER_US
    #: Memory of the guest, which contains the drives' data.
    memory_mb: int = Guest.memory_mb

    def config(self) -> dict[str, Any]:
        """Return the settings that are needed to repeat a run, without paths of this machine."""
        config = asdict(self)
        config["traces"] = [_name(trace) for trace in self.traces]
        config["options"] = [_name(o) if isinstance(o, Path) else o for o in self.options]
        return config


def _name(path: Path) -> str:
    """Return the name of a run's file and of the folder that contains it."""
    return "/".join(path.parts[-2:])


def places_of(out_dir: Path) -> Places:
    """Return the paths in the guest of a run that writes to `out_dir`."""
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
    """Run a command in a new guest, on the kernel of :func:`use_copies`.

    Parameters
    ----------
    command : sequence of str
    places : Places
        The paths in the guest.
    log : Path
        Receives the command's output. The guest's kernel log has the same name with ``.dmesg``.
    array : Array or Cluster
        The drives, or the nodes with their drives.
    setup : str
        Shell commands that run once the drives exist.
    memory_mb : int
        Memory of the guest in MB.

    Raises
    ------
    StepError
        If the guest dies or the command fails.
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
    """Run a command on a scenario's drives, with the cost of inferences in virtual time."""
    charge = f"echo {scenario.inference_ns} >/sys/module/flashsim/parameters/charge_ns"
    run_in_guest(
        command,
        places,
        log,
        array=scenario.array,
        # A kernel without LinnOS makes no inferences.
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
    """Replay a scenario's traces under blktrace without a policy; return the recordings."""
    places = places_of(out_dir)
    drives = scenario.array.devices
    blks = [out_dir / f"{Path(drive).name}.blk" for drive in drives]
    # Overwriting a file takes a different virtual time than creating one, so a repeated recording
    # would differ from the first.
    for old in (*blks, out_dir / "baseline.json", out_dir / "baseline.log"):
        old.unlink(missing_ok=True)
    command = ["linnapp", "trace", *drives, "-o", str(places.cwd), "--"]
    # The recording includes the replayer's writes before the replay.
    replayer = f"{WAIT_FOR_FULL_SECOND}exec {shlex.join(_replayer(scenario, 'baseline', places))}"
    command += ["sh", "-ec", replayer]
    _run(command, scenario, places, out_dir.with_suffix(".txt"))
    return blks


def upload(
    devices: Iterable[str], models: Iterable[str], mode: str, files: str = "/sys/block/{}/linnos"
) -> str:
    """Return shell commands that upload a model to each device and set its mode.

    They take a hundredth of the time of `linnapp upload`. `files` is the folder of a drive's files
    in sysfs, with ``{}`` in place of the drive's name.
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
    scenario : Scenario
    policy : str
        Name of a policy of the replayer.
    out_dir : Path
        Receives the policy's JSON summary and its per-I/O log.
    models : sequence of Path
        One model for each drive. It is uploaded before the replay if the policy queries the kernel,
        and given to the replayer if that makes the predictions.
    hedge_us : float, optional
        Time in us after which a policy hedges.
    prepare, finish : str
        Shell commands that run in the guest after the upload, and after the replay.

    Returns
    -------
    dict
        The replayer's JSON summary, with the scenario as ``config["experiment"]``.
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
    """Return the sorted latencies in us of the reads of a per-I/O log."""
    records = replay_log.read(log)
    latency_ns = records["latency_ns"][records["op"] == replay_log.READ]
    return np.sort(latency_ns.astype(np.float64) / 1000)
