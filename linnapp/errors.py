# SPDX-License-Identifier: MIT
"""The errors that a user can do something about.

Every one of them names the thing, what is wrong with it, and the remedy. The command line prints
the message and exits with status 1; anything else is a bug and keeps its traceback.
"""

import contextlib
from collections.abc import Iterator


class LinnappError(Exception):
    """Base of all errors that are the input's or the machine's, not the program's."""


class TraceError(LinnappError):
    """A trace that cannot be read or holds nothing to work with."""


class NoGainError(LinnappError):
    """A drive's reads teach nothing that would be better than admitting all of them."""


class ModelError(LinnappError):
    """A model file or weights that break the format or the kernel's limits."""


class DeviceError(LinnappError):
    """A drive that is missing, or whose kernel or driver cannot do what was asked."""


@contextlib.contextmanager
def needs(what: str, install: str) -> Iterator[None]:
    """Import libraries that not everybody has installed.

    Parameters
    ----------
    what : str
        What needs which library, in the words of the message: "figures need matplotlib".
    install : str
        What pip is to install.

    Raises
    ------
    LinnappError
        If an import in the block fails.
    """
    try:
        yield
    except ImportError as error:
        raise LinnappError(f"{what} ({error}); install it with: pip install {install}") from error
