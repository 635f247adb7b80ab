# SPDX-License-Identifier: MIT
"""Options, environment and exit handling that the commands of the lab share."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, Protocol

import click

from linnapp.lab.guest import REPOSITORY, LabError, Result
from linnapp.option_types import FILE, FOLDER, FiniteRange

#: Variables of the caller's environment that a command in the lab also has, besides PATH.
_KEPT = ("LANG", "TERM")


class HasDevices(Protocol):
    """Drives of a guest; ``devices`` are their paths in the guest."""

    @property
    def devices(self) -> list[str]: ...


@dataclass(frozen=True)
class Asked:
    """Arguments of every lab command: the options of :func:`guest_options`, and the command."""

    size_mb: int
    out_dir: Path | None
    mem_mb: int
    kernel: Path
    dmesg: Path | None
    timeout: float | None
    kernel_arg: tuple[str, ...]
    command: tuple[str, ...]

    @property
    def of_guest(self) -> dict[str, Any]:
        """The arguments that guests of all kinds need."""
        return {
            "kernel": self.kernel,
            "memory_mb": self.mem_mb,
            "out_dir": self.out_dir,
            "kernel_args": self.kernel_arg,
            "timeout_s": self.timeout,
        }


def _announce_new_folder(
    _: click.Context, __: click.Parameter, out_dir: Path | None
) -> Path | None:
    if out_dir is not None and not out_dir.exists():
        click.echo(f"--out {out_dir} does not exist; it is created", err=True)
    return out_dir


def guest_options(
    default_kernel: Path, made_by: str, memory_mb: int
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options and the argument of every lab command.

    The command receives them as an `Asked`, its first argument.
    """
    options = [
        click.option("--size-mb", default=1024, help="Size of each drive."),
        click.option(
            "--out",
            "out_dir",
            type=FOLDER,
            callback=_announce_new_folder,
            help="The only folder, except tmpfs, that CMD may write to. Default: none.",
        ),
        click.option(
            "--mem-mb",
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
            type=FiniteRange(0, 1e9, min_open=True),
            metavar="S",
            help="Stop the guest after S seconds of real time.",
        ),
        click.option("--kernel-arg", multiple=True, help="Another kernel parameter."),
        click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED),
    ]

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(**given: Any) -> None:
            asked = Asked(**{field.name: given.pop(field.name) for field in fields(Asked)})
            function(asked, **given)

        command: Callable[..., Any] = called
        for option in reversed(options):
            command = option(command)
        return command

    return add


def guest_environment(drives: HasDevices, out_dir: Path | None) -> dict[str, str]:
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
    environment = {"LINNOS_DRIVES": ",".join(drives.devices), "PATH": os.pathsep.join(path)}
    for name in _KEPT:
        if name in os.environ:
            environment[name] = os.environ[name]
    if out_dir is not None:
        environment["LINNOS_OUT"] = str(out_dir.resolve())
    return environment


def run_and_exit(boot: Callable[[], Result], dmesg: Path | None) -> NoReturn:
    """Boot a guest for a user's command, save the kernel log, and exit with its status."""
    if dmesg is not None:
        _check_writable(dmesg)
    # On SIGTERM, also end the guest and remove its temporary files.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        result = boot()
    except (LabError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    if dmesg is not None:
        try:
            dmesg.write_text(result.dmesg)
        except OSError as error:
            raise click.ClickException(f"--dmesg {dmesg}: {error.strerror}") from None
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
