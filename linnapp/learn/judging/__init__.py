# SPDX-License-Identifier: MIT
"""Validation: the benefit of a model, and its statistical significance."""
