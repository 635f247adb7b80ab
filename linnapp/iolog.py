# SPDX-License-Identifier: MIT
"""fio's iolog, version 3: the text format of workloads.

``<time> <file> <action> <offset> <bytes>``; the time is in microseconds since the start, as fio
3.33 writes and replays it. Only reads and writes are kept; other actions are passed over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from linnapp.errors import TraceError
from linnapp.files import explain_os_error, replaced_file

HEADER = "fio version 3 iolog"
_PASSED_OVER = {"add", "open", "close", "wait", "trim", "sync", "datasync"}


@dataclasses.dataclass(frozen=True)
class Workload:
    """I/Os to be replayed, in the order of their times.

    Attributes
    ----------
    time_us : int64 array, shape (n,)
        Since the start of the workload.
    offset_bytes : int64 array, shape (n,)
    size_bytes : int64 array, shape (n,)
    is_write : bool array, shape (n,)
    """

    time_us: npt.NDArray[np.int64]
    offset_bytes: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.int64]
    is_write: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.time_us)

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp] | slice) -> Workload:
        """The I/Os that `rows` selects."""
        return Workload(
            self.time_us[rows], self.offset_bytes[rows], self.size_bytes[rows], self.is_write[rows]
        )


def write(path: Path, chunks: Iterable[Workload], device: str) -> int:
    """Write an iolog; it appears whole or not at all.

    Parameters
    ----------
    path : Path
        The file.
    chunks : iterable of Workload
        Its I/Os, consecutive in time.
    device : str
        File name in the log; fio opens it, the replayer maps it to its own devices.

    Returns
    -------
    int
        I/Os written.
    """
    written = 0
    with replaced_file(path, "w") as stream:
        text: IO[str] = stream  # type: ignore[assignment]
        text.write(f"{HEADER}\n0 {device} add\n0 {device} open\n")
        last_us = 0
        for chunk in chunks:
            if not len(chunk):
                continue
            text.writelines(
                f"{time_us} {device} {'write' if is_write else 'read'} {offset} {size}\n"
                for time_us, is_write, offset, size in zip(
                    chunk.time_us.tolist(),
                    chunk.is_write.tolist(),
                    chunk.offset_bytes.tolist(),
                    chunk.size_bytes.tolist(),
                    strict=True,
                )
            )
            last_us = int(chunk.time_us[-1])
            written += len(chunk)
        text.write(f"{last_us} {device} close\n")
    return written


def is_iolog(path: Path) -> bool:
    """Whether the file begins as an iolog does."""
    try:
        with path.open("rb") as stream:
            return stream.read(len("fio version")) == b"fio version"
    except OSError:
        return False


def read(path: Path, chunk_ios: int = 1 << 18) -> Iterator[Workload]:
    """Read an iolog in chunks.

    Raises
    ------
    TraceError
        If it is of another version, or a line is malformed; the line is named.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            header = stream.readline().rstrip()
            if header != HEADER:
                raise TraceError(
                    f"{path}: {header[:40]!r} is not version 3 of fio's iolog; have fio write "
                    "it with --write_iolog"
                    if not header.startswith("fio version")
                    else f"{path}: {header}: only version 3 is known; fio 3.31 and later write it"
                )
            rows: list[tuple[int, int, int, bool]] = []
            for number, line in enumerate(stream, 2):
                fields = line.split()
                if not fields:
                    continue
                try:
                    action = fields[2]
                    if action in ("read", "write"):
                        rows.append(
                            (int(fields[0]), int(fields[3]), int(fields[4]), action == "write")
                        )
                    elif action not in _PASSED_OVER:
                        raise ValueError(action)
                except (ValueError, IndexError) as error:
                    raise TraceError(
                        f"{path}:{number}: {line.rstrip()!r}: expected "
                        "'<us> <file> read|write <offset> <bytes>'"
                    ) from error
                if len(rows) == chunk_ios:
                    yield _workload(rows)
                    rows = []
            if rows:
                yield _workload(rows)
    except OSError as error:
        raise explain_os_error(error, path) from error


def _workload(rows: list[tuple[int, int, int, bool]]) -> Workload:
    time_us, offset, size, is_write = zip(*rows, strict=True)
    return Workload(
        np.array(time_us, np.int64),
        np.array(offset, np.int64),
        np.array(size, np.int64),
        np.array(is_write, np.bool_),
    )
