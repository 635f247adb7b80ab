# SPDX-License-Identifier: MIT
"""The recordings of real applications in traces/recorded."""

from __future__ import annotations

import lzma
from pathlib import Path

RECORDED = Path(__file__).parents[1] / "traces" / "recorded"


def unpack(name: str, folder: Path) -> Path:
    """Write the blktrace file of a recording into a folder, and return its path."""
    path = folder / f"{name}.blk"
    path.write_bytes(lzma.decompress((RECORDED / f"{name}.blk.xz").read_bytes()))
    return path
