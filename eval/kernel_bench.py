# SPDX-License-Identifier: MIT
"""The programs of kernel/bench, built and run: the admission path compiled for user space."""

from __future__ import annotations

import subprocess

from eval.cache import ROOT


def run(program: str, *arguments: str, quiet: bool = False) -> None:
    """Build one of kernel/bench's programs and run it.

    Parameters
    ----------
    program : str
        A target of its makefile.
    *arguments : str
        Of the program.
    quiet : bool
        Keep the table that it prints to ourselves.

    Raises
    ------
    subprocess.CalledProcessError
        It could not be built, or failed; its own message stands on stderr.
    """
    folder = ROOT / "build" / "bench"
    build = ["make", "--no-print-directory", "-s", "-C", str(ROOT / "kernel" / "bench")]
    subprocess.run([*build, f"OUT={folder}", str(folder / program)], check=True)
    output = subprocess.DEVNULL if quiet else None
    subprocess.run([str(folder / program), *arguments], check=True, stdout=output)
