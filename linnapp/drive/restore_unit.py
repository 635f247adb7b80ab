# SPDX-License-Identifier: MIT
"""Whether `linnapp restore` runs at boot: systemd's unit for it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from linnapp.drive.drives_conf import DEFAULT_CONF
from linnapp.files import AnyPath

UNIT = "linnapp-restore.service"
_SYSTEMD_RUNS = Path("/run/systemd/system")

Log = Callable[[str], None]


def is_restored_by_systemd(conf_path: AnyPath) -> bool:
    """Whether the unit reads this file, and there is systemd to run it."""
    return Path(conf_path) == DEFAULT_CONF and _SYSTEMD_RUNS.is_dir()


def enable_unit(conf_path: AnyPath, log: Log) -> None:
    """Have the restoring done at boot, where that is systemd's to do."""
    if Path(conf_path) != DEFAULT_CONF:
        log(f"after a reboot: linnapp restore --conf {conf_path}")
    elif not _SYSTEMD_RUNS.is_dir():
        log("no systemd here: have `linnapp restore` run at boot, before the application")
    elif why := _systemctl("enable", UNIT):
        log(f"{UNIT} is not enabled: {why}; have `linnapp restore` run at boot")
    else:
        log(f"{UNIT} restores it after a reboot")


def disable_unit(conf_path: AnyPath, log: Log) -> None:
    """Have it done no more."""
    if not is_restored_by_systemd(conf_path) or _systemctl("is-enabled", UNIT):
        return
    if why := _systemctl("disable", UNIT):
        log(f"{UNIT} is not disabled: {why}")


def _systemctl(*words: str) -> str:
    """Why it failed; empty if it did not."""
    try:
        ran = subprocess.run(
            ["systemctl", "--quiet", *words], capture_output=True, text=True, check=False
        )
    except OSError as error:
        return f"systemctl: {error.strerror}"
    return "" if not ran.returncode else ran.stderr.strip() or f"systemctl: status {ran.returncode}"
