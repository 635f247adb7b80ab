# SPDX-License-Identifier: MIT
"""Mutated model files of both kinds, and an independent check which of them are valid.

Run in the guest as ``model_fuzz.py DISK N``: writes N of them to the disk's ``model`` and checks
that only valid models are accepted, that a refusal does not change the active model, and that the
kernel logs one line for each refusal and nothing else.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

HEADER = 64
BYTES = HEADER + 4 * 256 * (31 + 1 + 2) + 16
I16 = np.iinfo(np.int16)
I32 = np.iinfo(np.int32)
EXTREME = np.array(
    [0, 1, -1, I16.max, I16.min, I16.max // 9, I16.min // 9, 2**16, -(2**16), I32.max, I32.min]
)


def sealed(data: bytes) -> bytes:
    """Return the file with its correct checksum."""
    blank = data[:16] + bytes(4) + data[20:]
    return data[:16] + struct.pack("<I", zlib.crc32(blank)) + data[20:]


def random_model(rng: np.random.Generator, bound: int = 100) -> bytes:
    weights = rng.integers(-bound, bound, 256 * (31 + 1 + 2)).astype("<i4").tobytes()
    bias = rng.integers(-bound * bound, bound * bound, 2).astype("<i8").tobytes()
    fields = (b"LINNOSMD", 1, BYTES, 0, 31, 256, 2, 4, 3, 4, 0, 0, 1000, 150)
    header = struct.pack("<8sIIIHHHBBBBHII24x", *fields)
    return sealed(header + weights + bias)


def random_trees(rng: np.random.Generator) -> bytes:
    n = int(rng.choice([0, 15, 16, 45, 256]))
    features = int(rng.choice([22, 23]))
    splits = rng.integers(0, features, 15 * n) << 24 | rng.integers(0, 1 << 24, 15 * n)
    leaves = rng.integers(-(2**15), 2**15, 16 * n)
    fields = (b"LINNOSMD", 2, HEADER + 92 * n, 0, features, n, 4, 4, 10, 0, 1000, 300, 150, 8192)
    header = struct.pack("<8sIIIHHBBBBIIIi20x", *fields)
    return sealed(header + splits.astype("<u4").tobytes() + leaves.astype("<i2").tobytes())


def is_model(data: bytes) -> bool:
    """Return true if docs/formats.md says that the data are a model."""
    return is_network(data) or is_trees(data)


def is_trees(data: bytes) -> bool:
    if len(data) < HEADER or data[:8] != b"LINNOSMD":
        return False
    version, total, crc, n_features, n, *shape = struct.unpack_from("<IIIHHBBBB", data, 8)
    overdue_us, refuse_us, threshold_us, base = struct.unpack_from("<IIIi", data, 28)
    if (version, *shape) != (2, 4, 4, 10, 0) or n_features not in (22, 23) or not 16 <= n <= 256:
        return False
    if not total == len(data) == HEADER + 92 * n or any(data[44:64]):
        return False
    if not 1 <= overdue_us < 1 << 24 or not refuse_us or not threshold_us:
        return False
    splits = np.frombuffer(data, "<u4", 15 * n, HEADER)
    known = -(2**15) <= base < 2**15 and not (splits >> 24 >= n_features).any()
    return known and sealed(data)[16:20] == struct.pack("<I", crc)


def is_network(data: bytes) -> bool:
    """Check a network with arithmetic that cannot overflow."""
    if len(data) != BYTES or data[:8] != b"LINNOSMD":
        return False
    version, total, crc = struct.unpack_from("<III", data, 8)
    shape = struct.unpack_from("<HHHBBB", data, 20)
    scale = struct.unpack_from("<I", data, 32)[0]
    if (version, total) != (1, BYTES) or shape != (31, 256, 2, 4, 3, 4) or not scale:
        return False
    if any(data[29:32]) or any(data[40:64]) or sealed(data)[16:20] != struct.pack("<I", crc):
        return False
    hidden = np.frombuffer(data, "<i4", 256 * 31, HEADER).astype(np.int64).reshape(31, 256)
    hidden_bias = np.frombuffer(data, "<i4", 256, HEADER + 4 * 256 * 31).astype(np.int64)
    high = hidden_bias + 9 * np.maximum(hidden, 0).sum(0)
    low = hidden_bias + 9 * np.minimum(hidden, 0).sum(0)
    output = np.frombuffer(data, "<i4", 512, HEADER + 4 * 256 * 32).astype(np.int64)
    margin = output[1::2] - output[::2]
    for numbers in (hidden, output, margin, high, low):
        if numbers.max() > I16.max or numbers.min() < I16.min:
            return False
    # For each group of four units: all four, and the first two with the weights of the last two.
    active = np.maximum(high, 0).reshape(64, 4)
    margin = np.abs(margin).reshape(64, 4)
    wanted, unwanted = (active * margin).sum(), (active[:, :2] * margin[:, 2:]).sum()
    if max(wanted, unwanted) >= I32.max:
        return False
    return all(-(2**61) < bias < 2**61 for bias in struct.unpack_from("<qq", data, BYTES - 16))


def mutations(seed: int, n: int) -> Iterator[bytes]:
    """Yield `n` files: some valid models, most invalid; every check is reached."""
    rng = np.random.default_rng(seed)
    good = random_model(rng)
    for i in range(n):
        if i % 1000 == 0:
            good = random_model(rng, int(rng.choice([10, 100, 200])))
        if i % 4 == 0:
            yield from_trees(rng)
            continue
        data = bytearray(good)
        kind = rng.integers(8)
        if kind <= 2:  # flipped bits anywhere
            for _ in range(rng.integers(1, 9)):
                data[rng.integers(len(data))] ^= 1 << rng.integers(8)
            yield bytes(data)
        elif kind == 3:  # another length
            pages = 4096 * rng.integers(9)
            length = int(rng.choice([rng.integers(BYTES), BYTES - rng.integers(1, 99), pages]))
            yield bytes(data[:length])
        elif kind == 4:  # the header, sealed again
            data[rng.integers(HEADER)] = rng.integers(256)
            yield sealed(bytes(data))
        elif kind == 5:  # extreme weights, sealed again
            for _ in range(rng.integers(1, 40)):
                at = HEADER + 4 * int(rng.integers(256 * 34))
                struct.pack_into("<i", data, at, int(rng.choice(EXTREME)))
            yield sealed(bytes(data))
        elif kind == 6:  # extreme output biases, sealed again
            value = int(rng.choice([2**63 - 1, -(2**63), 2**61, 2**61 - 1, 1 - 2**61, 0]))
            struct.pack_into("<q", data, BYTES - 8 * int(rng.integers(1, 3)), value)
            yield sealed(bytes(data))
        else:  # a range of noise, sealed again
            at = int(rng.integers(len(data) - 64))
            data[at : at + 64] = rng.bytes(64)
            yield sealed(bytes(data)) if rng.integers(2) else bytes(data)


def from_trees(rng: np.random.Generator) -> bytes:
    """Yield mutations of a latency model."""
    data = bytearray(random_trees(rng))
    kind = rng.integers(5)
    if kind == 0:  # flipped bits anywhere
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    elif kind == 1:  # another length
        return bytes(data[: rng.integers(len(data))] if rng.integers(2) else data + b"\0")
    elif kind == 2:  # the header, sealed again
        data[rng.integers(HEADER)] = rng.integers(256)
        return sealed(bytes(data))
    elif kind == 3 and len(data) > HEADER:  # a range of noise, sealed again
        at = int(rng.integers(HEADER, len(data)))
        data[at : at + 8] = rng.bytes(len(data[at : at + 8]))
        return sealed(bytes(data))
    return bytes(data)


class KernelLog:
    """The guest's kernel log since the last call."""

    def __init__(self) -> None:
        self._syslog = ctypes.CDLL(None).klogctl
        self._buffer = ctypes.create_string_buffer(4 << 20)
        self.read()

    def read(self) -> list[str]:
        read_and_clear = 4
        got = self._syslog(read_and_clear, self._buffer, len(self._buffer))
        if got < 0:
            raise OSError("klogctl")
        return self._buffer.raw[:got].decode(errors="replace").splitlines()


