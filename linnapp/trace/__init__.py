# SPDX-License-Identifier: MIT
"""Recording drives, and reading, converting and making traces."""
