# SPDX-License-Identifier: MIT
"""Models of latencies: boosted trees, and when to hedge by them."""
