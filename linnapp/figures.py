# SPDX-License-Identifier: MIT
"""Where the library's figures are drawn."""

from __future__ import annotations

from typing import Any

from linnapp.errors import needs


def axes_for(axes: Any = None) -> Any:
    """The axes that were given, or new ones, which a notebook shows.

    Raises
    ------
    LinnappError
        If matplotlib is not installed.
    """
    if axes is not None:
        return axes
    with needs("figures need matplotlib", "matplotlib"):
        from matplotlib import pyplot
    return pyplot.subplots(layout="constrained")[1]
