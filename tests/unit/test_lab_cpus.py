# SPDX-License-Identifier: MIT
"""Check that each guest is pinned to its own CPU while there are enough CPUs."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from linnapp.lab import uml


def test_guests_at_the_same_time_have_a_cpu_each(monkeypatch: pytest.MonkeyPatch) -> None:
    # CPU numbers that no machine has, so that guests of other tests do not interfere.
    cpus = [100_001, 100_002]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cpus))
    with ExitStack() as guests:
        first, second = (guests.enter_context(uml._one_cpu()) for _ in range(2))
        assert [first, second] == cpus
        # One guest too many shares.
        assert guests.enter_context(uml._one_cpu()) in cpus
    with uml._one_cpu() as again:
        assert again == cpus[0]
