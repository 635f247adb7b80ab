# SPDX-License-Identifier: MIT
"""What a model sees of reads: features, as digits, of what was recorded and what is added."""
