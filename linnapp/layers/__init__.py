# SPDX-License-Identifier: MIT
"""Where the time of I/Os goes: by the block layer's stages, and by the kernel's functions."""
