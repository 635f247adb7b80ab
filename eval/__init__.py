# SPDX-License-Identifier: MIT
"""Every experiment of the evaluation.

`loop` records, trains and replays in the lab; an experiment says with what, and
how its data file becomes tables, words and a figure. `figures` is what these share.
"""
