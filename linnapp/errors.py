# SPDX-License-Identifier: MIT
"""Errors that a user can fix.

Each message names the object, the problem, and the remedy. The command line prints
the message and exits with status 1; any other exception is a bug and keeps its traceback.

Functions that read files, write files or query a kernel raise one of these if that fails.
Docstrings list them only in functions of the library, and where something remains after a
failure. Functions named `check_...` raise an error for the first problem found.

Messages name arguments as in the library, "`allow_truncated=True`"; the command line converts
them to options (:func:`as_options`).
"""

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

#: An argument and its value in a message.
_ARGUMENT = re.compile(r"`(\w+)=([^`]*)`")

#: Options whose names differ from those of the arguments.
_OPTIONS = {
    "device": "dev",
    "models_dir": "models",
    "source_format": "from",
    "fit_bytes": "fit",
    "slice_s": "slice",
    "max_epochs": "epochs",
}


class LinnappError(Exception):
    """Base of all errors that are caused by the input or the machine, not by the program."""


class TraceError(LinnappError):
    """A trace that cannot be read or contains no usable data."""


class EmptyTraceError(TraceError):
    """A trace without any read or write."""


class TraceWarning(UserWarning):
    """A problem in a trace that is nevertheless used."""


class ConfWarning(UserWarning):
    """Something in a configuration file is ignored."""


class NoGainError(LinnappError):
    """No model of this drive's reads would be better than admitting all of them."""


class ModelError(LinnappError):
    """A model file or weights that violate the format or the kernel's limits."""


class DeviceError(LinnappError):
    """A drive is missing, or its kernel or driver does not support an operation."""


@contextlib.contextmanager
def errors_about(name: object) -> Iterator[None]:
    """Let the errors in the block name the file or the recording that they are about."""
    try:
        yield
    except LinnappError as error:
        raise type(error)(f"{name}: {error}") from error


def as_options(message: str) -> str:
    """Return a message with arguments replaced by options, for example "`device=`" by --dev."""

    def option(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip("'\"")
        flag = f"--{_OPTIONS.get(name, name).replace('_', '-')}"
        return flag if value in ("", "True") else f"{flag} {value}"

    return _ARGUMENT.sub(option, message)


@contextlib.contextmanager
def needs(what: str, install: str) -> Iterator[None]:
    """Import optional libraries in the block; if one is missing, say how to install it.

    `what` begins the message: "figures need matplotlib". `install` names an extra of this package
    for pip, quoted for a shell.
    """
    try:
        yield
    except ImportError as error:
        command = install_command(install)
        raise LinnappError(f"{what} ({error}); install it with: {command}") from error


def install_command(libraries: str) -> str:
    """Return a shell command that installs libraries where this program finds them.

    The libraries are named as in pip. Debian's own pip installs nothing outside a virtual
    environment. The packaged command sets ``LINNAPP_ENVIRONMENT`` to the environment that it uses;
    in a clone, `make venv` creates one.
    """
    if sys.prefix != sys.base_prefix:
        return f"{shlex.quote(str(Path(sys.prefix, 'bin', 'pip')))} install {libraries}"
    if environment := os.environ.get("LINNAPP_ENVIRONMENT"):
        folder = shlex.quote(environment)
        return (
            f"sudo python3 -m venv --system-site-packages {folder} && "
            f"sudo {folder}/bin/pip install {libraries}"
        )
    clone = Path(__file__).parents[1]
    if (clone / "Makefile").is_file():
        folder = shlex.quote(str(clone))
        return f"make -C {folder} venv, and run {folder}/.venv/bin/linnapp"
    return f"pip install {libraries}"
