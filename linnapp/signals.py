# SPDX-License-Identifier: MIT
"""Signals: what ends this program waits until it may come, and its processes end with it."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
from collections.abc import Callable, Iterator

#: linux/prctl.h
_PR_SET_PDEATHSIG = 1
# Not after a fork, where another thread may have held the loader's lock.
_prctl = ctypes.CDLL(None).prctl


def end_with_parent(number: signal.Signals) -> None:
    """Have this process sent a signal when its parent ends, even if that is killed."""
    _prctl(_PR_SET_PDEATHSIG, number)


@contextlib.contextmanager
def signals_held(*numbers: signal.Signals) -> Iterator[Callable[[], None]]:
    """Have what ends this program (ctrl-C, SIGTERM and SIGHUP unless given) come afterwards.

    So nothing is left half done. Yielded is what lets in what has come so far, where it may: ctrl-C
    raises KeyboardInterrupt there.
    """
    held: list[int] = []
    numbers = numbers or (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    # Those that are ignored, or that end the program without its doing, stay as they are; only
    # the first thread may change any.
    if threading.current_thread() is not threading.main_thread():
        before.clear()
    taken = {number: handler for number, handler in before.items() if callable(handler)}
    for number in taken:
        signal.signal(number, lambda number, _: held.append(number))

    def let_in() -> None:
        while held:
            number = held.pop(0)
            taken[signal.Signals(number)](number, None)

    try:
        yield let_in
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)
        let_in()
