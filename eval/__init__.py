# SPDX-License-Identifier: MIT
"""Every experiment of the evaluation, every benchmark, and what they share.

`linnapp.lab.guests` records and replays in the lab, on copies of the `programs`, and `workers`
trains. `cells` and `grid` combine them into cells, the units of the evaluation, whose results the
`cache` keeps. An experiment is a `study`: it declares which cells it runs, and how their numbers
become tables and a figure. `report` and `pages` write these into documents.
"""
