# SPDX-License-Identifier: MIT
"""The subcommands of ``linnapp``, one module each; they only parse options and print results."""
