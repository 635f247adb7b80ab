# SPDX-License-Identifier: MIT
"""The two kinds of models, and their files (``.linnos``, docs/formats.md).

:class:`Model` predicts whether a read will be slow. It is the network of Hao et al. (OSDI 2020) in
fixed point: 31 inputs, 256 hidden units with ReLU, and 2 outputs. Its files have version 1.

:class:`LatencyModel` predicts the latency of a read. It consists of boosted trees over integers
that are available in a kernel. All trees are complete, so a prediction takes the same four steps in
each tree. The leaves are fixed-point logarithms, and their sum is the logarithm of the expected
latency. Its files have version 2.

Both kinds of files begin with the same header and checksum, and contain the drive's inflection
point. This module makes the same checks as the kernel: the kernel accepts every model that this
module loads, provided that it is compiled for the model's shape.
"""

from __future__ import annotations

import abc
import dataclasses
import struct
import zlib
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from linnapp.errors import ModelError, errors_about
from linnapp.files import AnyPath, explain_os_error, replaced_file
from linnapp.native import HISTORY, N_FEATURES_MIN

MAGIC = b"LINNOSMD"
HEADER_BYTES = 64
SUFFIX = ".linnos"
#: If a drive has models of both kinds in a directory, the latency model's file ends in this.
LATENCY_SUFFIX = f".latency{SUFFIX}"

_BEGIN = struct.Struct("<8sIII")

#: Offset of the CRC-32. It covers the whole file, with this field set to zero.
_CRC_OFFSET = 16

#: Maximum number of bytes that are read, which is more than any valid model file has.
_MAX_FILE_BYTES = 64 << 20

REMEDY = "; make it again with `linnapp train` or `linnapp pack`"


class Identified(abc.ABC):
    """Base class of all models. Two models are equal if their files have the same checksum."""

    #: Format version, and name of the kind in messages.
    VERSION: ClassVar[int]
    KIND: ClassVar[str]
    #: Header fields after the checksum, in formats of :mod:`struct`. Those whose name begins with
    #: ``reserved`` must be zero.
    FIELDS: ClassVar[dict[str, str]]
    #: Fields that must have the value for which the engine is compiled, and their descriptions.
    KNOWN: ClassVar[dict[str, tuple[int, str]]]

    @abc.abstractmethod
    def _body(self) -> bytes:
        """Return the part of the file after the header."""

    @classmethod
    @abc.abstractmethod
    def _parse(cls, fields: dict[str, int], data: bytes) -> Self:
        """Return the model of a file with these header fields."""

    def to_bytes(self) -> bytes:
        """Serialise the model, with its checksum, as the kernel's ``model`` file accepts it."""
        body = self._body()
        values = (
            self.KNOWN[name][0] if name in self.KNOWN else getattr(self, name, 0)
            for name in self.FIELDS
        )
        fields = _struct_of(self.FIELDS).pack(*values).ljust(HEADER_BYTES - _BEGIN.size, b"\0")
        begin = _BEGIN.pack(MAGIC, self.VERSION, HEADER_BYTES + len(body), 0)
        data = bytearray(begin + fields + body)
        struct.pack_into("<I", data, _CRC_OFFSET, _checksum(data))
        return bytes(data)

    @classmethod
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
        version = _version_of(data, name)
        if version != cls.VERSION:
            raise ModelError(
                f"{name}: model format version {version}, a {_KINDS[version].KIND}; "
                f"expected a {cls.KIND}, version {cls.VERSION}"
            )
        with errors_about(name):
            return cls._parse(cls._header_fields(data), data)

    @classmethod
    def _header_fields(cls, data: bytes) -> dict[str, int]:
        """Check the header of a file, and return the fields after the checksum by name."""
        _, _, total_bytes, crc32 = _BEGIN.unpack_from(data)
        if total_bytes != len(data):
            raise ModelError(
                f"truncated or padded: {len(data)} bytes, the header says {total_bytes}{REMEDY}"
            )
        if _checksum(data) != crc32:
            raise ModelError(
                f"corrupt: checksum {_checksum(data):08x}, the header says {crc32:08x}{REMEDY}"
            )
        layout = _struct_of(cls.FIELDS)
        found = dict(zip(cls.FIELDS, layout.unpack_from(data, _BEGIN.size), strict=True))
        for field, (value, words) in cls.KNOWN.items():
            if found[field] != value:
                raise ModelError(f"{found[field]} {words}, only {value} are known{REMEDY}")
        reserved = [value for field, value in found.items() if field.startswith("reserved")]
        if any(reserved) or any(data[_BEGIN.size + layout.size : HEADER_BYTES]):
            raise ModelError("a reserved field is not zero; written by a newer version?")
        return found

    @classmethod
    def load(cls, path: AnyPath) -> Self:
        """Read a model file. See :meth:`from_bytes` for the errors."""
        return cls.from_bytes(_read_file(path), str(path))

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


def _struct_of(fields: dict[str, str]) -> struct.Struct:
    return struct.Struct("<" + "".join(fields.values()))


