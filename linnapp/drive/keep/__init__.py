# SPDX-License-Identifier: MIT
"""The watchdog: expectations from training, measured values, and what was switched back."""
