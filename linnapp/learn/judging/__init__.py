# SPDX-License-Identifier: MIT
"""What a model is worth, and whether that is more than chance."""
