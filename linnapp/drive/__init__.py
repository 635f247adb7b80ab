# SPDX-License-Identifier: MIT
"""Access to the kernel: a drive's policy in sysfs, its saved state, and operations on both."""
