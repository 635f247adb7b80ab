# SPDX-License-Identifier: MIT
"""Latency models: boosted trees, and hedging tables."""
