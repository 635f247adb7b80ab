# SPDX-License-Identifier: MIT
"""Text formats: workloads, logs of latencies, the replayer's log, the kernel's events."""
