# SPDX-License-Identifier: MIT
"""Show where time goes: system calls, block I/Os, kernel functions, drives and decisions."""
