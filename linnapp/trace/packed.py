# SPDX-License-Identifier: MIT
"""Recordings packed with xz, which are read as if they were not.

Readers seek, read twice, or hand a name to compiled code. So a packed file is unpacked once, into
a temporary file without a name that lasts as long as this process.
"""

from __future__ import annotations

import lzma
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from linnapp.errors import TraceError
from linnapp.files import AnyPath

#: what a packed recording's name ends in
SUFFIX = ".xz"

#: by name, size and time of change: what was unpacked
_unpacked: dict[tuple[str, int, int], IO[bytes]] = {}
#: of those, the names that their users know
_names: dict[str, str] = {}


def unpacked(path: AnyPath) -> Path:
    """A file with the contents of `path`, `path` itself unless its name ends in ``.xz``."""
    path = Path(path)
    if path.suffix != SUFFIX:
        return path
    status = path.stat()
    key = (str(path.resolve()), status.st_size, status.st_mtime_ns)
    if key not in _unpacked:
        _unpacked[key] = _unpack(path)
    # Opened by this name a file begins at its start, whoever else reads it.
    opened = f"/proc/self/fd/{_unpacked[key].fileno()}"
    _names[opened] = str(path)
    return Path(opened)


def shown(message: str) -> str:
    """A message about an unpacked file, with the name that its user knows."""
    for opened, name in _names.items():
        message = message.replace(f"{opened}:", f"{name}:")
    return message


def _unpack(path: Path) -> IO[bytes]:
    with path.open("rb") as source:
        target = tempfile.TemporaryFile(prefix="linnapp-")  # noqa: SIM115
        try:
            with lzma.open(source) as stream:
                shutil.copyfileobj(stream, target, 1 << 20)
            target.flush()
        except (lzma.LZMAError, EOFError) as error:
            target.close()
            raise TraceError(f"{path}: damaged, or not packed with xz: {error}") from error
        except OSError as error:
            target.close()
            if error.filename is None:
                error.filename = f"{path}, unpacked to {os.fspath(tempfile.gettempdir())}"
            raise
    return target
