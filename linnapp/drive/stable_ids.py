# SPDX-License-Identifier: MIT
"""Names of disks and md arrays that stay the same after a reboot.

Names such as ``/dev/vda`` and ``/dev/md127`` depend on the order in which devices are found. The
links that udev makes in ``/dev/disk/by-id`` do not change. Disks without a WWID and a serial number
have no such link.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from linnapp.drive.sysfs import node_of

#: Best first: ids that a drive itself reports or an array stores on disk, then ids that are built
#: from the model name and the serial number.
_PREFERRED = ("wwn-", "nvme-eui.", "nvme-uuid.", "md-uuid-", "nvme-", "scsi-", "ata-")


def stable_id(name: str) -> str | None:
    """Return the path of the best stable name of ``nvme0n1``.

    None if it has none, as is the case for virtual disks.
    """
    links = Path(os.environ.get("LINNAPP_BY_ID", "/dev/disk/by-id"))
    found = []
    with contextlib.suppress(OSError):
        for link in sorted(links.iterdir()):
            with contextlib.suppress(OSError):
                if Path(link.readlink()).name == name:
                    found.append(str(link))
    return min(found, key=_rank, default=None)


def name_to_keep(name: str) -> str:
    """Return the name of a disk or array in drives.conf: its stable id, or else its node."""
    return stable_id(name) or str(node_of(name))


def warn_of_name(name: str) -> str | None:
    """Return a warning for a device whose name may change; None if it has a stable name."""
    if stable_id(name) is not None:
        return None
    return (
        f"{name} has no stable name (in /dev/disk/by-id): after a reboot another device may be "
        f"called {node_of(name)}, and `linnapp restore` would give it this one's settings; give it "
        "a serial number, or check `linnapp status` after each reboot"
    )


def _rank(path: str) -> tuple[int, int, str]:
    name = Path(path).name
    place = next((i for i, p in enumerate(_PREFERRED) if name.startswith(p)), len(_PREFERRED))
    return place, len(name), path
