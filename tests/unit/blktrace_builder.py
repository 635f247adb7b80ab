# SPDX-License-Identifier: MIT
"""Build blktrace files event by event, for tests that no small recording covers."""

from __future__ import annotations

import struct
from pathlib import Path

_EVENT = "IIQQIIIIIHH"

Q, M, F, G, D, C, X, R, A = 1, 2, 3, 4, 7, 8, 13, 6, 15
READ, WRITE = 1 << 16, 1 << 17
NOTIFY, DISCARD, PASSTHROUGH = 1 << 26, 1 << 29, 1 << 25
CGROUP = 1 << 8
EBUSY = 16


class TraceBuilder:
    """Collects events; times are in us, sizes in bytes."""

    def __init__(self, byte_order: str = "<") -> None:
        self.byte_order = byte_order
        self.events: list[tuple[int, int, bytes]] = []
        self._sequence: dict[int, int] = {}

    def add(
        self,
        action: int,
        time_us: float,
        sector: int = 0,
        size: int = 4096,
        *,
        flags: int = READ,
        error: int = 0,
        device: int = 8 << 20,
        cpu: int = 0,
        pdu: bytes = b"",
        lost: int = 0,
    ) -> TraceBuilder:
        """Append an event; skip `lost` sequence numbers before it."""
        sequence = self._sequence.get(cpu, 0) + 1 + lost
        self._sequence[cpu] = sequence
        event = struct.pack(
            self.byte_order + _EVENT,
            0x65617407,
            sequence & 0xFFFFFFFF,
            round(time_us * 1000),
            sector,
            size,
            action | flags,
            1,
            device,
            cpu,
            error & 0xFFFF,
            len(pdu),
        )
        self.events.append((round(time_us * 1000), cpu, event + pdu))
        return self

    def io(self, start_us: float, end_us: float, sector: int, size: int = 4096, **kw: int) -> None:
        """Append the Q, D and C of a plain I/O; sort() puts them in order."""
        self.add(Q, start_us, sector, size, **kw)  # type: ignore[arg-type]
        self.add(D, start_us, sector, size, **kw)  # type: ignore[arg-type]
        self.add(C, end_us, sector, size, **kw)  # type: ignore[arg-type]

    def sort(self) -> TraceBuilder:
        """Put the events in order of time, as a kernel would have written them."""
        self.events.sort(key=lambda event: event[0])
        return self

    def bytes(self) -> bytes:
        """Return the file's content."""
        return b"".join(event for _, _, event in self.events)

    def write(self, path: Path) -> Path:
        """Write one merged file."""
        path.write_bytes(self.bytes())
        return path

    def write_per_cpu(self, base: Path) -> Path:
        """Write one file per CPU, as blktrace does; returns the base name."""
        for cpu in {cpu for _, cpu, _ in self.events}:
            path = base.with_name(f"{base.name}.blktrace.{cpu}")
            path.write_bytes(b"".join(data for _, at, data in self.events if at == cpu))
        return base
