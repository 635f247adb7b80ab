# SPDX-License-Identifier: MIT
"""The network of the paper: its float form, its training, and its quantisation."""
