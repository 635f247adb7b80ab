# SPDX-License-Identifier: MIT
"""Trains the networks of the rival `heimdall`, from the per-I/O log of a baseline run.

    python -m eval.heimdall baseline.log -o networks

writes networks/flashK.heimdall for each drive, which `replayer --policy heimdall` takes, and
flashK.json with the training data's statistics and the accuracy on the last fifth of the reads.

It follows the paper's description (Kurniawan et al., "Heimdall: Optimizing Storage I/O Admission
with Extensive Machine Learning Pipeline", EuroSys 2025). The steps, with our decisions where the
paper leaves something open:

1. *Labels belong to periods, not to reads.* A slow period begins with a read that has a long
   latency and a low throughput, because a large read takes long even on a fast drive. It ends with
   the last such read before latencies are normal again. All reads in it are labelled slow.
2. *Noise is left out of the training data*: fast reads in slow periods, slow reads outside of
   them, and slow periods too short to be something that a drive does.
3. *Features*: I/Os in flight; for each of the last three completed reads, the I/Os in flight at its
   arrival, its latency and its throughput; the read's size. Each is scaled to its range.
4. *Network*: 128 and 16 hidden neurons with ReLU, a sigmoid, cross entropy, Adam. The output's bias
   contains the probability from which a read is predicted slow.
5. *Integers*: weights are multiplied by 1024 and rounded.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnapp.files import replaced_file
from linnapp.lab.work import write_json
from linnapp.trace import replay_log

#: The number of completed reads of a drive that are remembered.
HISTORY = 3
N_INPUTS = 2 + 3 * HISTORY
HIDDEN = (128, 16)

#: A period begins beyond one of these percentiles of latency and below one of throughput. The paper
#: searches both for the drive; here the pair is taken whose labels split the latencies best.
LATENCY_PERCENTS = (98, 95, 90, 85, 80, 70, 60)
THROUGHPUT_PERCENTS = (5, 10, 20, 40, 60)

#: A slow period ends when this many reads in a row are no slower than half of all, or have no
#: lower throughput: one such read could have been served from a buffer. Its last read is slow.
CALM_READS = 3

#: A period of fewer reads is noise, such as one read that was repeated inside the drive.
PERIOD_READS = 3

#: The share of the reads, in order of time, for training. The others are for validation.
LEARNT_SHARE = 0.8

#: The minimum numbers of reads and of slow reads for training.
LEAST_READS = 128
LEAST_SLOW = 16

#: A read is predicted slow from this probability on. The paper's is a half; with a quarter the mean
#: was lower in all three cells that were tried on a development seed.
SLOW_FROM = 0.25

WEIGHT_SCALE = 1 << 10
VALUE_BITS = 20
#: The same limits as in replayer/policies/heimdall_network.c.
WEIGHT_MAX = 1 << 20
HIDDEN_MAX = 1 << 34

SUFFIX = ".heimdall"
FIRST_LINE = "linnos heimdall network 1"

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Reads:
    """A drive's reads in the order of their submission."""

    #: int64 array, shape (n, N_INPUTS); what the policy sees of each.
    features: Int64
    #: `latency_us`, `bytes_per_us`: int64 array, shape (n,)
    latency_us: Int64
    bytes_per_us: Int64

    def __len__(self) -> int:
        return len(self.latency_us)


def reads_of(records: NDArray[Any]) -> Reads:
    """Return the features that the policy would have had for each read of a drive.

    `records` are the drive's I/Os in the log of a policy that sends each read to one drive.
    """
    start = (records["due_ns"] + records["lag_ns"]).astype(np.int64)
    # Sort I/Os of one moment by size and offset: the log has the order of completion, which was not
    # yet known at that moment.
    order = np.lexsort((records["op"], records["offset_bytes"], records["size_bytes"], start))
    records, start = records[order], start[order]
    end = start + records["latency_ns"].astype(np.int64)
    # Before an I/O: those submitted so far, as the policy counts them, less those that have ended.
    in_flight = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    read = records["op"] == replay_log.READ
    start, end, in_flight, records = start[read], end[read], in_flight[read], records[read]
    size = records["size_bytes"].astype(np.int64)
    latency_us = records["device_latency_us"].astype(np.int64)
    bytes_per_us = size // np.maximum(latency_us, 1)
    by_end = np.lexsort((in_flight, latency_us, size, end))
    answered = np.searchsorted(end[by_end], start, side="right")
    columns = [in_flight]
    for values in (in_flight, latency_us, bytes_per_us):
        # Before the first completion, remembered values are 0.
        remembered = np.concatenate((np.zeros(HISTORY, np.int64), values[by_end]))
        # The oldest first.
        columns += [remembered[answered + i] for i in range(HISTORY)]
    return Reads(np.stack([*columns, size], axis=1), latency_us, bytes_per_us)


