# SPDX-License-Identifier: MIT
"""Reads by a cluster's clients under each rule, in the lab: their latencies and their nodes."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval import workers
from eval.cache import ROOT, Cache, code_version
from eval.cells import (
    ARRAY_OF,
    ARRAYS,
    LATENCY_TRAINING,
    N_DRIVES,
    REPLAYER_OPTIONS,
    write_workload,
)
from linnapp.lab import guests
from linnapp.lab.array import WAIT_FOR_FULL_SECOND, Array
from linnapp.lab.cluster import AGENT, Cluster, installed_by, missing
from linnapp.lab.guest import DEFAULT_PATH
from linnapp.lab.places import Places
from linnapp.lab.work import StepError

GUEST = Path(__file__).parent / "guest"

#: The libraries that an engine's client is linked with.
_LIBRARIES = {"gluster": ("-lgfapi",), "ceph": ("-lrados",)}

#: The libraries of this project, by the target of make that builds them.
_BUILT = {
    "gluster": {"cluster": ROOT / "build" / "cluster" / "liblinnos-cluster.a"},
    "ceph": {
        "ceph": ROOT / "build" / "ceph" / "liblinnos-ceph.a",
        "cluster": ROOT / "build" / "cluster" / "liblinnos-cluster.a",
    },
}
SOURCES = (
    "eval/experiments/cluster/lab.py",
    "eval/experiments/cluster/guest",
    "cluster/agent",
    "cluster/client",
    "cluster/ceph",
    "cluster/wire",
    "kernel/config/um-cluster.config",
)

#: A record of the client's log.
READ = np.dtype([("due_ns", "<u8"), ("latency_ns", "<u8"), ("node", "<u4"), ("attempts", "<u4")])

#: The sizes of the file that is read, on each node; of its drive; and of the part of the drive that
#: another load uses.
FILE_MB, DRIVE_MB, BACKGROUND_MB = 64, 1024, 480

#: The mean time between reads of the client: 4 KiB each, by a Poisson process.
MEAN_US = 500
RECORDED_MS = 3_000
MEMORY_MB = 5 * 1024
#: The guest's memory with several clients, or more nodes.
_MANY_MEMORY_MB = 8 * 1024

#: A burst: each drive in turn takes `BURST_US` longer for every read, for `TURN_US`.
BURST_US, TURN_US = 2000, 100_000

#: The number of rounds that are measured. Each drive has one turn in a round.
ROUNDS = 5
MEASURED_MS = ROUNDS * N_DRIVES * TURN_US // 1000

#: The number of rounds after which a failure begins. It lasts for one round.
FAILS_AFTER = 2

#: The load of wandering bursts. Others are those of Table 1, by their names.
BURSTS = "bursts"

#: The number of seconds that are kept of each ten seconds of a Table 1 load, so that a run of some
#: seconds meets a dozen rates.
_KEPT_S = 0.1

#: Programs that wait in this way begin at the same second.
_WAIT_FOR_START = (
    f"/bin/sleep $(({guests.START_EVERY_S} - $(date +%s) % {guests.START_EVERY_S}))\n"
    f"{WAIT_FOR_FULL_SECOND}"
)

#: Added to a seed, for the reads that models learn from and for those that are measured.
_TRAINING, _MEASURING = 3, 4

#: The difference between the seeds of two clients.
_NEXT_CLIENT = 100


@dataclass(frozen=True)
class Situation:
    """A load, a network, and everything else that a measurement depends on."""

    #: The load on the nodes' drives besides the reads: ``BURSTS``, or a Table 1 load.
    load: str
    #: The seed of the drives, the load and the reads.
    seed: int
    #: The delay of the network, or None without one.
    one_way_us: int | None
    #: A name of `linnapp.lab.cluster.ENGINES`.
    engine: str = "gluster"
    #: The number of clients. They share the reads, and none knows of those of the others.
    clients: int = 1
    #: The length of the measurement.
    measured_ms: int = MEASURED_MS
    #: The share of the queries to agents that are lost; 100 is the same as no agents.
    lost_percent: int = 0
    #: The part of the first node that fails for a while. "server": the server is stopped, but not
    #: the agent. "network": it is cut. "node": both programs are killed. Empty: nothing fails.
    fails: str = ""
    #: The false report of the first node's agent, "fast" or "slow". Empty if it does not lie.
    lies: str = ""
    #: The share of writes in the clients' I/Os. The reads are the same.
    writes_percent: int = 0
    #: The number of nodes. Each block is on three of them.
    nodes: int = N_DRIVES
    #: The processor time of an OSD for a read.
    osd_us: int = 0

    def cluster(self) -> Cluster:
        """Return the nodes."""
        profiles = ARRAYS[ARRAY_OF.get(self.load, "enterprise")].split(",")
        named = ",".join(profiles * (self.nodes // N_DRIVES if len(profiles) > 1 else 1))
        drives = Array(self.nodes, named, DRIVE_MB, self.seed)
        return Cluster(drives, self.engine, self.one_way_us, N_DRIVES, self.osd_us)

    @property
    def memory_mb(self) -> int:
        """The memory of its guest."""
        return MEMORY_MB if self.clients == 1 and self.nodes == N_DRIVES else _MANY_MEMORY_MB


@dataclass(frozen=True)
class Measured:
    """The reads under one rule."""

    #: An array of READ.
    reads: np.ndarray[Any, Any]
    #: The number of reads of the engine's half of each node's drive, which shows who served them.
    disk_reads: tuple[int, ...]
    #: The client's counters.
    counted: dict[str, int]


def compile_client(folder: Path, engine: str = "gluster") -> Path:
    """Compile an engine's client in a folder."""
    for target, built in {"agent": AGENT, **_BUILT[engine]}.items():
        if not built.exists():
            raise StepError(f"{built} does not exist; `make {target}` builds it")
    if absent := missing(engine, DEFAULT_PATH):
        raise StepError(
            f"not installed: {', '.join(absent)}; `{installed_by(engine)}` installs them"
        )
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"{engine}-reads"
    cluster = ROOT / "cluster"
    includes = (
        *(cluster / name for name in ("wire", "client", "ceph")),
        *(ROOT / "liblinnos" / name for name in ("include", "predictor")),
        *(ROOT / name for name in ("replayer", "kernel/flashsim", "core/uapi")),
    )
    sources = (
        GUEST / "reads.c", GUEST / f"{engine}.c", GUEST / "rules.c",
        cluster / "wire" / "datagram.c", ROOT / "liblinnos" / "predictor" / "histogram.c",
    )  # fmt: skip
    result = subprocess.run(
        ["gcc", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
         *(f"-I{path}" for path in includes), "-o", program, *sources,
         *_BUILT[engine].values(), *_LIBRARIES[engine], "-lsodium", "-lm", "-pthread"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if result.returncode:
        raise StepError(
            f"{program}: `{installed_by(engine)}` installs what it needs\n{result.stderr}"
        )
    return program


def _inject_commands(arm: int, n_drives: int) -> str:
    """Return shell commands that begin or end the wandering burst."""
    lines = []
    for drive in range(n_drives):
        knobs = {
            "pattern": "all", "op": "read", "latency_us": BURST_US,
            "window_us": TURN_US, "window_every_us": TURN_US,
            "window_turns": n_drives, "window_turn_mask": 1 << drive,
        }  # fmt: skip
        place = f"/sys/kernel/config/flashsim/flash{drive}/inject"
        lines.append(f"echo 0 >{place}/arm")
        if arm:
            lines += [f"echo {value} >{place}/{knob}" for knob, value in knobs.items()]
            lines.append(f"echo 1 >{place}/arm")
    return "\n".join(lines) + "\n"


def _load_commands(situation: Situation, places: Places, traces: Sequence[Path]) -> str:
    """Return shell commands that begin the load, and define `end_load`, which ends it."""
    if situation.load == BURSTS:
        begin, end = (_inject_commands(arm, situation.nodes) for arm in (1, 0))
        return f"{begin}end_load() {{ {end} }}\n"
    command = [
        "replayer", "--devices", ",".join(f"/dev/flash{k}p2" for k in range(N_DRIVES)),
        "--trace", ",".join(map(places.of, traces)), "--policy", "baseline",
        "--seed", str(situation.seed), "--fit", "--unwritten", "any",
        *REPLAYER_OPTIONS, "--start-every", str(guests.START_EVERY_S), "--json", "/run/load.json",
    ]  # fmt: skip
    # The latencies of the load are not used.
    return (
        f"{shlex.join(command)} >/run/load.txt 2>&1 & load=$!\n"
        # The replayer checks at its start that no other process uses the drives.
        "sleep 1\n"
        "end_load() { wait $load || { cat /run/load.txt; exit 1; }; }\n"
    )


def _failure_commands(situation: Situation) -> str:
    """Return shell commands that let a part of the first node fail for a round of bursts."""
    if not situation.fails:
        return "failing=\n"
    cluster = situation.cluster()
    fail = {"server": cluster.halt_server, "network": cluster.fail_link, "node": cluster.kill_node}
    begin, end = fail[situation.fails](0)
    round_s = situation.nodes * TURN_US / 1e6
    # These commands run one second after a common start; the programs begin at the next one.
    begins_s = guests.START_EVERY_S - 1 + FAILS_AFTER * round_s
    return f"{{ /bin/sleep {begins_s:g}; {begin}\n/bin/sleep {round_s:g}; {end}; }} & failing=$!\n"


def _write_load(situation: Situation, folder: Path, seed: int, lasts_ms: int) -> list[Path]:
    """Write a load that depends on a seed."""
    if situation.load != BURSTS:
        # The load lasts a little longer than the reads.
        slices = [(folder, 0.0, 1.1 * lasts_ms / 1e3 + 0.2)]
        write_workload(situation.load, slices, seed, kept_s=_KEPT_S, size_mb=BACKGROUND_MB)
    return [folder / f"flash{k}.iolog" for k in range(N_DRIVES)]


def _client(
    client: str, rule: str, situation: Situation, seed: int, lasts_ms: int, log: str
) -> str:
    mean_us = MEAN_US * situation.clients
    words = (
        client, rule, seed, lasts_ms, mean_us, situation.clients,
        situation.lost_percent, situation.lies, situation.writes_percent, guests.START_EVERY_S, log,
    )  # fmt: skip
    return shlex.join(map(str, words))


def record_and_train(cache: Cache, client: Path, situation: Situation) -> Path:
    """Record the nodes' drives while they are read at random, and train a model of each.

    Models depend on the drives and not on the network, so there is none, and any kernel of the lab
    can be used.
    """
    load, seed = situation.load, situation.seed
    engine = situation.engine
    first = Situation(load, seed, None, engine=engine, nodes=situation.nodes)
    # With more drives, each is read less often, so recording takes longer to get as many reads.
    lasts_ms = RECORDED_MS * first.nodes // N_DRIVES

    def make(folder: Path) -> None:
        traces = _write_load(first, folder / "load", seed + _TRAINING, lasts_ms)
        places = guests.places_of(folder)
        drives = first.cluster().devices
        script = (
            f"{places.of(client)} write {FILE_MB}\n{_WAIT_FOR_START}"
            f"{_load_commands(first, places, traces)}"
            f"linnapp trace {' '.join(drives)} -o {places.cwd}/record -- "
            + _client(places.of(client), "random", first, seed + _TRAINING, lasts_ms, "/run/log")
            + "\nend_load\n"
        )
        guests.run_in_guest(
            ["sh", "-euc", script], places, folder / "record.txt",
            array=first.cluster(), memory_mb=first.memory_mb,
        )  # fmt: skip
        blks = [folder / "record" / f"flash{k}.blk" for k in range(first.nodes)]
        workers.train(
            blks, folder / "models", folder / "train.txt", "--seed", str(seed), *LATENCY_TRAINING
        )

    parameters = {
        "load": load, "seed": seed, "engine": engine, "nodes": first.nodes,
        "recipe": code_version(*SOURCES),
    }  # fmt: skip
    return cache.get("cluster-models", parameters, make) / "models"


def measure_rules(
    cache: Cache, client: Path, situation: Situation, rules: Sequence[str]
) -> dict[str, Measured]:
    """Measure the same reads under each rule, one after the other, in one guest.

    The first rule depends on the seed, so that no rule always gets the drives in their first
    state.
    """
    models = record_and_train(cache, client, situation)
    seed, ms = situation.seed + _MEASURING, situation.measured_ms
    turn = seed % len(rules)

    def make(folder: Path) -> None:
        traces = _write_load(situation, folder / "load", seed, ms)
        places = guests.places_of(folder)
        files = [places.of(models / f"flash{k}.linnos") for k in range(situation.nodes)]
        program = places.of(client)
        script = [
            f"{program} write {FILE_MB}\n",
            guests.upload(situation.cluster().devices, files, "observe"),
        ]
        for rule in (*rules[turn:], *rules[:turn]):
            script += [
                _WAIT_FOR_START,
                _failure_commands(situation),
                _load_commands(situation, places, traces),
            ]
            script.append("clients=\n")
            for k in range(situation.clients):
                log, own = f"{places.cwd}/{rule}-{k}", seed + k * _NEXT_CLIENT
                command = _client(program, rule, situation, own, ms, log)
                script.append(f'{command} >{log}.json & clients="$clients $!"\n')
            script.append("for client in $clients $failing; do wait $client; done\nend_load\n")
        # A file, because with nine nodes it is too long for an argument.
        (folder / "run.sh").write_text("".join(script))
        guests.run_in_guest(
            ["sh", "-eu", f"{places.cwd}/run.sh"], places, folder / "run.txt",
            array=situation.cluster(), memory_mb=situation.memory_mb,
        )  # fmt: skip

    parameters = {**asdict(situation), "rules": rules, "recipe": code_version(*SOURCES)}
    folder = cache.get("cluster", parameters, make)
    return {
        rule: merge_clients([_read(folder / f"{rule}-{k}") for k in range(situation.clients)])
        for rule in rules
    }


def _read(log: Path) -> Measured:
    counted = json.loads(log.with_suffix(".json").read_text())
    return Measured(np.fromfile(log, READ), tuple(counted.pop("disk_reads")), counted)


def merge_clients(clients: Sequence[Measured]) -> Measured:
    """Merge the reads of several clients."""
    reads = np.concatenate([client.reads for client in clients])
    # Each client has counted all reads of the drives since it was ready. The last one to be ready
    # has counted the fewest of the others' reads that precede the measurement.
    disk_reads = np.min([client.disk_reads for client in clients], axis=0)
    counted = {name: sum(client.counted[name] for client in clients) for name in clients[0].counted}
    order = np.argsort(reads["due_ns"], kind="stable")
    return Measured(reads[order], tuple(map(int, disk_reads)), counted)