def _read_file(path: AnyPath) -> bytes:
    path = Path(path)
    try:
        with path.open("rb") as stream:
            return stream.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise ModelError(str(explain_os_error(error, path))) from error


def _version_of(data: bytes, name: str) -> int:
    """Return the format version of a model file. The fields after it are not checked."""
    if len(data) < HEADER_BYTES:
        raise ModelError(
            f"{name}: {len(data)} bytes, shorter than a model's header of {HEADER_BYTES}{REMEDY}"
        )
    magic, version, _, _ = _BEGIN.unpack_from(data)
    if magic != MAGIC:
        raise ModelError(f"{name}: not a LinnOS model (it starts with {magic!r}){REMEDY}")
    if version not in _KINDS:
        known = " and ".join(f"{kind.VERSION} ({kind.KIND})" for kind in _KINDS.values())
        raise ModelError(f"{name}: model format version {version}, only {known} are known{REMEDY}")
    return int(version)


def _check_ranges(*fields: tuple[str, int, int, int]) -> None:
    """Raise ModelError if a field, given as (name, value, minimum, maximum), is out of range."""
    for name, value, low, high in fields:
        if not low <= value <= high:
            raise ModelError(f"model: {name} is {value}, accepted are {low} to {high}")


def _check_size(data: bytes, expected: int, what: str) -> None:
    if expected != len(data):
        raise ModelError(f"{what} {expected} bytes, the file has {len(data)}{REMEDY}")


def _checksum(data: bytes | bytearray) -> int:
    zeroed = bytearray(data)
    struct.pack_into("<I", zeroed, _CRC_OFFSET, 0)
    return zlib.crc32(zeroed)