def slow_periods(
    latency_us: Int64, bytes_per_us: Int64, long_us: float, low_bytes_per_us: float
) -> NDArray[np.intp]:
    """Number the slow period of each read, in the order of submission, from 1; 0 outside of one.

    A period is from a read that is beyond both limits to another, or to itself.
    """
    long = (latency_us > long_us) & (bytes_per_us < low_bytes_per_us)
    calm = _is_calm(latency_us, bytes_per_us)
    period = np.zeros(len(latency_us), np.intp)
    n, first, last, in_a_row = 0, -1, -1, 0
    for i, (is_long, is_calm) in enumerate(zip(long.tolist(), calm.tolist(), strict=True)):
        if is_long:
            if first < 0:
                n, first = n + 1, i
            last, in_a_row = i, 0
        elif first >= 0:
            in_a_row = in_a_row + 1 if is_calm else 0
        if in_a_row == CALM_READS:
            period[first : last + 1] = n
            first, in_a_row = -1, 0
    if first >= 0:
        period[first : last + 1] = n
    return period


def _is_calm(latency_us: Int64, bytes_per_us: Int64) -> Bools:
    """Return which reads are at least as good as the median in latency or in throughput."""
    calm: Bools = (latency_us <= np.median(latency_us)) | (bytes_per_us >= np.median(bytes_per_us))
    return calm


def noise(
    period: NDArray[np.intp], latency_us: Int64, bytes_per_us: Int64, long_us: float
) -> Bools:
    """Return the reads that are left out of the training data."""
    inside = period > 0
    fast_inside = inside & _is_calm(latency_us, bytes_per_us)
    slow_outside = ~inside & (latency_us > long_us)
    short = np.bincount(period)[period] < PERIOD_READS
    found: Bools = fast_inside | slow_outside | (inside & short)
    return found


def _split(latency_us: Int64, slow: Bools) -> float:
    """Return the share of the log-latencies' variance that slow and other reads explain."""
    logs = np.log(np.maximum(latency_us, 1))
    share = float(slow.mean())
    if not 0 < share < 1 or not logs.var():
        return 0.0
    apart = float(logs[slow].mean() - logs[~slow].mean())
    return share * (1 - share) * apart**2 / float(logs.var())


@dataclass(frozen=True)
class Labels:
    """The labels of a drive's reads."""

    #: `slow`, `noise`: bool array, shape (n,)
    slow: Bools
    noise: Bools
    #: The percentiles, and their values for this drive.
    chosen: dict[str, float]


def label(reads: Reads) -> Labels:
    """Find the periods that split the latencies best."""
    latency_us, bytes_per_us = reads.latency_us, reads.bytes_per_us
    best, found = -1.0, None
    for long_percent in LATENCY_PERCENTS:
        for low_percent in THROUGHPUT_PERCENTS:
            long_us = float(np.percentile(latency_us, long_percent))
            low = float(np.percentile(bytes_per_us, low_percent))
            period = slow_periods(latency_us, bytes_per_us, long_us, low)
            split = _split(latency_us, period > 0)
            if split > best:
                chosen = {
                    "latency_percent": long_percent, "latency_us": long_us,
                    "throughput_percent": low_percent, "bytes_per_us": low,
                }  # fmt: skip
                left_out = noise(period, latency_us, bytes_per_us, long_us)
                best, found = split, Labels(period > 0, left_out, chosen)
    assert found is not None
    return found


