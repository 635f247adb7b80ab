# SPDX-License-Identifier: MIT
"""Labelling: the latency above which a read is slow, and the reads that are labelled slow."""