def _store_integers(model: Identified, **dtypes: type[np.integer[Any]]) -> None:
    """Convert arrays of a frozen model. Raise ModelError if a value cannot be represented."""
    for name, dtype in dtypes.items():
        array = np.ascontiguousarray(getattr(model, name))
        if array.dtype.kind not in "iu":
            raise ModelError(
                f"model: {name} is {array.dtype}, not integer; quantise it first (`linnapp pack` "
                "does)"
            )
        info = np.iinfo(dtype)
        if array.size and (int(array.max()) > info.max or int(array.min()) < info.min):
            raise ModelError(f"model: {name} has values outside {np.dtype(dtype)}")
        object.__setattr__(model, name, array.astype(dtype, copy=False))


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

    VERSION = 2
    KIND = "latency model"
    FIELDS: ClassVar = dict(
        n_features="H", n_trees="H", depth="B", history="B", fraction_bits="B", reserved="B",
        overdue_us="I", refuse_us="I", threshold_us="I", base="i",
    )  # fmt: skip
    KNOWN: ClassVar = dict(
        depth=(DEPTH, "splits to a leaf"), history=(HISTORY, "past reads"),
        fraction_bits=(FRACTION_BITS, "fractional bits"),
    )  # fmt: skip

    splits: npt.NDArray[np.uint32]
    leaves: npt.NDArray[np.int16]
    base: int
    threshold_us: int
    refuse_us: int
    overdue_us: int
    n_features: int = N_FEATURES

    def __post_init__(self) -> None:
        _store_integers(self, splits=np.uint32, leaves=np.int16)
        expected = (self.n_trees, N_SPLITS), (self.n_trees, N_LEAVES)
        if (self.splits.shape, self.leaves.shape) != expected:
            raise ModelError(
                f"model: splits have shape {self.splits.shape}, leaves {self.leaves.shape}; "
                f"expected (n, {N_SPLITS}) and (n, {N_LEAVES})"
            )
        _check_ranges(
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

    def _body(self) -> bytes:
        _check_ranges(("n_trees", self.n_trees, MIN_TREES, MAX_TREES))
        return self.splits.astype("<u4").tobytes() + self.leaves.astype("<i2").tobytes()

    @classmethod
    def _parse(cls, fields: dict[str, int], data: bytes) -> LatencyModel:
        n_trees = fields["n_trees"]
        _check_ranges(("n_trees", n_trees, MIN_TREES, MAX_TREES))
        middle = HEADER_BYTES + 4 * n_trees * N_SPLITS
        _check_size(data, middle + 2 * n_trees * N_LEAVES, f"{n_trees} trees need")
        return cls(
            np.frombuffer(data[:middle], "<u4", offset=HEADER_BYTES).reshape(n_trees, N_SPLITS),
            np.frombuffer(data, "<i2", offset=middle).reshape(n_trees, N_LEAVES),
            fields["base"],
            fields["threshold_us"],
            fields["refuse_us"],
            fields["overdue_us"],
            fields["n_features"],
        )


SCALE = 1000
N_OUTPUTS = 2

#: Number of digits of a count of pending pages and of a latency in us. Larger values are clipped.
PENDING_DIGITS, LATENCY_DIGITS = 3, 4
N_INPUTS = (HISTORY + 1) * PENDING_DIGITS + HISTORY * LATENCY_DIGITS

#: Number of hidden units that the kernel's engine is compiled for.
KERNEL_HIDDEN = 256

#: Output biases must be smaller than this in absolute value.
OUTPUT_BIAS_LIMIT = 2**61


class NotNarrowError(ModelError):
    """The weights are so large that the kernel's sums of 16 and 32 bits could overflow."""


def _not_narrow(what: str) -> NotNarrowError:
    return NotNarrowError(
        f"model: {what}; train it again, or quantise it with a smaller scale "
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

    VERSION = 1
    KIND = "network"
    FIELDS: ClassVar = dict(
        n_inputs="H", n_hidden="H", n_outputs="H", history="B", pending_digits="B",
        latency_digits="B", reserved8="B", reserved16="H", scale="I", threshold_us="I",
    )  # fmt: skip
    KNOWN: ClassVar = dict(
        n_outputs=(N_OUTPUTS, "outputs"), history=(HISTORY, "past reads"),
        pending_digits=(PENDING_DIGITS, "digits of pending pages"),
        latency_digits=(LATENCY_DIGITS, "digits of a latency"),
    )  # fmt: skip

    hidden_weights: npt.NDArray[np.int32]
    hidden_bias: npt.NDArray[np.int32]
    output_weights: npt.NDArray[np.int32]
    output_bias: npt.NDArray[np.int64]
    threshold_us: int
    scale: int = SCALE

    def __post_init__(self) -> None:
        narrow = dict.fromkeys(("hidden_weights", "hidden_bias", "output_weights"), np.int32)
        _store_integers(self, **narrow, output_bias=np.int64)
        n_hidden = len(self.hidden_bias) if self.hidden_bias.ndim else 0
        for name, expected in (
            ("hidden_weights", (N_INPUTS, n_hidden)),
            ("hidden_bias", (n_hidden,)),
            ("output_weights", (n_hidden, N_OUTPUTS)),
            ("output_bias", (N_OUTPUTS,)),
        ):
            shape = getattr(self, name).shape
            if shape != expected:
                raise ModelError(f"model: {name} has shape {shape}, expected {expected}")
        _check_ranges(
            ("n_hidden", self.n_hidden, 1, 65535),
            ("scale", self.scale, 1, 2**32 - 1),
            ("threshold_us", self.threshold_us, 1, 2**32 - 1),
        )
        self._check_narrow()

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
                    raise _not_narrow(f"{name} {number}, outside 16 bits")
        # The kernel processes units in groups of four. It also multiplies the sums of the first two
        # units with the weights of the last two, and these products must not overflow either.
        padding = -self.n_hidden % 4
        tops = np.pad(np.maximum(most, 0), (0, padding)).reshape(-1, 4)
        sizes = np.pad(np.abs(margins), (0, padding)).reshape(-1, 4)
        reach = max(int((tops * sizes).sum()), int((tops[:, :2] * sizes[:, 2:]).sum()))
        if reach >= np.iinfo(np.int32).max:
            raise _not_narrow(f"the outputs can differ by {reach}, outside 32 bits")
        for number in self.output_bias.tolist():
            if abs(number) >= OUTPUT_BIAS_LIMIT:
                raise _not_narrow(f"an output bias is {number}, outside 62 bits")

    def _body(self) -> bytes:
        weights = (self.hidden_weights, self.hidden_bias, self.output_weights)
        body = b"".join(each.astype("<i4").tobytes() for each in weights)
        return body + self.output_bias.astype("<i8").tobytes()

    @classmethod
    def _parse(cls, fields: dict[str, int], data: bytes) -> Model:
        n_inputs, n_hidden = fields["n_inputs"], fields["n_hidden"]
        ends = np.cumsum((n_inputs * n_hidden, n_hidden, n_hidden * N_OUTPUTS))
        end = HEADER_BYTES + 4 * int(ends[-1])
        shape = f"{n_inputs} x {n_hidden} x {N_OUTPUTS} needs"
        _check_size(data, end + 8 * N_OUTPUTS, shape)
        hidden_weights, hidden_bias, output_weights = np.split(
            np.frombuffer(data[:end], "<i4", offset=HEADER_BYTES), ends[:-1]
        )
        return cls(
            hidden_weights.reshape(n_inputs, n_hidden),
            hidden_bias,
            output_weights.reshape(n_hidden, N_OUTPUTS),
            np.frombuffer(data, "<i8", offset=end),
            fields["threshold_us"],
            fields["scale"],
        )


#: The kinds of models by format version.
_KINDS: dict[int, type[Model | LatencyModel]] = {1: Model, 2: LatencyModel}


def load_model(path: AnyPath) -> Model | LatencyModel:
    """Read a model file of any kind. See :meth:`Model.from_bytes` for the errors."""
    return model_from_bytes(_read_file(path), str(path))


def model_from_bytes(data: bytes, name: str = "model") -> Model | LatencyModel:
    """Parse a model file of any kind. See :meth:`Model.from_bytes` for the errors."""
    return _KINDS[_version_of(data, name)].from_bytes(data, name)


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
