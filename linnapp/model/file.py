# SPDX-License-Identifier: MIT
"""The two kinds of models, and their files (``.linnos``, docs/formats.md).

:class:`Model` predicts whether a read will be slow. It is the network of Hao et al. (OSDI 2020) in
fixed point: 31 inputs, 256 hidden units with ReLU, and 2 outputs. Its files have version 1.

:class:`LatencyModel` predicts the latency of a read. It consists of boosted trees over integers
that are available in a kernel. All trees are complete, so a prediction takes the same four steps in
each tree. The leaves are fixed-point logarithms, and their sum is the logarithm of the expected
latency. Its files have version 2.

Both kinds of files also contain the drive's inflection point, and begin with the same header and
checksum. This module makes the same checks as the kernel: the kernel accepts every model that this
module loads, provided that it is compiled for the model's shape.
"""

from __future__ import annotations

import abc
import dataclasses
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from linnapp.errors import ModelError
from linnapp.files import AnyPath, explain_os_error, replaced_file
from linnapp.native import HISTORY, N_FEATURES_MIN

MAGIC = b"LINNOSMD"
HEADER_BYTES = 64
SUFFIX = ".linnos"
#: If a drive has models of both kinds in a directory, the latency model's file ends in this.
LATENCY_SUFFIX = f".latency{SUFFIX}"

#: Format versions of the kinds of models.
NETWORK, LATENCY = 1, 2
KINDS = {NETWORK: "network", LATENCY: "latency model"}

_BEGIN = struct.Struct("<8sIII")

#: Offset of the CRC-32. It covers the whole file, with this field set to zero.
_CRC_OFFSET = 16

#: Maximum number of bytes that are read, which is more than any valid model file has.
_MAX_FILE_BYTES = 64 << 20

REMEDY = "; make it again with `linnapp train` or `linnapp pack`"


class Identified(abc.ABC):
    """Base class of all models. Two models are equal if their files have the same checksum."""

    @abc.abstractmethod
    def to_bytes(self) -> bytes:
        """Serialise the model, with its checksum, as the kernel's ``model`` file accepts it."""

    @classmethod
    @abc.abstractmethod
    def from_bytes(cls, data: bytes, name: str = "model") -> Self:
        """Parse the content of a model file.

        Parameters
        ----------
        data : bytes
        name : str
            The name that error messages use.

        Raises
        ------
        ModelError
            If it is not a valid model of this kind.
        """

    @classmethod
    def load(cls, path: AnyPath) -> Self:
        """Read a model file. See :meth:`from_bytes` for the errors."""
        return cls.from_bytes(read_file(path), str(path))

    @property
    def model_id(self) -> str:
        """CRC-32 of the file as 8 hexadecimal digits, as the kernel prints it."""
        return f"{struct.unpack_from('<I', self.to_bytes(), _CRC_OFFSET)[0]:08x}"

    def save(self, path: AnyPath) -> None:
        """Write the model to a temporary file next to `path`, then rename it to `path`."""
        with replaced_file(path) as stream:
            stream.write(self.to_bytes())

    def __eq__(self, other: object) -> bool:
        return self.model_id == other.model_id if isinstance(other, Identified) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.model_id)


def read_file(path: AnyPath) -> bytes:
    """Read the bytes of a model file. Raise ModelError if the file cannot be read."""
    path = Path(path)
    try:
        with path.open("rb") as stream:
            return stream.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise ModelError(str(explain_os_error(error, path))) from error


def version_of(data: bytes, name: str) -> int:
    """Return the format version of a model file. The fields after it are not checked."""
    if len(data) < HEADER_BYTES:
        raise ModelError(
            f"{name}: {len(data)} bytes, shorter than a model's header of {HEADER_BYTES}" + REMEDY
        )
    magic, number, _, _ = _BEGIN.unpack_from(data)
    if magic != MAGIC:
        raise ModelError(f"{name}: not a LinnOS model (it starts with {magic!r})" + REMEDY)
    if number not in KINDS:
        known = " and ".join(f"{n} ({kind})" for n, kind in KINDS.items())
        raise ModelError(f"{name}: model format version {number}, only {known} are known" + REMEDY)
    return int(number)


