# SPDX-License-Identifier: MIT
"""Signals: delay those that end this program, and end child processes with their parent."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
from collections.abc import Callable, Iterator

#: From linux/prctl.h.
_PR_SET_PDEATHSIG = 1
# Not loaded after a fork, when another thread may have held the loader's lock.
_prctl = ctypes.CDLL(None).prctl


def end_with_parent(number: signal.Signals) -> None:
    """Let the kernel send this process a signal when its parent ends, even if that is killed."""
    _prctl(_PR_SET_PDEATHSIG, number)


@contextlib.contextmanager
def signals_held(*numbers: signal.Signals) -> Iterator[Callable[[], None]]:
    """Delay signals that end this program (ctrl-C, SIGTERM and SIGHUP by default) until the end.

    The block is then never left half done. Yield a function that delivers the signals received so
    far, for points at which this is safe. After ctrl-C, it raises KeyboardInterrupt.
    """
    held: list[int] = []
    numbers = numbers or (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    # Signals that are ignored, or that end the program without a handler, are not changed; only
    # the main thread may change any.
    if threading.current_thread() is not threading.main_thread():
        before.clear()
    replaced = {number: handler for number, handler in before.items() if callable(handler)}
    for number in replaced:
        signal.signal(number, lambda number, _: held.append(number))

    def deliver() -> None:
        while held:
            number = held.pop(0)
            replaced[signal.Signals(number)](number, None)

    try:
        yield deliver
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        deliver()
