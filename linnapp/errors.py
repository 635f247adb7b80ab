# SPDX-License-Identifier: MIT
"""The errors that a user can do something about.

Every one of them names the thing, what is wrong with it, and the remedy. The command line prints
the message and exits with status 1; anything else is a bug and keeps its traceback.

Whatever reads, writes or asks a kernel raises one when it cannot. Docstrings name them where that
is not all there is to say: of the library's own functions, and of what leaves something behind.
What is called `check_...` raises the first reason that there is.

Messages name arguments as the library has them, "`allow_truncated=True`"; the command line makes
options of these (:func:`as_options`).
"""

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

#: An argument in a message, and its value.
_ARGUMENT = re.compile(r"`(\w+)=([^`]*)`")

#: Options that are named otherwise than the arguments.
_OPTIONS = {
    "device": "dev",
    "models_dir": "models",
    "source_format": "from",
    "fit_bytes": "fit",
    "slice_s": "slice",
    "max_epochs": "epochs",
}


class LinnappError(Exception):
    """Base of all errors that are the input's or the machine's, not the program's."""


class TraceError(LinnappError):
    """A trace that cannot be read or holds nothing to work with."""


class TraceWarning(UserWarning):
    """Something is wrong with a trace that is used all the same."""


class ConfWarning(UserWarning):
    """Something in a configuration file is ignored."""


class NoGainError(LinnappError):
    """A drive's reads teach nothing that would be better than admitting all of them."""


class ModelError(LinnappError):
    """A model file or weights that break the format or the kernel's limits."""


class DeviceError(LinnappError):
    """A drive that is missing, or whose kernel or driver cannot do what was asked."""


def as_options(message: str) -> str:
    """A message of the library in the words of the command line: "`device=`" is --dev there."""

    def option(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip("'\"")
        words = [f"--{_OPTIONS.get(name, name).replace('_', '-')}"]
        return " ".join(words + [value] * (value not in ("", "True")))

    return _ARGUMENT.sub(option, message)


@contextlib.contextmanager
def needs(what: str, install: str) -> Iterator[None]:
    """Import libraries that not everybody has installed, or say that `what` needs them.

    That is in the words of the message: "figures need matplotlib". `install` is what pip is to
    install.
    """
    try:
        yield
    except ImportError as error:
        command = install_command(install)
        raise LinnappError(f"{what} ({error}); install it with: {command}") from error


def install_command(libraries: str) -> str:
    """For a shell, what installs libraries, named as pip knows them, where this program finds them.

    Debian's own pip installs nothing outside of a virtual environment. The packaged command says in
    ``LINNAPP_ENVIRONMENT`` which one it looks for; a clone has one that `make venv` makes.
    """
    if sys.prefix != sys.base_prefix:
        return f"{shlex.quote(str(Path(sys.prefix, 'bin', 'pip')))} install {libraries}"
    if own := os.environ.get("LINNAPP_ENVIRONMENT"):
        own = shlex.quote(own)
        return (
            f"sudo python3 -m venv --system-site-packages {own} && "
            f"sudo {own}/bin/pip install {libraries}"
        )
    clone = Path(__file__).parents[1]
    if (clone / "Makefile").is_file():
        where = shlex.quote(str(clone))
        return f"make -C {where} venv, and run {where}/.venv/bin/linnapp"
    return f"pip install {libraries}"
