# SPDX-License-Identifier: MIT
"""Periodic snapshots of the kernel's counters of drives."""
