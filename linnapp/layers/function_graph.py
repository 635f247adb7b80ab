# SPDX-License-Identifier: MIT
"""What the kernel's function graph tracer recorded: time by function, group and system call.

The recordings are added up by ``linnapp/native/function_graph.c``; nothing here is done per event.
"""

from __future__ import annotations

import bisect
import ctypes
import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.layers.function_groups import GROUPS, system_call
from linnapp.native import declared, native, of_one_kind

#: A recorded address is that of the call to the tracer, at most so far into its function.
_MOST_INTO = 32


class Layout(ctypes.Structure):
    """Where things are in a recording: ``struct lg_layout``."""

    _fields_ = of_one_kind(
        ctypes.c_uint32,
        *("page_bytes", "commit_at", "data_at", "exit_type", "pid_at", "function_at"),
        *("depth_at", "begin_at", "end_at", "exit_bytes"),
    )


class _Row(ctypes.Structure):
    _fields_ = (
        *of_one_kind(ctypes.c_uint64, "call", "function", "calls", "total_ns"),
        ("self_ns", ctypes.c_int64),
        ("children", ctypes.c_uint64),
    )


class _TracerCounts(ctypes.Structure):
    _fields_ = of_one_kind(ctypes.c_uint64, "events", "missed", "cut", "rows")


@functools.cache
def _library() -> ctypes.CDLL:
    sums, names = ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)
    layout, counts = ctypes.POINTER(Layout), ctypes.POINTER(_TracerCounts)
    return declared(
        native(),
        lg_add_up=(sums, names, ctypes.c_int32, layout, counts),
        lg_rows=(None, sums, ctypes.POINTER(_Row)),
        lg_free=(None, sums),
    )


@dataclasses.dataclass(frozen=True)
class Overhead:
    """What the tracer adds to each function that it traces."""

    #: To the function's own time, as recorded.
    inside_ns: float
    #: To that of the function that called it.
    outside_ns: float

    @property
    def function_ns(self) -> float:
        """Both."""
        return self.inside_ns + self.outside_ns


@dataclasses.dataclass(frozen=True)
class Function:
    """A function within one kind of system call."""

    name: str
    group: str
    calls: int
    #: In it and in what it called.
    total_ns: int
    #: Of that, outside of the traced functions that it called.
    self_ns: int
    #: Traced functions that it called itself.
    children: int

    def own_ns(self, overhead: Overhead) -> float:
        """Time of its own without what tracing it, and those it called, has added."""
        return self.self_ns - overhead.inside_ns * self.calls - overhead.outside_ns * self.children


@dataclasses.dataclass(frozen=True)
class GroupTime:
    """A group's part in a system call, of all its calls together."""

    #: Of its functions.
    calls: int
    #: Without what tracing has added.
    us: float
    #: With it.
    measured_us: float
    #: `share`, `measured_share`: of the system call's time, each of its own kind.
    share: float
    measured_share: float


