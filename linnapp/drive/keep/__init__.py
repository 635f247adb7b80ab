# SPDX-License-Identifier: MIT
"""The kill switch: what was foreseen, what is seen, what was switched back."""