def check_header(data: bytes, wanted: int, name: str) -> None:
    """Check the magic, version, size and checksum, which precede the fields of a kind."""
    number = version_of(data, name)
    if number != wanted:
        raise ModelError(
            f"{name}: model format version {number}, a {KINDS[number]}; "
            f"expected a {KINDS[wanted]}, version {wanted}"
        )
    _, _, total_bytes, crc32 = _BEGIN.unpack_from(data)
    if total_bytes != len(data):
        raise ModelError(
            f"{name}: truncated or padded: {len(data)} bytes, the header says {total_bytes}"
            + REMEDY
        )
    found = _checksum(data)
    if found != crc32:
        raise ModelError(
            f"{name}: corrupt: checksum {found:08x}, the header says {crc32:08x}" + REMEDY
        )


#: Fields that must have a fixed value: the value, and a description of the field.
Known = Mapping[str, tuple[int, str]]


class HeaderFields:
    """The header fields of one kind, after the checksum, in formats of :mod:`struct`."""

    def __init__(self, **fields: str) -> None:
        self._names = tuple(fields)
        self._struct = struct.Struct("<" + "".join(fields.values()))

    def read(self, data: bytes, known: Known, name: str) -> dict[str, int]:
        """Return the fields of a file by name.

        The rest of the header, and fields whose name begins with ``reserved``, must be zero.

        Raises
        ------
        ModelError
            If a field differs from its value in `known`, or a reserved field is not zero.
        """
        values = self._struct.unpack_from(data, _BEGIN.size)
        found = dict(zip(self._names, values, strict=True))
        for field, (value, words) in known.items():
            if found[field] != value:
                raise ModelError(f"{name}: {found[field]} {words}, only {value} are known" + REMEDY)
        reserved = [value for field, value in found.items() if field.startswith("reserved")]
        if any(reserved) or any(data[_BEGIN.size + self._struct.size : HEADER_BYTES]):
            raise ModelError(f"{name}: a reserved field is not zero; written by a newer version?")
        return found

    def sealed(self, model: Identified, known: Known, number: int, body: bytes) -> bytes:
        """Return the bytes of a file of version `number`, in which `body` follows the header."""
        fields = self._struct.pack(
            *(known[f][0] if f in known else getattr(model, f, 0) for f in self._names)
        )
        begin = _BEGIN.pack(MAGIC, number, HEADER_BYTES + len(body), 0)
        data = bytearray(begin + fields.ljust(HEADER_BYTES - _BEGIN.size, b"\0") + body)
        struct.pack_into("<I", data, _CRC_OFFSET, zlib.crc32(data))
        return bytes(data)


def check_ranges(*fields: tuple[str, int, int, int]) -> None:
    """Check fields, each given as (name, value, minimum, maximum).

    Raises
    ------
    ModelError
        If a value is out of range.
    """
    for name, value, low, high in fields:
        if not low <= value <= high:
            raise ModelError(f"model: {name} is {value}, accepted are {low} to {high}")


def _checksum(data: bytes) -> int:
    zeroed = bytearray(data)
    struct.pack_into("<I", zeroed, _CRC_OFFSET, 0)
    return zlib.crc32(zeroed)


#: Maximum of every feature: 16.8 s in us, which a drive that is in use does not reach.
CAP = 2**24 - 1

#: Features of the read and the drive. The features `PAST` of each of the last reads follow, the
#: most recent read first.
NOW = ("pages", "read_pages", "write_pages", "reads_in_flight", "oldest_us", "overdue")
PAST = ("latency_us", "pending", "pages", "age_us")

#: A feature of the read and the drive that was added later. It follows the older features, so that
#: older models remain valid.
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

#: Minimum number of trees in a file, because fewer trees do not distinguish the reads of a drive.
#: Models in memory can have fewer while they are trained.
MIN_TREES = 16

#: Leaves and `base` are log2 of us with this number of fractional bits.
FRACTION_BITS = 10

#: Leaves have 16 bits, and `base` has the same range.
LEAF_LIMIT = 1 << 15

#: Fields after the checksum.
_TREE_FIELDS = HeaderFields(
    n_features="H", n_trees="H", depth="B", history="B", fraction_bits="B", reserved="B",
    overdue_us="I", refuse_us="I", threshold_us="I", base="i",
)  # fmt: skip

