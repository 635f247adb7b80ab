# SPDX-License-Identifier: MIT
"""Names of disks that are the same after a reboot: what udev links from ``/dev/disk/by-id``."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: Best first: what a drive itself answers, and an array has written on it, then what is made up of
#: model and serial number.
_PREFERRED = ("wwn-", "nvme-eui.", "nvme-uuid.", "md-uuid-", "nvme-", "scsi-", "ata-")


def _links() -> Path:
    """``/dev/disk/by-id``, or of another tree, for tests."""
    return Path(os.environ.get("LINNAPP_BY_ID", "/dev/disk/by-id"))


def stable_id(name: str) -> str | None:
    """The path of the best stable name of ``nvme0n1``; None if it has none, as virtual disks."""
    found = []
    with contextlib.suppress(OSError):
        for link in sorted(_links().iterdir()):
            with contextlib.suppress(OSError):
                if Path(link.readlink()).name == name:
                    found.append(str(link))
    return min(found, key=_rank, default=None)


def _rank(path: str) -> tuple[int, int, str]:
    name = Path(path).name
    place = next((i for i, p in enumerate(_PREFERRED) if name.startswith(p)), len(_PREFERRED))
    return place, len(name), path
