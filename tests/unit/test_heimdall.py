# SPDX-License-Identifier: MIT
"""The policy `heimdall`: its training data, and the same computation in the replayer."""

from __future__ import annotations

import ctypes
import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replaying import N_DRIVES, REPLAYER, mixed_ios, replay, summary, write_trace

from eval import heimdall
from eval.heimdall import HISTORY, N_INPUTS, Network, Reads
from linnapp.trace import replay_log

READ, WRITE = replay_log.READ, replay_log.WRITE


def records(rows: list[tuple[int, int, int, int]]) -> np.ndarray[Any, Any]:
    """Make a log from rows of (start us, latency us, bytes, op)."""
    log = np.zeros(len(rows), replay_log.RECORD)
    for name, values in zip(
        ("due_ns", "latency_ns", "size_bytes", "op"), np.array(rows).T, strict=True
    ):
        log[name] = values * (1000 if name.endswith("ns") else 1)
    log["device_latency_us"] = log["latency_ns"] // 1000
    return log


def test_features_are_those_at_submission_of_a_read() -> None:
    reads = heimdall.reads_of(
        records(
            [
                (0, 100, 4096, READ), (10, 40, 8192, READ), (20, 500, 65536, WRITE),
                (60, 100, 4096, READ), (200, 1, 12288, READ), (170, 25, 4096, READ),
            ]
        )
    )  # fmt: skip
    # Reads are in order of submission. Writes in flight are counted with them, but not remembered.
    in_flight = [0, 1, 2, 1, 1]
    latency, throughput = [100, 40, 100, 25, 1], [40, 204, 40, 163, 12288]
    assert reads.latency_us.tolist() == latency and reads.bytes_per_us.tolist() == throughput
    assert reads.features[:, 0].tolist() == in_flight
    assert reads.features[:, -1].tolist() == [4096, 8192, 4096, 4096, 12288]
    # At 60 the read of 10 has ended, at 170 also those of 0 and 60, at 200 that of 170.
    ended = [(), (), (1,), (1, 0, 2), (0, 2, 3)]
    for row, last in zip(reads.features, ended, strict=True):
        for place, values in enumerate((in_flight, latency, throughput)):
            seen = [0] * (HISTORY - len(last)) + [values[i] for i in last]
            assert row[1 + place * HISTORY : 1 + (place + 1) * HISTORY].tolist() == seen


def test_a_period_ends_with_three_calm_reads_and_contradictions_are_noise() -> None:
    latency = np.full(30, 100)
    # A period with fast reads in it, and one read.
    latency[[5, 6, 9, 14]] = 1000
    # As slow as the others, but large, so its throughput is not low.
    latency[20] = 1000
    throughput = np.where(latency == 100, 40, 4)
    throughput[20] = 40
    period = heimdall.slow_periods(latency, throughput, 500, 10)
    assert np.flatnonzero(period).tolist() == [5, 6, 7, 8, 9, 14]
    assert period[5:10].tolist() == [1] * 5 and period[14] == 2
    # A period that continues at the end ends with its last slow read.
    assert heimdall.slow_periods(latency[:8], throughput[:8], 500, 10)[5:].tolist() == [1, 1, 0]
    found = heimdall.noise(period, latency, throughput, 500)
    assert np.flatnonzero(found).tolist() == [7, 8, 14, 20]


def bursts(n: int = 4000, seed: int = 1) -> Reads:
    """Return reads of which every 200 have 40 ten times as slow, with more in flight."""
    rng = np.random.default_rng(seed)
    slow = np.arange(n) % 200 >= 160
    latency = np.where(slow, rng.integers(900, 1100, n), rng.integers(80, 120, n))
    start = np.cumsum(rng.integers(200, 400, n))
    rows = list(zip(start, latency, np.full(n, 4096), np.full(n, READ), strict=True))
    return heimdall.reads_of(records([tuple(map(int, row)) for row in rows]))


