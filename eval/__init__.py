# SPDX-License-Identifier: MIT
"""Every experiment of the evaluation, every benchmark, and what they share.

`guests` records and replays in the lab, on copies of the `programs`, and `workers` trains; `cells`
and `grid` make of these the evaluation's unit, kept in the `cache`. An experiment says with what,
and how its data file becomes tables, words and a figure, with `metrics` and `figures`; `report`
puts them on one page.
"""
