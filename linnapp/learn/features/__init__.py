# SPDX-License-Identifier: MIT
"""Input features of a model, as digits, from recorded reads and from synthetic bursts."""
