# SPDX-License-Identifier: MIT
"""What commands draw: on a terminal, as a page, in words."""
