# SPDX-License-Identifier: MIT
"""What the kernel counts of drives, looked at again and again."""