@dataclasses.dataclass(frozen=True)
class Call:
    """A kind of system call."""

    name: str
    calls: int
    #: By time of their own, longest first.
    functions: list[Function]

    @property
    def measured_us(self) -> float:
        """Time of all its calls, as recorded."""
        return sum(function.self_ns for function in self.functions) / 1000

    def groups(self, overhead: Overhead) -> dict[str, GroupTime]:
        """Its groups that occur, in the order of :data:`GROUPS`' keys."""
        found = {}
        us = {
            group: sum(f.own_ns(overhead) for f in self.functions if f.group == group) / 1000
            for group in GROUPS
        }
        # Beyond what is measured of functions of a few ns nothing is left of them.
        us = {group: max(0.0, time) for group, time in us.items()}
        whole, whole_measured = sum(us.values()), self.measured_us
        for group in GROUPS:
            functions = [f for f in self.functions if f.group == group]
            if functions:
                measured_us = sum(f.self_ns for f in functions) / 1000
                found[group] = GroupTime(
                    sum(f.calls for f in functions),
                    us[group],
                    measured_us,
                    us[group] / whole if whole else 0.0,
                    measured_us / whole_measured if whole_measured else 0.0,
                )
        return found

    def to_json(self, overhead: Overhead) -> dict[str, Any]:
        """Everything; times in us are of all calls together."""
        groups = self.groups(overhead)
        return {
            "call": self.name,
            "calls": self.calls,
            "us": sum(group.us for group in groups.values()),
            "measured_us": self.measured_us,
            "traced_functions": sum(f.calls for f in self.functions),
            "groups": {name: dataclasses.asdict(group) for name, group in groups.items()},
            "functions": [
                {
                    "name": f.name,
                    "group": f.group,
                    "calls": f.calls,
                    "us": max(0.0, f.own_ns(overhead)) / 1000,
                    "measured_us": f.self_ns / 1000,
                    "with_called_us": f.total_ns / 1000,
                }
                for f in self.functions
            ],
        }


@dataclasses.dataclass(frozen=True)
class FunctionTimes:
    """What a recording came to."""

    #: System calls, longest first.
    calls: list[Call]
    #: In traced functions outside of these: page faults, exec, other system calls.
    outside_us: float
    #: Functions that returned.
    events: int
    #: Times that events were lost, the buffer being full.
    missed: int
    #: Calls left out, as a part of them was lost.
    cut: int


def add_up(
    recordings: Sequence[AnyPath], layout: Layout, groups: Mapping[str, str], symbols: Symbols
) -> FunctionTimes:
    """Read the recordings of all CPUs."""
    library = _library()
    paths = (ctypes.c_char_p * len(recordings))(*(os.fsencode(path) for path in recordings))
    counts = _TracerCounts()
    sums = library.lg_add_up(paths, len(recordings), layout, counts)
    if not sums:
        raise TraceError(
            "what the function graph tracer has recorded cannot be read: it is not laid out as "
            "the kernel's files under events/ftrace say, or memory or the file is at an end"
        )
    rows = (_Row * counts.rows)()
    try:
        library.lg_rows(sums, rows)
    finally:
        library.lg_free(sums)
    by_call: dict[int, list[_Row]] = {}
    for row in rows:
        by_call.setdefault(row.call, []).append(row)
    calls: list[Call] = []
    outside_ns = 0
    for address, parts in by_call.items():
        name = system_call(symbols.name(address) or "")
        if name is None:
            outside_ns += sum(part.self_ns for part in parts)
            continue
        functions = []
        for part in parts:
            function = symbols.name(part.function) or hex(part.function)
            group = groups.get(function, "other")
            functions.append(
                Function(function, group, part.calls, part.total_ns, part.self_ns, part.children)
            )
        functions.sort(key=lambda f: f.self_ns, reverse=True)
        n = next(part.calls for part in parts if part.function == address)
        calls.append(Call(name, n, functions))
    calls.sort(key=lambda call: call.measured_us, reverse=True)
    return FunctionTimes(calls, outside_ns / 1000, counts.events, counts.missed, counts.cut)


class Symbols:
    """Names, of those wanted, of functions by their addresses: lines as in ``/proc/kallsyms``."""

    def __init__(self, lines: Iterable[str], names: Mapping[str, str]) -> None:
        found = []
        for line in lines:
            address, _, name = line.split()[:3]
            if name in names:
                found.append((int(address, 16), name))
        found.sort()
        self._addresses = [address for address, _ in found]
        self._names = [name for _, name in found]

    def __len__(self) -> int:
        return len(self._names)

    def name(self, address: int) -> str | None:
        """The function at `address`, or a few bytes before."""
        at = bisect.bisect_right(self._addresses, address) - 1
        if at < 0 or address - self._addresses[at] > _MOST_INTO:
            return None
        return self._names[at]