#: Values that the engine is compiled for, and their descriptions.
_KNOWN_OF_TREES = {
    "depth": (DEPTH, "splits to a leaf"),
    "history": (HISTORY, "past reads"),
    "fraction_bits": (FRACTION_BITS, "fractional bits"),
}

#: Value of `refuse_us` that refuses no read, because no prediction is higher.
NEVER = 2**32 - 1

#: Threshold of a split that sends every read to the left.
NO_SPLIT = CAP


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LatencyModel(Identified):
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
            # The part of the sum that exceeds the limit of the base is distributed over the trees,
            # because each read reaches one leaf in every tree.
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
        check_ranges(
            ("n_trees", self.n_trees, 0, MAX_TREES),
            ("base", self.base, -LEAF_LIMIT, LEAF_LIMIT - 1),
            ("threshold_us", self.threshold_us, 1, 2**32 - 1),
            ("refuse_us", self.refuse_us, 1, 2**32 - 1),
            ("overdue_us", self.overdue_us, 1, CAP),
            ("n_features", self.n_features, N_FEATURES_MIN, N_FEATURES),
        )
        if self.splits.size and int(self.splits.max()) >> 24 >= self.n_features:
            raise ModelError(
                f"model: a split uses feature {int(self.splits.max()) >> 24}; it must be 0 to "
                f"{self.n_features - 1}"
            )

    def to_bytes(self) -> bytes:
        """See :meth:`~linnapp.model.Identified.to_bytes`."""
        body = self.splits.astype("<u4").tobytes() + self.leaves.astype("<i2").tobytes()
        check_ranges(("n_trees", self.n_trees, MIN_TREES, MAX_TREES))
        return _TREE_FIELDS.sealed(self, _KNOWN_OF_TREES, LATENCY, body)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "model") -> LatencyModel:
        """See :meth:`~linnapp.model.Identified.from_bytes`."""
        check_header(data, LATENCY, name)
        found = _TREE_FIELDS.read(data, _KNOWN_OF_TREES, name)
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


VERSION = NETWORK
SCALE = 1000
N_OUTPUTS = 2

#: Fields after the checksum.
_NETWORK_FIELDS = HeaderFields(
    n_inputs="H", n_hidden="H", n_outputs="H", history="B", pending_digits="B", latency_digits="B",
    reserved8="B", reserved16="H", scale="I", threshold_us="I",
)  # fmt: skip

#: Number of digits of a count of pending pages and of a latency in us. Larger values are clipped.
PENDING_DIGITS, LATENCY_DIGITS = 3, 4
N_INPUTS = (HISTORY + 1) * PENDING_DIGITS + HISTORY * LATENCY_DIGITS

#: Values that the engine is compiled for, and their descriptions.
_KNOWN_OF_NETWORKS = {
    "n_outputs": (N_OUTPUTS, "outputs"),
    "history": (HISTORY, "past reads"),
    "pending_digits": (PENDING_DIGITS, "digits of pending pages"),
    "latency_digits": (LATENCY_DIGITS, "digits of a latency"),
}

#: Number of hidden units that the kernel's engine is compiled for.
KERNEL_HIDDEN = 256

#: Output biases must be smaller than this in absolute value.
OUTPUT_BIAS_LIMIT = 2**61


