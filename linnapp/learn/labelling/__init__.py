# SPDX-License-Identifier: MIT
"""From which latency on a read is slow, and which reads are taught as slow."""
