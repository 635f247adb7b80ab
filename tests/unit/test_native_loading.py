# SPDX-License-Identifier: MIT
"""Compiled libraries are loaded once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from linnapp.native import Library, loaded_once


def test_loaded_once_loads_once_when_threads_call_at_the_same_time() -> None:
    """Structures that another copy of the declarations made are rejected by cffi."""
    libraries: list[object] = []

    @loaded_once
    def library() -> Library:
        time.sleep(0.05)
        libraries.append(object())
        return Library(libraries[-1], None)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: library(), range(4)))
    assert len(libraries) == 1 and all(each is found[0] for each in found)
    loader: Any = library
    loader.cache_clear()
    assert library() is not found[0]
