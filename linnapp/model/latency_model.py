# SPDX-License-Identifier: MIT
"""The latency model, which predicts how long a read takes (``.linnos`` version 2, docs/formats.md).

It consists of boosted trees over integers that are available in a kernel. All trees are complete,
so a prediction takes the same four steps in each tree. The leaves are fixed-point logarithms, and
their sum is the logarithm of the expected latency.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import ModelError
from linnapp.model import envelope
from linnapp.model.envelope import HEADER_BYTES, REMEDY
from linnapp.native import HISTORY, N_FEATURES_MIN

VERSION = envelope.LATENCY

#: Maximum of every feature: 16.8 s in us, which a drive that is in use does not reach.
CAP = 2**24 - 1

#: Features of the read and the drive. The features `PAST` of each of the last reads follow, the
#: most recent read first.
NOW = (
    "pages",
    "read_pages",
    "write_pages",
    "reads_in_flight",
    "oldest_us",
    "overdue",
)
PAST = ("latency_us", "pending", "pages", "age_us")

#: A feature of the read and the drive that was added later and therefore follows the older ones.
LATER = ("in_region",)

#: All features in order. `latency_us_1` is the latency of the read that completed last.
FEATURES = NOW + tuple(f"{name}_{ago}" for ago in range(1, HISTORY + 1) for name in PAST) + LATER
N_FEATURES = len(FEATURES)

#: Columns that hold the latencies of the last reads.
LATENCIES = tuple(FEATURES.index(f"latency_us_{ago}") for ago in range(1, HISTORY + 1))

#: Column that depends on the location of a read.
PLACE = FEATURES.index("in_region")

#: Number of splits from the root of a tree to each of its leaves.
DEPTH = 4
N_SPLITS, N_LEAVES = (1 << DEPTH) - 1, 1 << DEPTH
MAX_TREES = 256

#: A file with fewer trees is rejected: so few do not distinguish the reads of a drive. Models in
#: memory may have fewer, while they are trained.
MIN_TREES = 16

#: Leaves and `base` are log2 of us with this number of fractional bits.
FRACTION_BITS = 10

#: Leaves have 16 bits, and `base` has the same range.
LEAF_LIMIT = 1 << 15

#: Fields after the checksum.
_FIELDS = envelope.HeaderFields(
    n_features="H", n_trees="H", depth="B", history="B", fraction_bits="B", reserved="B",
    overdue_us="I", refuse_us="I", threshold_us="I", base="i",
)  # fmt: skip

#: Values that the engine is compiled for, and their descriptions.
_KNOWN = {
    "depth": (DEPTH, "splits to a leaf"),
    "history": (HISTORY, "past reads"),
    "fraction_bits": (FRACTION_BITS, "bits behind the point"),
}

#: Value of `refuse_us` that refuses no read, because no prediction is higher.
NEVER = 2**32 - 1

#: Threshold of a split that sends every read to the left.
NO_SPLIT = CAP


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LatencyModel(envelope.Identified):
    """Boosted trees. Without trees, the prediction is the mean latency of the last reads.

    Attributes
    ----------
    splits : uint32 array, shape (n_trees, 15)
        Level by level: the column of the feature times 2**24, plus a threshold. A read whose
        feature exceeds the threshold goes to the right.
    leaves : int16 array, shape (n_trees, 16)
        From left to right, fixed point with `FRACTION_BITS` fractional bits.
    base : int
        Constant to which the leaves are added, in the same fixed-point format.
    threshold_us : int
        The inflection point: a read that takes longer is slow.
    refuse_us : int
        Limit of the fast/slow classification: a read with a longer predicted latency is refused.
    overdue_us : int
        A read that has been in flight for longer is overdue. The prediction is at least the age of
        the oldest read in flight minus this time.
    n_features : int
        Number of features that the model uses, counted from the first column.

    Raises
    ------
    ModelError
        If the arrays or the fields are not valid.
    """

    splits: npt.NDArray[np.uint32]
    leaves: npt.NDArray[np.int16]
    base: int
    threshold_us: int
    refuse_us: int
    overdue_us: int
    n_features: int = N_FEATURES

    def __post_init__(self) -> None:
        for name, dtype in (("splits", np.uint32), ("leaves", np.int16)):
            array = np.ascontiguousarray(getattr(self, name))
            if array.ndim != 2:
                raise ModelError(f"model: {name} has shape {array.shape}, expected two dimensions")
            info = np.iinfo(dtype)
            if array.dtype.kind not in "iu" or (
                array.size and (int(array.min()) < info.min or int(array.max()) > info.max)
            ):
                raise ModelError(f"model: {name} must be integers of {np.dtype(dtype)}")
            object.__setattr__(self, name, array.astype(dtype))
        self.check()

    @classmethod
    def mean_of_last(cls, threshold_us: int, refuse_us: int, overdue_us: int) -> LatencyModel:
        """Return the model without trees, which predicts the mean latency of the last reads."""
        none = np.empty((0, N_SPLITS), np.uint32), np.empty((0, N_LEAVES), np.int16)
        return cls(*none, 0, threshold_us, refuse_us, overdue_us)

    def without_trees(self) -> LatencyModel:
        """Return a copy of this model without trees."""
        return dataclasses.replace(self, splits=self.splits[:0], leaves=self.leaves[:0], base=0)

    def times(self, other: LatencyModel) -> LatencyModel:
        """Return a model that predicts the product of the two models' predictions.

        All other fields are those of `self`, except `n_features`, which is the larger one.
        """
        leaves: npt.NDArray[Any] = np.concatenate((self.leaves, other.leaves)).astype(np.int32)
        base = max(-LEAF_LIMIT, min(self.base + other.base, LEAF_LIMIT - 1))
        if len(leaves):
            # Each read reaches one leaf in every tree, so the leaves share the excess over the
            # base's limit.
            each, rest = divmod(self.base + other.base - base, len(leaves))
            leaves += each
            leaves[:rest] += 1
        return dataclasses.replace(
            self,
            splits=np.concatenate((self.splits, other.splits)),
            leaves=leaves,
            base=base,
            n_features=max(self.n_features, other.n_features),
        )

    @property
    def refuses(self) -> bool:
        """True if the model can classify a read as slow. Otherwise it only predicts latencies."""
        return self.refuse_us < NEVER

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.leaves)

    def __repr__(self) -> str:
        refuses = f"refuses above {self.refuse_us} us" if self.refuses else "refuses nothing"
        return f"<LatencyModel {self.model_id}: {self.n_trees} trees, {refuses}>"

    def check(self) -> None:
        """Check what the C engine checks. Raise ModelError if it would reject the model."""
        expected = (self.n_trees, N_SPLITS), (self.n_trees, N_LEAVES)
        if (self.splits.shape, self.leaves.shape) != expected:
            raise ModelError(
                f"model: splits have shape {self.splits.shape}, leaves {self.leaves.shape}; "
                f"expected (n, {N_SPLITS}) and (n, {N_LEAVES})"
            )
        envelope.check_ranges(
            ("n_trees", self.n_trees, 0, MAX_TREES),
            ("base", self.base, -LEAF_LIMIT, LEAF_LIMIT - 1),
            ("threshold_us", self.threshold_us, 1, 2**32 - 1),
            ("refuse_us", self.refuse_us, 1, 2**32 - 1),
            ("overdue_us", self.overdue_us, 1, CAP),
            ("n_features", self.n_features, N_FEATURES_MIN, N_FEATURES),
        )
        if self.splits.size and int(self.splits.max()) >> 24 >= self.n_features:
            raise ModelError(
                f"model: a split by feature {int(self.splits.max()) >> 24}; "
                f"there are 0 to {self.n_features - 1}"
            )

    def to_bytes(self) -> bytes:
        """See :meth:`~linnapp.model.envelope.Identified.to_bytes`."""
        body = self.splits.astype("<u4").tobytes() + self.leaves.astype("<i2").tobytes()
        envelope.check_ranges(("n_trees", self.n_trees, MIN_TREES, MAX_TREES))
        return _FIELDS.sealed(self, _KNOWN, VERSION, body)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "model") -> LatencyModel:
        """See :meth:`~linnapp.model.envelope.Identified.from_bytes`."""
        envelope.check(data, VERSION, name)
        found = _FIELDS.read(data, _KNOWN, name)
        n_features, n_trees = found["n_features"], found["n_trees"]
        if not N_FEATURES_MIN <= n_features <= N_FEATURES:
            raise ModelError(
                f"{name}: {n_features} features, only {N_FEATURES_MIN} to {N_FEATURES} are known"
                + REMEDY
            )
        if not MIN_TREES <= n_trees <= MAX_TREES:
            raise ModelError(
                f"{name}: n_trees is {n_trees}, expected {MIN_TREES} to {MAX_TREES}" + REMEDY
            )
        n_splits, n_leaves = n_trees * N_SPLITS, n_trees * N_LEAVES
        expected = HEADER_BYTES + 4 * n_splits + 2 * n_leaves
        if expected != len(data):
            raise ModelError(
                f"{name}: {n_trees} trees need {expected} bytes, the file has {len(data)}" + REMEDY
            )
        splits = np.frombuffer(data, "<u4", n_splits, HEADER_BYTES)
        leaves = np.frombuffer(data, "<i2", n_leaves, HEADER_BYTES + 4 * n_splits)
        try:
            return cls(
                splits.reshape(n_trees, N_SPLITS),
                leaves.reshape(n_trees, N_LEAVES),
                found["base"],
                found["threshold_us"],
                found["refuse_us"],
                found["overdue_us"],
                n_features,
            )
        except ModelError as error:
            raise ModelError(f"{name}: {error}") from error
