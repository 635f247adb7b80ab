# SPDX-License-Identifier: MIT
"""An array switched on in one go, and off again."""
