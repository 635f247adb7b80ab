# SPDX-License-Identifier: MIT
"""Whether `linnapp restore` runs at boot, and `linnapp keep` always: systemd's units for them."""

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
    """Whether the unit reads this file, and there is systemd to run it."""
    return Path(conf_path) == DEFAULT_CONF and _SYSTEMD_RUNS.is_dir()


def enable_unit(conf_path: AnyPath, log: Log) -> None:
    """Have it restored at boot, and kept from now on, where that is systemd's to do."""
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
    """Have it done no more."""
    if not is_restored_by_systemd(conf_path):
        return
    for unit, *now in ((UNIT,), (KEEP_UNIT, "--now")):
        if not _systemctl("is-enabled", unit) and (why := _systemctl("disable", *now, unit)):
            log(f"{unit} is not disabled: {why}")


def _systemctl(*words: str) -> str:
    """Why it failed; empty if it did not."""
    try:
        ran = subprocess.run(
            ["systemctl", "--quiet", *words], capture_output=True, text=True, check=False
        )
    except OSError as error:
        return f"systemctl: {error.strerror}"
    return "" if not ran.returncode else ran.stderr.strip() or f"systemctl: status {ran.returncode}"