def test_a_network_learns_the_periods_and_depends_only_on_the_seed(tmp_path: Path) -> None:
    reads = bursts()
    labels = heimdall.label(reads)
    assert np.array_equal(labels.slow, reads.latency_us > 500)
    assert not labels.noise.any() and 120 <= labels.chosen["latency_us"] <= 1100
    _network, record = heimdall.learn(reads, 1)
    test = record["test"]
    assert record["learnt"] and test["reads"] == 800
    # The first read of a burst is not predictable.
    assert test["true_slow"] >= 0.85 * (test["true_slow"] + test["false_submit"]) > 100
    assert test["false_revoke"] <= 0.05 * test["true_fast"]
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        heimdall.learn(reads, seed)[0].save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


def random_network(seed: int, span: int = 300) -> Network:
    rng = np.random.default_rng(seed)
    sizes = (N_INPUTS, *heimdall.HIDDEN, 1)
    low = rng.integers(0, 50, N_INPUTS)
    high = low + rng.integers(0, 2000, N_INPUTS)
    high[0] = low[0]
    return Network(
        low, high,
        [rng.integers(-span, span, shape) for shape in itertools.pairwise(sizes)],
        [rng.integers(-span, span, n) for n in sizes[1:]],
    )  # fmt: skip


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Build the replayer's arithmetic as a library."""
    source = REPLAYER.parents[2] / "replayer"
    library = tmp_path_factory.mktemp("engine") / "network.so"
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "-D_GNU_SOURCE", f"-I{source}", "-o", library,
         source / "policies/heimdall_network.c", source / "error.c"],
        check=True,
    )  # fmt: skip
    loaded = ctypes.CDLL(str(library))
    loaded.heimdall_network_read.restype = ctypes.c_void_p
    loaded.heimdall_network_logit.restype = ctypes.c_int64
    return loaded


# A thousand is the largest weight allowed in a file.
@pytest.mark.parametrize("span", [300, 20_000, heimdall.WEIGHT_MAX])
def test_replayer_computes_the_same_outputs(tmp_path: Path, engine: ctypes.CDLL, span: int) -> None:
    rng = np.random.default_rng(9)
    features = rng.integers(0, 2500, (500, N_INPUTS))
    features[0], features[1] = 0, 2**32 - 1
    logits = []
    for seed in range(3):
        network = random_network(seed, span)
        network.save(tmp_path / "n")
        read = ctypes.c_void_p(engine.heimdall_network_read(b"o", bytes(tmp_path / "n")))
        found = [
            engine.heimdall_network_logit(read, (ctypes.c_uint32 * N_INPUTS)(*row.tolist()))
            for row in features
        ]
        assert network.logit(features).tolist() == found
        logits += found
    assert min(logits) < 0 < max(logits)


def test_integer_network_agrees_with_the_trained_network() -> None:
    """Rounding weights to a thousandth changes the decision about few reads in a thousand."""
    from sklearn.neural_network import MLPClassifier

    reads = bursts()
    slow = reads.latency_us > 500
    networks_fitted: list[Any] = []
    fit = MLPClassifier.fit

    def keeping(self: Any, *arguments: Any) -> Any:
        networks_fitted.append((self, arguments[0]))
        return fit(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MLPClassifier, "fit", keeping)
        network = heimdall.fit(reads.features, slow, 1)
    ((trained, scaled),) = networks_fitted
    probable = trained.predict_proba(scaled)[:, 1] > heimdall.SLOW_FROM
    assert np.mean((network.logit(reads.features) > 0) == probable) > 0.998
    assert np.mean(probable == trained.predict(scaled)) < 0.998


def networks(folder: Path, seed: int = 1) -> str:
    paths = [folder / f"flash{k}.heimdall" for k in range(N_DRIVES)]
    for k, path in enumerate(paths):
        random_network(seed + k).save(path)
    return ",".join(map(str, paths))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "t", mixed_ios(3000, 1))


