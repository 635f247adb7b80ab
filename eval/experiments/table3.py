# SPDX-License-Identifier: MIT
"""Accuracy and inference time of the paper's models A to E and of its network.

Each model is trained on the first part of a recording. The second part chooses the epoch. The
results are those of the last part, which has decided nothing. The bias is not searched; it is 1 for
all models.
"""

from __future__ import annotations

import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval import grid, workers
from eval.cache import ROOT
from eval.cells import N_DRIVES, Cell, recorded
from eval.experiment import Context
from eval.study import Study, load_study_texts
from linnapp.learn.examples import load_reads, split
from linnapp.learn.judge import Confusion
from linnapp.learn.labels import LatencyDistribution, find_inflection_points
from linnapp.learn.network import batch_size, batches, hinge, import_tensorflow, outputs_now
from linnapp.learn.options import LOSSES, TrainingOptions
from linnapp.trace.reads import load


@dataclass(frozen=True)
class Shape:
    """A model: the number of past reads that it sees, its hidden layers, and its use of offsets."""

    history: int
    hidden: tuple[int, ...]
    offsets: bool = False

    @property
    def n_inputs(self) -> int:
        """The number of digits: 3 for each pending count, 4 for a latency, more for an offset."""
        digits = (self.history + 1) * 3 + self.history * 4
        return digits + (self.history + 1) * OFFSET_DIGITS * self.offsets

    @property
    def text(self) -> str:
        """The layers, as 31-256-2."""
        return "-".join(str(n) for n in (self.n_inputs, *self.hidden, 2))


#: Digits of a byte offset within 16 GiB.
OFFSET_DIGITS = 11

#: The models of the paper's section 5.5. It says that E has 2048 features with block offsets and
#: five layers; 113 past reads with offsets of 11 digits are 2048, which may be the explanation.
LINNOS = "LinnOS"
MODELS = {
    LINNOS: Shape(4, (256,)),
    "A": Shape(2, (128,)),
    "B": Shape(3, (256,)),
    "C": Shape(4, (256, 256)),
    "D": Shape(10, (256, 512, 256)),
    "E": Shape(113, (512,) * 5, offsets=True),
}

#: The workloads of each model. The largest model takes minutes to train.
WORKLOADS_OF = {**dict.fromkeys(MODELS, ("az-e", "bs-e")), "E": ("az-e",)}
DRIVE = 0

#: The largest reads of the first two size classes.
ORDERS_OF_SIZE = (64 << 10, 1 << 20)

MAX_EPOCHS, PATIENCE_EPOCHS = 20, 5

#: The number of timed inferences of each model, and how often they are repeated.
INFERENCES = {LINNOS: 20_000, "A": 20_000, "B": 20_000, "C": 5_000, "D": 1_000, "E": 100}
REPEATS = 7


def train_shape(name: str, cell: Cell, folder: Path) -> dict[str, Any]:
    """Train a model on a drive of a recording, and judge it on reads that decided nothing."""
    shape = MODELS[name]
    blks = [folder / "record" / f"flash{k}.blk" for k in range(N_DRIVES)]
    others_us = [load_reads(blk).latency_us for k, blk in enumerate(blks) if k != DRIVE]
    digits, latency_us = features(blks[DRIVE], shape)
    options = TrainingOptions(seed=cell.seed)
    parts = split(len(latency_us), options)
    (point, *_) = find_inflection_points(
        [
            LatencyDistribution(us[split(len(us), options).training])
            for us in (latency_us, *others_us)
        ]
    )
    slow = latency_us > point.threshold_us
    predicted, epochs = _fit(shape, digits, slow, parts, cell.seed)
    return {**Confusion.of(slow[parts.test], predicted).to_json(), "epochs": epochs}