@dataclass(frozen=True)
class Network:
    """A network of integers."""

    #: `low`, `high`: int64 array, shape (N_INPUTS,); each feature's range.
    low: Int64
    high: Int64
    #: list of int64 array, shapes (inputs, neurons); each layer's weights times ``WEIGHT_SCALE``.
    weights: list[Int64]
    #: list of int64 array, shapes (neurons,)
    biases: list[Int64]

    def logit(self, features: Int64) -> Int64:
        """Return the output as the replayer computes it, positive for "slow"; shape (n,)."""
        above = np.maximum(features - self.low, 0)
        inside = (above << VALUE_BITS) // np.maximum(self.high - self.low, 1)
        values = np.minimum(inside, 1 << VALUE_BITS)
        for last, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True), 1):
            total = values @ weights + (biases << VALUE_BITS)
            if last == len(self.weights):
                break
            values = np.minimum(np.maximum(total, 0) // WEIGHT_SCALE, HIDDEN_MAX)
        logit: Int64 = total[:, 0]
        return logit

    def save(self, path: Path) -> None:
        """Write the file that the replayer reads."""
        rows = [FIRST_LINE]
        rows += [f"{low} {high}" for low, high in zip(self.low, self.high, strict=True)]
        for weights, biases in zip(self.weights, self.biases, strict=True):
            for bias, of_neuron in zip(biases, weights.T, strict=True):
                rows.append(" ".join(str(number) for number in (bias, *of_neuron)))
        with replaced_file(path) as stream:
            stream.write(("\n".join(rows) + "\n").encode())


def fit(features: Int64, slow: Bools, seed: int) -> Network:
    """Train a network and convert it to integers.

    Parameters
    ----------
    seed : int
        Seed of the initial weights, of the order of the reads, and of those that decide when to
        stop.
    """
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits

    low, high = features.min(axis=0), features.max(axis=0)
    scaled = (features - low) / np.maximum(high - low, 1)
    # The last bits of a sum depend on how many threads share it.
    with threadpool_limits(1):
        network = MLPClassifier(
            HIDDEN, activation="relu", solver="adam", learning_rate_init=1e-3, batch_size=256,
            max_iter=100, early_stopping=True, n_iter_no_change=10, random_state=seed,
        ).fit(scaled, slow)  # fmt: skip

    def whole(array: NDArray[np.float64]) -> Int64:
        return np.clip(np.rint(array * WEIGHT_SCALE), -WEIGHT_MAX, WEIGHT_MAX).astype(np.int64)

    *hidden, output = network.intercepts_
    biases = [*hidden, output + np.log((1 - SLOW_FROM) / SLOW_FROM)]
    return Network(low, high, [*map(whole, network.coefs_)], [*map(whole, biases)])


def never_slow() -> Network:
    """Return the network of a drive without slow periods: it predicts no slow read."""
    sizes = (N_INPUTS, *HIDDEN, 1)
    weights = [np.zeros(shape, np.int64) for shape in itertools.pairwise(sizes)]
    biases = [np.zeros(n, np.int64) for n in sizes[1:]]
    biases[-1] -= WEIGHT_SCALE
    nothing = np.zeros(N_INPUTS, np.int64)
    return Network(nothing, nothing, weights, biases)


def learn(reads: Reads, seed: int) -> tuple[Network, dict[str, Any]]:
    """Return a drive's network, and the record of its training."""
    if len(reads) < LEAST_READS:
        return never_slow(), {"reads": len(reads), "learnt": False}
    labels = label(reads)
    n_learnt = int(LEARNT_SHARE * len(reads))
    rows = np.flatnonzero(~labels.noise[:n_learnt])
    slow = labels.slow[rows]
    enough = LEAST_SLOW <= np.count_nonzero(slow) <= len(rows) - LEAST_SLOW
    features = reads.features[rows]
    network = fit(features, slow, seed) if enough else never_slow()
    predicted, truth = network.logit(reads.features[n_learnt:]) > 0, labels.slow[n_learnt:]
    return network, {
        "reads": len(reads),
        "training_reads": len(rows),
        "noise": int(labels.noise.sum()),
        "slow": int(labels.slow.sum()),
        "thresholds": labels.chosen,
        "learnt": bool(enough),
        "test": {
            "reads": len(truth),
            "true_slow": int((truth & predicted).sum()),
            "false_submit": int((truth & ~predicted).sum()),
            "false_revoke": int((~truth & predicted).sum()),
            "true_fast": int((~truth & ~predicted).sum()),
        },
    }  # fmt: skip


def train(served: Sequence[NDArray[Any]], folder: Path, seed: int) -> list[Path]:
    """Train a network for each drive of a baseline run, from the I/Os that it served.

    Writes flashK.heimdall and flashK.json into the folder, and returns the paths of the former.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for drive, records in enumerate(served):
        network, record = learn(reads_of(records), seed)
        path = folder / f"flash{drive}{SUFFIX}"
        network.save(path)
        write_json(path.with_suffix(".json"), {"seed": seed, **record})
        paths.append(path)
    return paths


def main(argv: Sequence[str] | None = None) -> None:
    # This module is imported by eval.cells.
    from eval.cells import N_DRIVES, ios_of_drive

    parser = argparse.ArgumentParser(prog="python -m eval.heimdall", description=__doc__)
    parser.add_argument("log", type=Path, help="the --log of a run with --policy baseline")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the folder for the networks")
    parser.add_argument("--drives", type=int, default=N_DRIVES, help=f"how many ({N_DRIVES})")
    parser.add_argument("--seed", type=int, default=1, help="of the training (1)")
    parser.add_argument("--replicate-writes", action="store_true", help="the run had that option")
    options = parser.parse_args(argv)
    try:
        records = replay_log.read(options.log)
        served = [
            ios_of_drive(records, drive, replicate_writes=options.replicate_writes)
            for drive in range(options.drives)
        ]
        paths = train(served, options.out, options.seed)
    except (ValueError, OSError) as error:
        sys.exit(f"python -m eval.heimdall: {error}")
    for path in paths:
        print(f"{path}: {json.loads(path.with_suffix('.json').read_text())}")


if __name__ == "__main__":
    main()