def crc_of(data: bytes) -> int:
    return zlib.crc32(data[20:], zlib.crc32(data[:16] + bytes(4)))


def write(model: int, data: bytes) -> bool:
    """Write a file as cat would; return false if the kernel refused it."""
    try:
        at = 0
        while at < len(data):
            at += os.pwrite(model, data[at:], at)
    except OSError:
        return False
    return True


def main(disk: str, n: int) -> int:
    directory = Path("/sys/block") / disk / "linnos"
    log = KernelLog()
    model = os.open(directory / "model", os.O_WRONLY)
    model_id = os.open(directory / "model_id", os.O_RDONLY)
    active = b""
    taken = refused = lines = 0
    for i, data in enumerate(mutations(2020, n)):
        wanted = is_model(data)
        if i % 10 == 0:  # Not for each file, because system calls take most of the time here.
            os.close(model)
            model = os.open(directory / "model", os.O_WRONLY)
        accepted = write(model, data)
        if accepted:
            # A file that ends with a page is not refused, but must not be taken either.
            accepted = os.pread(model_id, 16, 0) == b"%08x\n" % crc_of(data)
            accepted = accepted and (len(data) == BYTES or data[8] == 2)
        if accepted != wanted:
            print(f"file {i}: a model: {wanted}, taken: {accepted}")
            return 1
        if accepted:
            active = data
            taken += 1
        elif data:
            refused += 1
        if i % 50 == 0 and (directory / "model").read_bytes() != active:
            print(f"file {i}: not the active model any more")
            return 1
        if i % 1000 == 999 or i == n - 1:
            messages = log.read()
            lines += len(messages)
            other = [
                line for line in messages if not re.search(f"linnos: {disk}: model refused", line)
            ]
            if other:
                print(f"file {i}: the kernel says: {other[:5]}")
                return 1
    if (directory / "model").read_bytes() != active:
        print("not the active model any more")
        return 1
    # The last file's line may still be missing, if it ended with a page.
    if not refused - 1 <= lines <= refused:
        print(f"{lines} lines in the kernel log for {refused} refusals")
        return 1
    print(f"{n} files, {taken} of them models, {lines} refusals logged")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
