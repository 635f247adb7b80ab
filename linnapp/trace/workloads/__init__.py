# SPDX-License-Identifier: MIT
"""Synthetic workloads: arrival times, offsets and sizes of I/Os."""
