# SPDX-License-Identifier: MIT
"""Training: from recorded reads to a model. Labelling, features, networks, trees, validation."""