def features(blk: Path, shape: Shape) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Return the digits that a model sees of each read, and the latencies of the reads.

    The digits are those of the past reads and, if the model has them, of the offsets.
    """
    table = load(blk)
    served = table.take(table.is_served_read)
    names = ("arrival_ns", "latency_ns", "size_bytes", "pending", "sector")
    arrival, latency, size, pending, sector = (
        getattr(served, name).astype(np.int64) for name in names
    )
    end, offset, latency_us = arrival + latency, 512 * sector, latency // 1000
    # Before the first reads there are none: zeros, as in the kernel.
    past = _last_completed(arrival, end, size, shape.history)
    both = np.concatenate((past, np.arange(len(arrival))[:, None]), axis=1)
    columns = [_digits(np.append(pending, 0)[both], 3)]
    if shape.offsets:
        columns.append(_digits(np.append(offset, 0)[both], OFFSET_DIGITS))
    columns.append(_digits(np.append(latency_us, 0)[past], 4))
    return np.concatenate(columns, axis=1), latency_us.astype(np.uint32)


def _last_completed(
    arrival: NDArray[np.int64], end: NDArray[np.int64], size: NDArray[np.int64], history: int
) -> NDArray[np.int64]:
    """Return the rows of the last reads that each read sees, oldest first.

    The number after the last row stands for a missing read. The kernel sees the last four reads
    whose size class is not larger (docs/formats.md).
    """
    order = np.searchsorted(ORDERS_OF_SIZE, size)
    by_end = np.argsort(end, kind="stable")
    found = np.empty((len(arrival), history), np.int64)
    for largest in range(len(ORDERS_OF_SIZE) + 1):
        asking = np.flatnonzero(order == largest)
        seen = by_end[order[by_end] <= largest]
        n_done = np.searchsorted(end[seen], arrival[asking], side="right")
        padded = np.concatenate([np.full(history, len(arrival)), seen])
        found[asking] = padded[n_done[:, None] + np.arange(history)]
    return found


def _digits(values: NDArray[np.int64], n: int) -> NDArray[np.uint8]:
    """Return the `n` digits of each number, most significant first, in the shape (rows, -1).

    Larger numbers are capped at the largest number of `n` digits.
    """
    capped = np.minimum(values, 10**n - 1)
    powers = 10 ** np.arange(n - 1, -1, -1)
    digits: NDArray[np.uint8] = ((capped[:, :, None] // powers) % 10).astype(np.uint8)
    return digits.reshape(len(values), -1)


def _fit(
    shape: Shape, digits: NDArray[np.uint8], slow: NDArray[np.bool_], parts: Any, seed: int
) -> tuple[NDArray[np.bool_], int]:
    """Train a network; return its predictions for the last part, and the number of epochs.

    The weights are those of the epoch that is best on the second part.
    """
    tf = import_tensorflow()
    keras = tf.keras
    seeds = iter(np.random.default_rng([seed, 1]).integers(2**31, size=len(shape.hidden) + 1))

    def glorot(scale: float) -> Any:
        return keras.initializers.VarianceScaling(scale, "fan_avg", "uniform", int(next(seeds)))

    layers = [keras.Input((digits.shape[1],))]
    for i, size in enumerate(shape.hidden):
        # Digits average 4.5, not 0: as in linnapp.learn.network.
        layers.append(
            keras.layers.Dense(size, "relu", kernel_initializer=glorot(1.0 if i else 1 / 4.5**2))
        )
    layers.append(keras.layers.Dense(2, kernel_initializer=glorot(1.0)))
    network = keras.Sequential(layers)
    network.compile(
        keras.optimizers.Adam(1e-3),
        lambda y, out: hinge(tf, y, out, 1.0, LOSSES[0]),
        jit_compile=False,
    )
    seen, chooses = parts.training, parts.validation
    choosing = (digits[chooses].astype(np.float32), slow[chooses].astype(np.float32))
    history = network.fit(
        batches(digits[seen], slow[seen], batch_size(seen.stop), seed),
        epochs=MAX_EPOCHS,
        shuffle=False,
        verbose=0,
        validation_data=choosing,
        validation_batch_size=4096,
        callbacks=[
            keras.callbacks.EarlyStopping(
                "val_loss", patience=PATIENCE_EPOCHS, restore_best_weights=True
            )
        ],
    )
    outputs = outputs_now(network, digits[parts.test])
    return outputs[:, 1] > outputs[:, 0], len(history.history["loss"])


def inference_ns(folder: Path) -> dict[str, float]:
    """Measure the time of one inference of each model, in ns, in plain C on this machine."""
    program = folder / "inference_time"
    source = ROOT / "eval" / "inference_time.c"
    subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    times = {}
    for model, shape in MODELS.items():
        command = [
            str(program), str(INFERENCES[model]), str(REPEATS),
            str(shape.n_inputs), *(str(n) for n in shape.hidden),
        ]  # fmt: skip
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        times[model] = float(output)
    return times


def _inference_times(context: Context) -> dict[str, float]:
    shapes = {name: asdict(shape) for name, shape in MODELS.items()}
    times: dict[str, float] = context.cache.value("inference", {"models": shapes}, inference_ns)
    return times


def prepare(context: Context, *, workload: str, seed: int) -> None:
    """Time the inference first, while the other threads wait for it and the CPUs are idle."""
    _inference_times(context)
    recorded(context.cache, grid.cell(workload, seed))


def measure(context: Context, *, workload: str, policy: str, seed: int) -> list[dict[str, Any]]:
    """Train a model on a drive of a workload, unless it is not trained on this workload."""
    if workload not in WORKLOADS_OF[policy]:
        return []
    cell = grid.cell(workload, seed)
    row = workers.call(train_shape, policy, cell, recorded(context.cache, cell))
    return [{**row, "time_ns": _inference_times(context)[policy]}]


EXPERIMENT = Study(
    **load_study_texts("table3"),
    factors={"workload": WORKLOADS_OF[LINNOS]},
    groups=((), ("workload",)),
    policies=tuple(MODELS),
    cell=measure,
    prepare=prepare,
    reference=LINNOS,
    sources=("eval/inference_time.c",),
)
