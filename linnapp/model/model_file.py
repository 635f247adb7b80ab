# SPDX-License-Identifier: MIT
"""The integer network model and its file format (``.linnos``, docs/formats.md).

A model is what the kernel runs: a fixed-point network 31 -> 256 ReLU -> 2, the drive's inflection
point, and the shape of the features that it expects. The checks are those of the kernel, which
accepts every model that this module loads, provided that it is compiled for the model's shape.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import ModelError
from linnapp.files import AnyPath
from linnapp.model import envelope
from linnapp.model.envelope import HEADER_BYTES, REMEDY, SUFFIX
from linnapp.model.latency_model import LatencyModel
from linnapp.native import HISTORY

VERSION = envelope.NETWORK
SCALE = 1000
N_OUTPUTS = 2

#: Fields after the checksum.
_FIELDS = envelope.HeaderFields(
    n_inputs="H", n_hidden="H", n_outputs="H", history="B", pending_digits="B", latency_digits="B",
    reserved8="B", reserved16="H", scale="I", threshold_us="I",
)  # fmt: skip

#: Number of digits of a count of pending pages and of a latency in us. Larger values are clipped.
PENDING_DIGITS, LATENCY_DIGITS = 3, 4
N_INPUTS = (HISTORY + 1) * PENDING_DIGITS + HISTORY * LATENCY_DIGITS

#: Values that the engine is compiled for, and their descriptions.
_KNOWN = {
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
class Model(envelope.Identified):
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
        envelope.check_ranges(
            ("n_hidden", self.n_hidden, 1, 65535),
            ("scale", self.scale, 1, 2**32 - 1),
            ("threshold_us", self.threshold_us, 1, 2**32 - 1),
        )
        if self.n_inputs != N_INPUTS:
            raise ModelError(f"model: {self.n_inputs} inputs, only {N_INPUTS} are known")
        self._check_narrow()

    def _check_narrow(self) -> None:
        """Bound every sum over all digit vectors, like ``linnos_network_parse()`` in the kernel."""
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
        """See :meth:`~linnapp.model.envelope.Identified.to_bytes`."""
        body = b"".join(
            (
                self.hidden_weights.astype("<i4").tobytes(),
                self.hidden_bias.astype("<i4").tobytes(),
                self.output_weights.astype("<i4").tobytes(),
                self.output_bias.astype("<i8").tobytes(),
            )
        )
        return _FIELDS.sealed(self, _KNOWN, VERSION, body)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "model") -> Model:
        """See :meth:`~linnapp.model.envelope.Identified.from_bytes`."""
        envelope.check(data, VERSION, name)
        found = _FIELDS.read(data, _KNOWN, name)
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
    return model_from_bytes(envelope.read(path), str(path))


def model_from_bytes(data: bytes, name: str = "model") -> Model | LatencyModel:
    """Parse a model file of any kind. See :meth:`Model.from_bytes` for the errors."""
    if envelope.version(data, name) == envelope.LATENCY:
        return LatencyModel.from_bytes(data, name)
    return Model.from_bytes(data, name)


def find_model(path: AnyPath, drive: str | None = None) -> Path:
    """Return the file of a model, given the file itself or the directory that training wrote.

    In a directory of several models, the one with the disk's name, `drive`, is used.

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
    if drive is not None and path / f"{drive}{SUFFIX}" in models:
        return path / f"{drive}{SUFFIX}"
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
