# SPDX-License-Identifier: MIT
"""Choose the training bias that gives the array the lowest mean read latency.

For each candidate a network is trained, and its decisions on the validation slice are used to
compute the expected latency of the array: with A the mean latency of the reads that it admits times
their share, S the share that it revokes, c the cost of a failover and M the drive's mean latency,

    mean = A + S (c + A + S (c + ... M))

over the replicas, the last of which serves every read. The drive represents its replicas, as in
labelling with a single trace. A read in a synthetic burst that is revoked is assumed to have its
recorded latency on a replica without the burst.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from linnapp.learn.features.augmentation import BurstReads
from linnapp.learn.features.split import split
from linnapp.learn.judging.chance import FLAT, expected_mean_us
from linnapp.learn.network import training
from linnapp.learn.network.floats import outputs_of
from linnapp.learn.network.training import TrainingOptions

#: Spaced by a factor of 2, because the mean is flat around its minimum.
CANDIDATES = (0.5, 1.0, 2.0, 4.0, 8.0)

#: Limits on reads and epochs that are sufficient to compare candidates. The final training has
#: none.
SEARCH_READS = 100_000
SEARCH_EPOCHS = 12

#: Assumed share of reads in a burst. Drives are in a burst for a few percent of the time.
BURST_PREVALENCE = 0.05


@dataclasses.dataclass(frozen=True)
class BiasChoice:
    """The chosen bias, and the array's expected mean latency in us for each candidate."""

    bias: float
    expected_mean_us: dict[float, float]


def choose_bias(
    digits: npt.NDArray[np.uint8],
    slow: npt.NDArray[np.bool_],
    latency_us: npt.NDArray[np.uint32],
    options: TrainingOptions,
    *,
    failover_us: float,
    replicas: int,
    pages: npt.NDArray[np.uint16] | None = None,
    added: training.Examples | None = None,
    bursts: BurstReads | None = None,
    on_candidate: Callable[[float, float], None] | None = None,
) -> BiasChoice:
    """Train with each candidate and choose the bias with the lowest expected mean latency.

    Among candidates within 0.1 % of the best, the one closest to 1 is chosen. Synthetic bursts of
    the validation part have weight :data:`BURST_PREVALENCE`, and the result of
    :func:`~linnapp.learn.judging.chance.expected_mean_us` has the remaining weight.

    Parameters
    ----------
    digits : uint8 array, shape (n, n_inputs)
    slow : bool array, shape (n,)
    latency_us : uint32 array, shape (n,)
    options : TrainingOptions
        Its bias is not used.
    failover_us : float
        Cost of a failover.
    replicas : int
        Number of drives that hold each block.
    pages : uint16 array, shape (n,), optional
        Sizes, if latencies on replicas are those of the same size class.
    added : Examples, optional
        More examples to train on.
    bursts : BurstReads, optional
        Synthetic bursts of the validation part.
    on_candidate : callable, optional
        Called with each candidate and its mean latency in us.

    Returns
    -------
    BiasChoice

    Raises
    ------
    KeyboardInterrupt
        If a training is interrupted, because an incomplete search has no result.
    """
    step = -(-len(latency_us) // SEARCH_READS)
    digits, slow, latency_us = digits[::step], slow[::step], latency_us[::step]
    pages = None if pages is None else pages[::step]
    if added is not None:
        added = added.take(slice(None, None, step))
    judged = split(len(slow), options).validation
    means: dict[float, float] = {}
    for candidate in CANDIDATES:
        tried = dataclasses.replace(
            options,
            bias=candidate,
            max_epochs=min(options.max_epochs or SEARCH_EPOCHS, SEARCH_EPOCHS),
        )
        network = training.train(digits, slow, tried, added=added)
        if network.interrupted:
            raise KeyboardInterrupt  # An incomplete search has no result.
        outputs = outputs_of(network.weights, digits[judged])
        means[candidate] = expected_mean_us(
            latency_us[judged],
            outputs[:, 1] > outputs[:, 0],
            failover_us=failover_us,
            replicas=replicas,
            pages=None if pages is None else pages[judged],
        )
        if bursts is not None and len(bursts):
            outputs = outputs_of(network.weights, bursts.digits)
            refused = outputs[:, 1] > outputs[:, 0]
            burst_us = np.where(refused, failover_us + bursts.recorded_us, bursts.latency_us)
            means[candidate] += BURST_PREVALENCE * (float(burst_us.mean()) - means[candidate])
        if on_candidate is not None:
            on_candidate(candidate, means[candidate])
    best = min(means.values())
    good = [candidate for candidate, mean in means.items() if mean <= best * FLAT]
    return BiasChoice(min(good, key=lambda bias: abs(np.log(bias))), means)
