# SPDX-License-Identifier: MIT
"""From reads to a model: features, labels, training, quantisation, judging."""
