# SPDX-License-Identifier: MIT
"""Programs' storage calls, watched: recorded through BPF, put into words, asked and sent."""