class NotNarrowError(ModelError):
    """The weights are so large that the kernel's sums of 16 and 32 bits could overflow."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}; train it again, or quantise it with a smaller scale "
            "(`linnapp pack --scale`)"
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Model(Identified):
    """An integer network and the inflection point of the drive that it belongs to.

    Attributes
    ----------
    hidden_weights : int32 array, shape (N_INPUTS, n_hidden)
        Fixed point with scale `scale`.
    hidden_bias : int32 array, shape (n_hidden,)
        Fixed point with scale `scale`, because the inputs are plain digits.
    output_weights : int32 array, shape (n_hidden, 2)
        Fixed point with scale `scale`.
    output_bias : int64 array, shape (2,)
        Fixed point with scale ``scale ** 2``.
    threshold_us : int
        The inflection point: a read that takes longer is slow.
    scale : int
        Fixed-point scale.

    Raises
    ------
    ModelError
        If the arrays or the fields are not valid.
    NotNarrowError
        If a sum could overflow in the kernel.
    """

    hidden_weights: npt.NDArray[np.int32]
    hidden_bias: npt.NDArray[np.int32]
    output_weights: npt.NDArray[np.int32]
    output_bias: npt.NDArray[np.int64]
    threshold_us: int
    scale: int = SCALE

    def __post_init__(self) -> None:
        for name, dtype in (
            ("hidden_weights", np.int32),
            ("hidden_bias", np.int32),
            ("output_weights", np.int32),
            ("output_bias", np.int64),
        ):
            array = np.ascontiguousarray(getattr(self, name))
            if array.dtype != dtype:
                array = _exact_integers(array, np.dtype(dtype), name)
            object.__setattr__(self, name, array)
        self.check()

    @property
    def n_inputs(self) -> int:
        """Number of digits in a feature vector."""
        return int(self.hidden_weights.shape[0])

    @property
    def n_hidden(self) -> int:
        """Number of hidden units."""
        return int(self.hidden_weights.shape[1])

    def __repr__(self) -> str:
        return f"<Model {self.model_id}: {self.n_hidden} units, slow above {self.threshold_us} us>"

    def check(self) -> None:
        """Check what the kernel checks.

        Raises
        ------
        ModelError
            If shapes do not agree or a header field is out of range.
        NotNarrowError
            If a sum could overflow for some vector of digits 0 to 9.
        """
        w1, b1 = self.hidden_weights, self.hidden_bias
        w2, b2 = self.output_weights, self.output_bias
        if w1.ndim != 2 or w2.ndim != 2 or b1.ndim != 1 or b2.ndim != 1:
            raise ModelError(
                "model: the weights must be matrices and the biases vectors, not of shapes "
                f"{w1.shape}, {b1.shape}, {w2.shape}, {b2.shape}"
            )
        if (
            b1.shape[0] != w1.shape[1]
            or w2.shape != (w1.shape[1], N_OUTPUTS)
            or b2.shape != (N_OUTPUTS,)
        ):
            raise ModelError(
                f"model: shapes disagree: hidden_weights {w1.shape}, hidden_bias {b1.shape}, "
                f"output_weights {w2.shape}, output_bias {b2.shape}; "
                f"expected ({N_INPUTS}, H), (H,), (H, 2), (2,)"
            )
        check_ranges(
            ("n_hidden", self.n_hidden, 1, 65535),
            ("scale", self.scale, 1, 2**32 - 1),
            ("threshold_us", self.threshold_us, 1, 2**32 - 1),
        )
        if self.n_inputs != N_INPUTS:
            raise ModelError(f"model: {self.n_inputs} inputs, only {N_INPUTS} are known")
        self._check_narrow()

    def _check_narrow(self) -> None:
        """Check that no sum can overflow for any digits, as the kernel does.

        See ``linnos_network_parse()`` in the kernel.
        """
        narrow = np.iinfo(np.int16)
        margins = np.diff(self.output_weights.astype(np.int64))[:, 0]
        terms = 9 * self.hidden_weights.astype(np.int64)
        most = self.hidden_bias + np.maximum(terms, 0).sum(axis=0)
        least = self.hidden_bias + np.minimum(terms, 0).sum(axis=0)
        for name, numbers in (
            ("a hidden weight is", self.hidden_weights),
            ("an output weight is", self.output_weights),
            ("two output weights differ by", margins),
            ("a hidden sum can reach", most),
            ("a hidden sum can reach", least),
        ):
            for number in int(numbers.max()), int(numbers.min()):
                if not narrow.min <= number <= narrow.max:
                    raise NotNarrowError(f"model: {name} {number}, outside 16 bits")
        # The kernel processes units in groups of four. It also multiplies the sums of the first two
        # units with the weights of the last two, and these products must not overflow either.
        padding = -self.n_hidden % 4
        tops = np.pad(np.maximum(most, 0), (0, padding)).reshape(-1, 4)
        sizes = np.pad(np.abs(margins), (0, padding)).reshape(-1, 4)
        reach = max(int((tops * sizes).sum()), int((tops[:, :2] * sizes[:, 2:]).sum()))
        if reach >= np.iinfo(np.int32).max:
            raise NotNarrowError(f"model: the outputs can differ by {reach}, outside 32 bits")
        for number in self.output_bias.tolist():
            if abs(number) >= OUTPUT_BIAS_LIMIT:
                raise NotNarrowError(f"model: an output bias is {number}, outside 62 bits")

    def to_bytes(self) -> bytes:
        """See :meth:`~linnapp.model.Identified.to_bytes`."""
        body = b"".join(
            (
                self.hidden_weights.astype("<i4").tobytes(),
                self.hidden_bias.astype("<i4").tobytes(),
                self.output_weights.astype("<i4").tobytes(),
                self.output_bias.astype("<i8").tobytes(),
            )
        )
        return _NETWORK_FIELDS.sealed(self, _KNOWN_OF_NETWORKS, VERSION, body)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "model") -> Model:
        """See :meth:`~linnapp.model.Identified.from_bytes`."""
        check_header(data, VERSION, name)
        found = _NETWORK_FIELDS.read(data, _KNOWN_OF_NETWORKS, name)
        n_inputs, n_hidden, n_outputs = found["n_inputs"], found["n_hidden"], N_OUTPUTS
        counts = (n_inputs * n_hidden, n_hidden, n_hidden * n_outputs)
        expected = HEADER_BYTES + 4 * sum(counts) + 8 * n_outputs
        if expected != len(data):
            raise ModelError(
                f"{name}: {n_inputs} x {n_hidden} x {n_outputs} needs {expected} bytes, "
                f"the file has {len(data)}" + REMEDY
            )
        parts = []
        offset = HEADER_BYTES
        for count in counts:
            parts.append(np.frombuffer(data, "<i4", count, offset).astype(np.int32))
            offset += 4 * count
        output_bias = np.frombuffer(data, "<i8", n_outputs, offset).astype(np.int64)
        try:
            return cls(
                hidden_weights=parts[0].reshape(n_inputs, n_hidden),
                hidden_bias=parts[1],
                output_weights=parts[2].reshape(n_hidden, n_outputs),
                output_bias=output_bias,
                threshold_us=found["threshold_us"],
                scale=found["scale"],
            )
        except ModelError as error:
            raise ModelError(f"{name}: {error}") from error


def load_model(path: AnyPath) -> Model | LatencyModel:
    """Read a model file of any kind. See :meth:`Model.from_bytes` for the errors."""
    return model_from_bytes(read_file(path), str(path))


def model_from_bytes(data: bytes, name: str = "model") -> Model | LatencyModel:
    """Parse a model file of any kind. See :meth:`Model.from_bytes` for the errors."""
    if version_of(data, name) == LATENCY:
        return LatencyModel.from_bytes(data, name)
    return Model.from_bytes(data, name)


def find_model(path: AnyPath, drive: str | None = None) -> Path:
    """Return the file of a model, given the file itself or the directory that training wrote.

    In a directory of several models, the one with the disk's name, `drive`, is used. If a drive has
    models of both kinds, its latency model is used.

    Raises
    ------
    ModelError
        If there is no such model, or the directory holds several models.
    """
    path = Path(path)
    if not path.is_dir():
        if not path.exists():
            raise ModelError(f"{path}: no such model; `linnapp train` makes one")
        return path
    models = sorted(path.glob(f"*{SUFFIX}"))
    if len(models) == 1:
        return models[0]
    drives = {model.name.removesuffix(SUFFIX).removesuffix(".latency") for model in models}
    for name in (drive, *(drives if len(drives) == 1 else ())):
        for suffix in (LATENCY_SUFFIX, SUFFIX):
            if path / f"{name}{suffix}" in models:
                return path / f"{name}{suffix}"
    if not models:
        raise ModelError(f"{path}: holds no {SUFFIX} file; `linnapp train` makes one")
    names = ", ".join(model.name for model in models)
    raise ModelError(f"{path}: holds several models ({names}); name one of the files")


def _exact_integers(array: npt.NDArray[Any], dtype: np.dtype[Any], name: str) -> npt.NDArray[Any]:
    """Convert to `dtype`. Raise ModelError if the values cannot be represented exactly."""
    if array.dtype.kind not in "iu":
        raise ModelError(
            f"model: {name} is {array.dtype}, not integer; quantise it first (`linnapp pack` does)"
        )
    info = np.iinfo(dtype)
    if array.size and (int(array.max()) > info.max or int(array.min()) < info.min):
        raise ModelError(f"model: {name} has values outside {dtype}")
    return array.astype(dtype)
