# SPDX-License-Identifier: MIT
"""From reads to a model: labelling, features, network or trees, judging."""
