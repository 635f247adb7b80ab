# SPDX-License-Identifier: MIT
"""Fixed paths in a guest, so that an experiment gives the same result for every user.

A program that opens a file by a longer name, or finds more variables in its environment, takes a
slightly different time, and in virtual time this changes results. Therefore the files of the host
that an experiment's commands need have fixed paths in the guest, whatever their paths on the host
are, and the environment of the commands is fixed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

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
    """The paths in a guest of the files of one run.

    Attributes
    ----------
    folders : dict
        Value for ``Guest.folders``. :meth:`of` adds folders.
    """

    def __init__(self, out_dir: Path, programs: Path | None = None) -> None:
        self._out_dir = out_dir.resolve()
        self._inputs: dict[Path, str] = {}
        self.folders: dict[str, Folder] = {
            str(_OUT): Folder(self._out_dir, writable=True),
            str(_CODE): Folder(REPOSITORY),
            # The packages of this process, such as numpy.
            str(_PACKAGES): Folder(Path(click.__file__).parents[1]),
            str(_PYTHON): Folder(Path(sys.base_prefix)),
            str(_REPLAYER): Folder(programs or find_replayer().parent),
        }

    @property
    def cwd(self) -> Path:
        """Working folder of commands in the guest, to which they write their results."""
        return _OUT

    def of(self, path: Path) -> str:
        """Return the path in the guest of a file of the host.

        The file is read-only unless it is in the output folder of the run.
        """
        path = path.resolve()
        if path.is_relative_to(self._out_dir):
            return str(_OUT / path.relative_to(self._out_dir))
        place = self._inputs.setdefault(path.parent, str(ROOT / f"in{len(self._inputs)}"))
        self.folders[place] = Folder(path.parent)
        return f"{place}/{path.name}"

    def setup(self) -> str:
        """Return shell commands that install this project's commands in the guest."""
        python = Path(os.path.realpath(sys.executable)).relative_to(
            os.path.realpath(sys.base_prefix)
        )
        # Only the folders above are used, without site packages, which would contain paths of the
        # host.
        script = f'#!/bin/sh\nexec {_PYTHON / python} -S -m linnapp "$@"\n'
        return (
            f"mkdir -p {_BIN} {_PYCACHE}\n"
            f"printf %s {shlex.quote(script)} >{_BIN}/linnapp\n"
            f"chmod 755 {_BIN}/linnapp\n"
        )

    def environment(self, devices: Sequence[str]) -> dict[str, str]:
        """Return the value for ``Guest.environment``, which names the guest's drives."""
        return {
            "PATH": f"{_BIN}:{_REPLAYER}:{DEFAULT_PATH}",
            "TZ": "UTC",
            "PYTHONPATH": f"{_CODE}:{_PACKAGES}",
            # Compiled files next to the sources exist in some checkouts only.
            "PYTHONPYCACHEPREFIX": str(_PYCACHE),
            "PYTHONDONTWRITEBYTECODE": "",
            "LINNOS_DRIVES": ",".join(devices),
            "LINNOS_OUT": str(_OUT),
        }
