# SPDX-License-Identifier: MIT
"""Every experiment of the evaluation, one module each.

`loop` records, trains and replays in the lab; the experiments only say with
what. `figures` draws, from data files alone.
"""
