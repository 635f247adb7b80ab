# SPDX-License-Identifier: MIT
"""Storage engines for the nodes of a cluster in the lab, one module each."""
