# SPDX-License-Identifier: MIT
"""The systemd units that run `linnapp restore` at boot, and `linnapp keep` permanently."""

from __future__ import annotations

import subprocess
from pathlib import Path

from linnapp.drive.drives_conf import DEFAULT_CONF
from linnapp.drive.journal import Log
from linnapp.files import AnyPath

UNIT = "linnapp-restore.service"
KEEP_UNIT = "linnapp-keep.service"
_SYSTEMD_RUNS = Path("/run/systemd/system")


def is_restored_by_systemd(conf_path: AnyPath) -> bool:
    """Return true if the unit reads this file and systemd is there to run it."""
    return Path(conf_path) == DEFAULT_CONF and _SYSTEMD_RUNS.is_dir()


def enable_unit(conf_path: AnyPath, log: Log) -> None:
    """Enable restoring at boot and the watchdog, if systemd does this."""
    if Path(conf_path) != DEFAULT_CONF:
        log(f"after a reboot: linnapp restore --conf {conf_path}; the kill switch: linnapp keep")
        return
    if not _SYSTEMD_RUNS.is_dir():
        log("no systemd here: have `linnapp restore` run at boot, before the application")
        log("and `linnapp keep`, the kill switch, from then on")
        return
    if why := _systemctl("enable", UNIT):
        log(f"{UNIT} is not enabled: {why}; have `linnapp restore` run at boot")
    else:
        log(f"{UNIT} restores it after a reboot")
    if why := _systemctl("enable", "--now", KEEP_UNIT):
        log(f"{KEEP_UNIT} does not run: {why}; have `linnapp keep` run, the kill switch")
    else:
        log(f"{KEEP_UNIT} switches it off, should it not be as training foresaw")


def disable_unit(conf_path: AnyPath, log: Log) -> None:
    """Disable both."""
    if not is_restored_by_systemd(conf_path):
        return
    for unit, *now in ((UNIT,), (KEEP_UNIT, "--now")):
        if not _systemctl("is-enabled", unit) and (why := _systemctl("disable", *now, unit)):
            log(f"{unit} is not disabled: {why}")


def _systemctl(*words: str) -> str:
    """Run systemctl; return the reason for a failure, otherwise an empty text."""
    try:
        ran = subprocess.run(
            ["systemctl", "--quiet", *words], capture_output=True, text=True, check=False
        )
    except OSError as error:
        return f"systemctl: {error.strerror}"
    return "" if not ran.returncode else ran.stderr.strip() or f"systemctl: status {ran.returncode}"
