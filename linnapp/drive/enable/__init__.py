# SPDX-License-Identifier: MIT
"""Switch an array on with all necessary steps, and off again."""
