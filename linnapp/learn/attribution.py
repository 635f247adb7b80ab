# SPDX-License-Identifier: MIT
"""Why a predictor said what it said: parts that add up to its output, and what would change it.

Both look at a predictor from outside, through numbers in and an integer out, so they hold for any
kind of model. Parts are Shapley values: with k numbers, all 2**k mixtures of the input and of a
reference are predicted, and a number's part is what it adds on average over every order in which
the numbers may be changed from the one to the other. In integers nothing is lost: the parts add up
to the difference of the two outputs exactly.

L. S. Shapley, "A value for n-person games", 1953; S. M. Lundberg and S.-I. Lee, "A unified approach
to interpreting model predictions", NeurIPS 2017.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from linnapp.errors import ModelError
from linnapp.learn.features import digits
from linnapp.model import Model
from linnapp.model.engine import Engine, infer
from linnapp.model.model_file import KERNEL_HIDDEN, LATENCY_DIGITS, PENDING_DIGITS
from linnapp.native import HISTORY

#: 2**15 mixtures: half a second for a network of 256 hidden units
MAX_NUMBERS = 15


class Predictor(Protocol):
    """What can be explained."""

    def margins(self, numbers: npt.NDArray[np.uint32]) -> list[int]:
        """By how much each row of `numbers`, shape (n, k), speaks for slow, in integers."""
        ...

    def slow(self, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Whether each row is predicted slow."""
        ...


class NetworkPredictor:
    """A network of decimal digits, seen through the numbers that the digits write.

    A row is, as in the feature vector, the pending pages of the past reads, oldest first, those
    pending now, and the past reads' latencies in us, oldest first.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        # The kernel's own code where it can run the model: it needs no memory to speak of.
        self._engine: Engine = "c" if model.n_hidden == KERNEL_HIDDEN else "numpy"

    @property
    def highest(self) -> list[int]:
        """The largest number of each column that the digits can write; more is as much."""
        return [10**PENDING_DIGITS - 1] * (HISTORY + 1) + [10**LATENCY_DIGITS - 1] * HISTORY

    def outputs(self, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
        """Both outputs for each row, fast and slow; shape (n, 2)."""
        vectors = digits(numbers[:, HISTORY], numbers[:, :HISTORY], numbers[:, HISTORY + 1 :])
        return infer(self._model, vectors, self._engine)

    def margins(self, numbers: npt.NDArray[np.uint32]) -> list[int]:
        """Slow output less fast output, as Python's integers."""
        outputs = self.outputs(numbers)
        return list((outputs[:, 1] - outputs[:, 0]).tolist())

    def slow(self, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Whether the slow output is the larger one."""
        outputs = self.outputs(numbers)
        return np.asarray(outputs[:, 1] > outputs[:, 0])


def attribute(
    predictor: Predictor, numbers: Sequence[int], reference: Sequence[int]
) -> list[Fraction]:
    """Divide the difference between two inputs' margins among their numbers.

    Parameters
    ----------
    predictor : Predictor
    numbers : sequence of int, length k
        The input to explain.
    reference : sequence of int, length k
        What it is held against.

    Returns
    -------
    list of Fraction, length k
        They add up to the margin of `numbers` less that of `reference`, exactly. A number that
        equals the reference's has no part.

    Raises
    ------
    ModelError
        If more than 15 numbers differ: 2**k mixtures would be too many.
    """
    parts = [Fraction(0)] * len(numbers)
    moved = [i for i, (x, r) in enumerate(zip(numbers, reference, strict=True)) if x != r]
    k = len(moved)
    if k > MAX_NUMBERS:
        raise ModelError(
            f"an input of {k} numbers has 2**{k} mixtures with its reference; up to "
            f"{MAX_NUMBERS} numbers can be explained"
        )
    if not k:
        return parts
    # Mixture m has the input's number where bit of m is set, else the reference's.
    mixture = np.arange(1 << k)
    rows = np.tile(np.asarray(reference, np.uint32), (1 << k, 1))
    for bit, i in enumerate(moved):
        rows[mixture >> bit & 1 == 1, i] = numbers[i]
    margin = predictor.margins(rows)
    # Of the k! orders, 1 / (k * C(k - 1, s)) have just the s numbers of a mixture changed when
    # this one's turn comes. Over a common denominator all is integers until the end.
    common = math.lcm(*(math.comb(k - 1, s) for s in range(k)))
    weight = [common // math.comb(k - 1, s) for s in range(k)]
    for bit, i in enumerate(moved):
        total = sum(
            weight[m.bit_count()] * (margin[m | 1 << bit] - margin[m])
            for m in range(1 << k)
            if not m >> bit & 1
        )
        parts[i] = Fraction(total, k * common)
    return parts


def whole(parts: Sequence[Fraction]) -> list[int]:
    """Round parts whose sum is an integer to integers with the same sum, each by less than one."""
    rounded = [math.floor(part) for part in parts]
    missing = sum(parts) - sum(rounded)
    assert missing.denominator == 1, "the parts do not add up to an integer"
    by_remainder = sorted(range(len(parts)), key=lambda i: rounded[i] - parts[i])
    for i in by_remainder[: int(missing)]:
        rounded[i] += 1
    return rounded


def smallest_changes(
    predictor: Predictor,
    numbers: Sequence[int],
    lowest: Sequence[int],
    highest: Sequence[int],
) -> list[int | None]:
    """For each number, the nearest other value that alone would turn the verdict.

    Every value from lowest to highest is tried, so none nearer exists. Of two as near, the lower.

    Parameters
    ----------
    predictor : Predictor
    numbers : sequence of int, length k
    lowest, highest : sequence of int, length k
        What each number could have been.

    Returns
    -------
    list of int or None, length k
        None where no value turns it.
    """
    x = np.asarray(numbers, np.uint32)
    verdict = bool(predictor.slow(x[np.newaxis])[0])
    return [
        _nearest(predictor, x, i, verdict, low, high)
        for i, (low, high) in enumerate(zip(lowest, highest, strict=True))
    ]


def _nearest(
    predictor: Predictor, x: npt.NDArray[np.uint32], i: int, verdict: bool, low: int, high: int
) -> int | None:
    """Search outwards from x[i], in rings that grow; most verdicts turn close by."""
    now = int(x[i])
    inner, outer = 0, 64
    while inner < max(now - low, high - now):
        values = np.array(
            [
                *range(now - inner - 1, max(low, now - outer) - 1, -1),
                *range(now + inner + 1, min(high, now + outer) + 1),
            ],
            np.int64,
        )
        rows = np.tile(x, (len(values), 1))
        rows[:, i] = values
        turned = values[predictor.slow(rows) != verdict]
        if len(turned):
            return int(turned[np.abs(turned - now).argmin()])
        inner, outer = outer, outer * 4
    return None
