# SPDX-License-Identifier: MIT
"""Find the disks of this machine that can be recorded."""

from __future__ import annotations

from pathlib import Path

from linnapp.drive.sysfs import sysfs_root
from linnapp.errors import DeviceError


def drives_to_record() -> list[Path]:
    """Return every disk of this machine that serves requests itself.

    For md, dm and other drivers that pass I/Os on, the disks under them are returned: no requests
    are issued to the upper device, so a recording of it has no layers. Disks without a medium are
    left out.
    """
    found = []
    for disk in sorted((sysfs_root() / "block").glob("*")):
        device = Path("/dev") / disk.name.replace("!", "/")
        try:
            serves = (
                # Only devices with request queues have this folder.
                (disk / "mq").is_dir()
                and int((disk / "size").read_text()) > 0
                and not any((disk / "slaves").glob("*"))
            )
        except (OSError, ValueError):
            continue  # the disk is being removed
        if serves and device.exists():
            found.append(device)
    if not found:
        raise DeviceError(
            f"no disk under {sysfs_root()}/block serves requests and has a node in /dev (behind "
            "NVMe's multipath none has), so that there is nothing to record; in a container record "
            "outside, or in the lab: linnapp lab run -- linnapp ..."
        )
    return found
