# SPDX-License-Identifier: MIT
"""I/Os: drives recorded, traces read and looked at; of text in `formats`, made in `workloads`."""
