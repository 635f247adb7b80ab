# SPDX-License-Identifier: MIT
"""Development and evaluation share no seed, not even that of a single drive."""

from __future__ import annotations

from itertools import pairwise

from eval import seeds


def _blocks(development: bool) -> set[int]:
    return {seed + drive for seed in seeds.repeats(development) for drive in range(seeds.BLOCK)} | {
        seeds.window_base(development) + i for i in range(seeds.MAX_WINDOWS)
    }


def test_development_and_evaluation_are_disjoint() -> None:
    assert not _blocks(True) & _blocks(False)


def test_repeats_of_one_kind_do_not_overlap() -> None:
    for development in (True, False):
        repeats = sorted(seeds.repeats(development))
        assert all(b - a >= seeds.BLOCK for a, b in pairwise(repeats))


def test_fewer_seeds_are_a_prefix() -> None:
    for development in (True, False):
        assert len(seeds.repeats(development)) == 5
        assert seeds.repeats(development, 2) == seeds.repeats(development)[:2]
