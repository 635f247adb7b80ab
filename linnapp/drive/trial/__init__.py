# SPDX-License-Identifier: MIT
"""Whether choosing is worth it, tried on and off in turn."""
