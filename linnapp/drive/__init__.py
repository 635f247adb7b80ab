# SPDX-License-Identifier: MIT
"""What touches a kernel: a drive's policy in sysfs, its state, and what is done by these."""
