# SPDX-License-Identifier: MIT
"""Fixed places in a guest: what runs there is the same for everyone.

A program that opens a file by a longer name, or finds more in its environment,
does not run quite as before, and in virtual time "not quite" can be seen. So
whatever an experiment's commands need of the host has one place in the guest,
wherever it is on the host, and their environment is fixed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from linnapp.lab.command import HasDevices
from linnapp.lab.guest import DEFAULT_PATH, IN_CLONE, REPOSITORY, Folder

ROOT = Path("/run/linnos")
_OUT = ROOT / "out"
_CODE = ROOT / "linnapp"
_PACKAGES = ROOT / "packages"
_PYTHON = ROOT / "python"
_REPLAYER = ROOT / "replayer"
_BIN = ROOT / "bin"
_PYCACHE = ROOT / "pycache"


def find_replayer() -> Path:
    """Return the path of the replayer: in the clone, or where the wheel or the package has it."""
    if IN_CLONE:
        return REPOSITORY / "build" / "replayer" / "replayer"
    installed = Path(sys.executable).with_name("replayer")
    return installed if installed.exists() else Path(shutil.which("replayer") or installed)


class Places:
    """The places of one run in a guest.

    Attributes
    ----------
    folders : dict
        For ``Guest.folders``; grows with each folder that `of` is asked for.
    """

    def __init__(self, out_dir: Path, programs: Path | None = None) -> None:
        self._out_dir = out_dir.resolve()
        self._inputs: dict[Path, str] = {}
        self.folders: dict[str, Folder] = {
            str(_OUT): Folder(self._out_dir, writable=True),
            str(_CODE): Folder(REPOSITORY),
            # Where this process has its packages from, numpy among them.
            str(_PACKAGES): Folder(Path(click.__file__).parents[1]),
            str(_PYTHON): Folder(Path(sys.base_prefix)),
            str(_REPLAYER): Folder(programs or find_replayer().parent),
        }

    @property
    def cwd(self) -> Path:
        """Working folder of commands in the guest: where they write to."""
        return _OUT

    def of(self, path: Path) -> str:
        """Return the guest's path of a host's file; outside of the run's folder it is read-only."""
        path = path.resolve()
        if path.is_relative_to(self._out_dir):
            return str(_OUT / path.relative_to(self._out_dir))
        place = self._inputs.setdefault(path.parent, str(ROOT / f"in{len(self._inputs)}"))
        self.folders[place] = Folder(path.parent)
        return f"{place}/{path.name}"

    def setup(self) -> str:
        """Shell commands that make this project's commands known in the guest."""
        python = Path(os.path.realpath(sys.executable)).relative_to(
            os.path.realpath(sys.base_prefix)
        )
        # Nothing but what is named above: no site packages with the paths of an installation.
        script = f'#!/bin/sh\nexec {_PYTHON / python} -S -m linnapp "$@"\n'
        return (
            f"mkdir -p {_BIN} {_PYCACHE}\n"
            f"printf %s {shlex.quote(script)} >{_BIN}/linnapp\n"
            f"chmod 755 {_BIN}/linnapp\n"
        )

    def environment(self, drives: HasDevices) -> dict[str, str]:
        """For ``Guest.environment``, with the guest's drives."""
        return {
            "PATH": f"{_BIN}:{_REPLAYER}:{DEFAULT_PATH}",
            "TZ": "UTC",
            "PYTHONPATH": f"{_CODE}:{_PACKAGES}",
            # Compiled files next to the sources exist in some checkouts only.
            "PYTHONPYCACHEPREFIX": str(_PYCACHE),
            "PYTHONDONTWRITEBYTECODE": "",
            "LINNOS_DRIVES": ",".join(drives.devices),
            "LINNOS_OUT": str(_OUT),
        }
