# SPDX-License-Identifier: MIT
"""Options, environment and exit handling that the commands of the lab share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from linnapp.lab.guest import REPOSITORY, Result
from linnapp.option_types import FILE, FOLDER, FiniteRange

#: Variables of the caller's environment, in addition to PATH, that a command in the lab has.
_KEPT = ("LANG", "TERM")


def guest_options(
    default_kernel: Path, made_by: str, memory_mb: int
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options and the argument of every lab command.

    The options that a command does not use itself are fields of :class:`~.guest.Guest`.
    """
    options = [
        click.option("--size-mb", default=1024, help="Size of each drive."),
        click.option(
            "--out",
            "out_dir",
            type=FOLDER,
            help="The only folder, except tmpfs, that CMD may write to. Default: none.",
        ),
        click.option(
            "--mem-mb",
            "memory_mb",
            default=memory_mb,
            help="Guest memory, including the content of emulated drives.",
        ),
        click.option(
            "--kernel",
            type=FILE,
            default=default_kernel,
            help=f"Kernel to boot. Default: the one `{made_by}` built.",
        ),
        click.option("--dmesg", type=FILE, help="Save the kernel log."),
        click.option(
            "--timeout",
            "timeout_s",
            type=FiniteRange(0, 1e9, min_open=True),
            metavar="S",
            help="Stop the guest after S seconds of real time.",
        ),
        click.option(
            "--kernel-arg", "kernel_args", multiple=True, help="Another kernel parameter."
        ),
        click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED),
    ]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def guest_environment(devices: Sequence[str], out_dir: Path | None) -> dict[str, str]:
    """Return the environment of a user's command in the lab: the drives and the search path.

    The search path has this project's commands and the caller's PATH. Commands whose output must be
    the same for every user have fixed paths instead, see :mod:`linnapp.lab.places`. The guest may
    write to `out_dir`.
    """
    path = [
        str(Path(sys.executable).parent),
        str(REPOSITORY / "build" / "replayer"),
        os.environ.get("PATH", ""),
        *("/usr/sbin", "/usr/bin", "/sbin", "/bin"),
    ]
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    out = {} if out_dir is None else {"LINNOS_OUT": str(out_dir.resolve())}
    drives = {"LINNOS_DRIVES": ",".join(devices)}
    return {**drives, "PATH": os.pathsep.join(path), **kept, **out}


def run_and_exit(boot: Callable[[], Result], dmesg: Path | None = None) -> NoReturn:
    """Boot a guest for a user's command, save the kernel log, and exit with its status."""
    if dmesg is not None:
        _check_writable(dmesg)
    # On SIGTERM, also end the guest and remove its temporary files.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    result = boot()
    if dmesg is not None:
        dmesg.write_text(result.dmesg)
    sys.exit(result.status)


def _check_writable(path: Path) -> None:
    """Fail before the boot, not after it, if a file cannot be written."""
    try:
        existed = path.exists()
        # Opening for appending keeps an existing file as it is until there is new content.
        with path.open("a"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise click.ClickException(f"--dmesg {path}: {error.strerror}") from None
