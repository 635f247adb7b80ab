# SPDX-License-Identifier: MIT
"""Properties that all kinds of model files share: the header's beginning and the checksum."""

from __future__ import annotations

import abc
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from linnapp.errors import ModelError
from linnapp.files import AnyPath, explain_os_error, replaced_file

MAGIC = b"LINNOSMD"
HEADER_BYTES = 64
SUFFIX = ".linnos"

#: Kinds of model. Each kind has its own format version.
NETWORK, LATENCY = 1, 2
KINDS = {NETWORK: "network", LATENCY: "latency model"}

_BEGIN = struct.Struct("<8sIII")

#: Offset of the CRC-32. It covers the whole file, with this field set to zero.
_CRC_OFFSET = 16

#: Larger than any file that these formats can describe with sensible sizes. It limits how much is
#: read.
_MAX_FILE_BYTES = 64 << 20

REMEDY = "; make it again with `linnapp train` or `linnapp pack`"


class Identified(abc.ABC):
    """Base class of all models. A model is identified by its file: equal ids are equal models."""

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
        return cls.from_bytes(read(path), str(path))

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


def read(path: AnyPath) -> bytes:
    """Read the bytes of a model file. Raise ModelError if the file cannot be read."""
    path = Path(path)
    try:
        with path.open("rb") as stream:
            return stream.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise ModelError(str(explain_os_error(error, path))) from error


def version(data: bytes, name: str) -> int:
    """Return the format version of a model file's content. The fields after it are not checked."""
    if len(data) < HEADER_BYTES:
        raise ModelError(
            f"{name}: {len(data)} bytes, shorter than a model's header of {HEADER_BYTES}" + REMEDY
        )
    magic, number, _, _ = _BEGIN.unpack_from(data)
    if magic != MAGIC:
        raise ModelError(f"{name}: not a LinnOS model (it starts with {magic!r})")
    if number not in KINDS:
        known = " and ".join(f"{n} ({kind})" for n, kind in KINDS.items())
        raise ModelError(f"{name}: model format version {number}, only {known} are known" + REMEDY)
    return int(number)


def check(data: bytes, wanted: int, name: str) -> None:
    """Check the magic, version, size and checksum, which precede the fields of a kind."""
    number = version(data, name)
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
        """Return a complete file of version `number`, in which `body` follows the header."""
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
