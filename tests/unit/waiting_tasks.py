# SPDX-License-Identifier: MIT
"""A program whose tasks wait in separate processes; each writes its PID to its file.

A task that is interrupted writes that to another file and continues to wait.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import click

from linnapp.learn.parallel import Pool, Task

NAMES = ("a", "b")


def begun(process: subprocess.Popen[bytes], folder: Path) -> list[Path]:
    """Return the files with the PIDs, once they exist."""
    files = [folder / name for name in NAMES]
    while process.poll() is None and not all(path.exists() for path in files):
        time.sleep(0.01)
    return files


def _wait(name: str, _: object) -> None:
    new = Path(f"{name}.new")
    new.write_text(str(os.getpid()))
    new.rename(name)
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        Path(f"{name}.told").touch()
        time.sleep(600)


@click.command()
def wait() -> None:
    with Pool(2) as pool:
        pool.run([Task(name, _wait, (name,)) for name in NAMES], None, keep_interrupted=True)


if __name__ == "__main__":
    wait()
