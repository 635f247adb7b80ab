# SPDX-License-Identifier: MIT
"""The subcommands of ``linnapp``, one module each; they parse options and print, nothing more."""
