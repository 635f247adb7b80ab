# SPDX-License-Identifier: MIT
"""The paper's network: its floats, their training, its integers."""
