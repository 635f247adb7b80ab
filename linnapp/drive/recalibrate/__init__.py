# SPDX-License-Identifier: MIT
"""Models kept current: recorded again, and replaced by what is better."""
