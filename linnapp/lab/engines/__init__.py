# SPDX-License-Identifier: MIT
"""What runs on the nodes of a cluster in the lab: a module an engine."""
