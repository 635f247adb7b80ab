# SPDX-License-Identifier: MIT
"""Keep models current: record again, and replace models by better ones."""