def test_a_baselines_log_trains_networks_that_the_replayer_takes(
    tmp_path: Path, drives: list[Path], trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replay(drives, [trace], "baseline", "--spread", "--log", str(tmp_path / "b.log"))
    heimdall.main([str(tmp_path / "b.log"), "-o", str(tmp_path / "nets")])
    lines = capsys.readouterr().out.splitlines()
    paths = [tmp_path / f"nets/flash{k}.heimdall" for k in range(N_DRIVES)]
    assert [line.split(": ")[0] for line in lines] == [str(path) for path in paths]
    training_records = [json.loads(path.with_suffix(".json").read_text()) for path in paths]
    n_reads = np.count_nonzero(replay_log.read(tmp_path / "b.log")["op"] == READ)
    assert sum(record["reads"] for record in training_records) == n_reads
    network_files = ",".join(map(str, paths))
    replay(drives, [trace], "heimdall", "--heimdall-network", network_files, "--spread",
           "--json", str(tmp_path / "o.json"))  # fmt: skip
    run = summary(tmp_path / "o.json")
    assert (run["data_errors"], run["io_errors"], run["extra_ios"]) == (0, 0, 0)
    assert run["reads"] == sum(run["reads_served_by"]) == n_reads
    assert run["config"]["heimdall_network"] == network_files.split(",")


def test_networks_of_few_reads_redirect_nothing(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    few = heimdall.reads_of(records([(i * 100, 50, 4096, READ) for i in range(100)]))
    network, record = heimdall.learn(few, 1)
    assert record == {"reads": 100, "learnt": False}
    for k in range(N_DRIVES):
        network.save(tmp_path / f"n{k}")
    replay(drives, [trace], "heimdall", "--spread", "--log", str(tmp_path / "o.log"),
           "--heimdall-network", ",".join(f"{tmp_path}/n{k}" for k in range(N_DRIVES)))  # fmt: skip
    log = replay_log.read(tmp_path / "o.log")
    assert np.array_equal(log["served_by"], log["home"])


def test_each_drive_needs_a_network_and_no_file_is_overwritten(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    result = replay(drives, [trace], "heimdall", status=1)
    assert "--heimdall-network: 0 networks for 3 drives" in result.stderr
    network_files = networks(tmp_path)
    first = network_files.split(",")[0]
    result = replay(drives, [trace], "heimdall", "--heimdall-network", first, status=1)
    assert "--heimdall-network: 1 networks for 3 drives; give one for each" in result.stderr
    result = replay(
        drives, [trace], "heimdall", "--heimdall-network", network_files, "--json", first, status=1
    )
    assert f"--json {first}: it is the --heimdall-network" in result.stderr


@pytest.mark.parametrize(
    ("row", "text", "problem"),
    [
        (0, "linnos heimdall network 2", "not a network of a known version"),
        (1, "9 8", "number 2 is 8, expected a whole number from 9 to 4294967295"),
        (12, None, "ends after 22 numbers"),
        (13, "nan", "number 35 is nan, expected a whole number from -1048576 to 1048576"),
        (10**6, "7", "more than the 3639 numbers of a network"),
    ],
)
def test_bad_networks_are_named_with_the_remedy(
    tmp_path: Path, drives: list[Path], trace: Path, row: int, text: str | None, problem: str
) -> None:
    network_files = networks(tmp_path)
    last = Path(network_files.split(",")[-1])
    lines = last.read_text().splitlines()
    if text is None:
        lines = lines[:row]
    elif row < len(lines):
        lines[row] = " ".join((text, *lines[row].split()[len(text.split()) :]))
    else:
        lines.append(text)
    last.write_text("\n".join(lines) + "\n")
    result = replay(drives, [trace], "heimdall", "--heimdall-network", network_files, status=1)
    assert f"--heimdall-network {last}: {problem}; `python -m eval.heimdall`" in result.stderr
    assert not any(drive.read_bytes().strip(b"\0") for drive in drives)
