# SPDX-License-Identifier: MIT
"""Text formats: workloads, latency logs, the replayer's log, and the kernel's events."""
