# SPDX-License-Identifier: MIT
"""Measure the benefit of choosing mirrors by switching it on and off alternately."""
