# SPDX-License-Identifier: MIT
"""Workloads that are made: when I/Os arrive, where they go, how large they are."""
