# SPDX-License-Identifier: MIT
"""Which of this machine's disks can be recorded."""

from __future__ import annotations

from pathlib import Path

from linnapp.drive.sysfs import sysfs_root
from linnapp.errors import DeviceError


def drives_to_record() -> list[Path]:
    """Every disk of this machine that serves requests itself.

    Of md, dm and other drivers that pass I/Os on the disks below are meant: nothing is issued to
    the upper one, so that its own recording has no layers. Disks without a medium are left out.
    """
    found = []
    for disk in sorted((sysfs_root() / "block").glob("*")):
        device = Path("/dev") / disk.name.replace("!", "/")
        try:
            serves = (
                # Only what has queues of requests has this folder.
                (disk / "mq").is_dir()
                and int((disk / "size").read_text()) > 0
                and not any((disk / "slaves").glob("*"))
            )
        except (OSError, ValueError):
            continue  # it is being removed
        if serves and device.exists():
            found.append(device)
    if not found:
        raise DeviceError(
            f"no disk under {sysfs_root()}/block serves requests and has a node in /dev (behind "
            "NVMe's multipath none has), so that there is nothing to record; in a container record "
            "outside, or in the lab: linnapp lab run -- linnapp ..."
        )
    return found
