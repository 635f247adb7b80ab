# SPDX-License-Identifier: MIT
"""I/O traces: recording drives, reading and inspecting traces, text formats, and workloads."""
