# SPDX-License-Identifier: MIT
"""What a system call's time went into, in words."""

from __future__ import annotations

from collections.abc import Mapping

#: by the names of linnapp.watch.reader.PARTS
WORDS = {
    "on_cpu_ns": "on a CPU",
    "io_wait_ns": "its own I/Os",
    "others_io_wait_ns": "others' I/Os",
    "journal_wait_ns": "the journal",
    "other_wait_ns": "locks and all else",
    "wakeup_ns": "waking up",
    "preempted_ns": "preempted",
}


def shares(parts: Mapping[str, float | None]) -> str:
    """Those parts that are not nothing, as shares of the whole; empty if nothing is known."""
    known = {part: parts[part] or 0 for part in WORDS}
    whole = sum(known.values())
    return ", ".join(
        f"{WORDS[part]} {value / whole:.1%}" for part, value in known.items() if value > 0
    )
