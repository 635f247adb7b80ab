# SPDX-License-Identifier: MIT
"""The systemd unit that runs `linnapp restore` at boot."""

from __future__ import annotations

import subprocess
from pathlib import Path

from linnapp.drive.drives_conf import DEFAULT_CONF
from linnapp.drive.journal import Log
from linnapp.files import AnyPath

UNIT = "linnapp-restore.service"
_SYSTEMD_RUNS = Path("/run/systemd/system")


def is_restored_by_systemd(conf_path: AnyPath) -> bool:
    """Return true if the unit reads this file and systemd is there to run it."""
    return Path(conf_path) == DEFAULT_CONF and _SYSTEMD_RUNS.is_dir()


def enable_unit(conf_path: AnyPath, log: Log) -> None:
    """Enable restoring at boot, if systemd does this."""
    if Path(conf_path) != DEFAULT_CONF:
        log(f"to be run after a reboot: linnapp restore --conf {conf_path}")
    elif not _SYSTEMD_RUNS.is_dir():
        log("systemd is not running: run `linnapp restore` at boot before the application")
    elif why := _systemctl("enable", UNIT):
        log(f"{UNIT} is not enabled: {why}; run `linnapp restore` by other means")
    else:
        log(f"{UNIT} restores the settings after a reboot")


def disable_unit(conf_path: AnyPath, log: Log) -> None:
    """Disable restoring at boot, if it is enabled."""
    if not is_restored_by_systemd(conf_path) or _systemctl("is-enabled", UNIT):
        return
    if why := _systemctl("disable", UNIT):
        log(f"{UNIT} is not disabled: {why}")


def _systemctl(*words: str) -> str:
    """Run systemctl; return the reason for a failure, otherwise an empty text."""
    try:
        result = subprocess.run(
            ["systemctl", "--quiet", *words], capture_output=True, text=True, check=False
        )
    except OSError as error:
        return f"systemctl: {error.strerror}"
    if not result.returncode:
        return ""
    return result.stderr.strip() or f"systemctl: status {result.returncode}"
