# SPDX-License-Identifier: MIT
"""``python -m linnapp``: the same as the ``linnapp`` command."""

from linnapp.cli import main

if __name__ == "__main__":
    main()
