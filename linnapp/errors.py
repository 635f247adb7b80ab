# SPDX-License-Identifier: MIT
"""The errors that a user can do something about.

Every one of them names the thing, what is wrong with it, and the remedy. The command line prints
the message and exits with status 1; anything else is a bug and keeps its traceback.
"""


class LinnappError(Exception):
    """Base of all errors that are the input's or the machine's, not the program's."""


class TraceError(LinnappError):
    """A trace that cannot be read or holds nothing to work with."""


class ModelError(LinnappError):
    """A model file or weights that break the format or the kernel's limits."""


class DeviceError(LinnappError):
    """A drive that is missing, or whose kernel or driver cannot do what was asked."""
