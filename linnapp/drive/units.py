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


def enable_units(conf_path: AnyPath, log: Log) -> None:
    """Enable restoring at boot and the watchdog, if systemd does this."""
    if Path(conf_path) != DEFAULT_CONF:
        log(f"to be run after a reboot: linnapp restore --conf {conf_path}; as the watchdog: ")
        log(f"linnapp keep --conf {conf_path}")
        return
    if not _SYSTEMD_RUNS.is_dir():
        log("systemd is not running: run `linnapp restore` at boot before the application, and")
        log("`linnapp keep`, the watchdog, from then on")
        return
    for unit, words, does in (
        (UNIT, ("enable",), "restores the settings after a reboot"),
        (KEEP_UNIT, ("enable", "--now"), "resets drives that deviate from training"),
    ):
        if why := _systemctl(*words, unit):
            command = "linnapp " + unit.removeprefix("linnapp-").removesuffix(".service")
            log(f"{unit} is not enabled: {why}; run `{command}` by other means")
        else:
            log(f"{unit} {does}")


def disable_units(conf_path: AnyPath, log: Log) -> None:
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
