# SPDX-License-Identifier: MIT
"""The features of a read in plain Python: docs/formats.md, "Features", in lists and loops.

Tests compare the compiled core with it; it shares no code with the core.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

#: Bytes of a page, the largest reads of the first two orders of size, and the most pages counted.
PAGE = 4096
ORDERS = (64 << 10, 1 << 20)
PAGES_MAX = 65535

#: Limits of features and regions; the number of reads whose begin is remembered, and of past reads.
CAP = 2**24 - 1
REGION, REGIONS = 8192, 64
WATCHED_MAX = 128
HISTORY = 4


@dataclasses.dataclass(eq=False)
class Io:
    """An I/O of a log; without `on_drive` it only queries."""

    arrival_ns: int
    latency_ns: int
    sector: int
    size_bytes: int
    is_read: bool = True
    answered: bool = True
    on_drive: bool = True
    #: pages pending when it arrived, if the log says so
    pending: int | None = None
    #: Set later: True if its begin is remembered, and its index among completed reads.
    watched: bool = False
    nr: int = 0

    @property
    def end_ns(self) -> int:
        return self.arrival_ns + self.latency_ns

    @property
    def pages(self) -> int:
        return min(-(-self.size_bytes // PAGE), PAGES_MAX)

    @property
    def region(self) -> int:
        return self.sector * 512 // REGION % REGIONS

    @property
    def order(self) -> int:
        pages = [size // PAGE for size in ORDERS]
        return sum(self.pages > largest for largest in pages)


@dataclasses.dataclass
class Found:
    """The features of an I/O: the last reads, oldest first, None for missing ones."""

    pending: int
    past: list[Io | None]
    features: list[int]


class ReferenceDrive:
    """A drive that follows starts and ends of I/Os."""

    def __init__(self, overdue_us: int) -> None:
        self.overdue_us = overdue_us
        self.in_flight: list[Io] = []
        self.history: list[Io] = []

    def begin(self, io: Io) -> None:
        io.watched = io.is_read and sum(other.watched for other in self.in_flight) < WATCHED_MAX
        self.in_flight.append(io)

    def end_until(self, now_ns: int) -> None:
        """End all I/Os up to this time; simultaneous ones in order of submission."""
        over = [io for io in self.in_flight if io.end_ns <= now_ns]
        self.in_flight = [io for io in self.in_flight if io.end_ns > now_ns]
        for io in sorted(over, key=lambda io: io.end_ns):
            if io.is_read and io.answered:
                self.history.append(io)
                io.nr = len(self.history)

    def find(self, io: Io) -> Found:
        reads = [other for other in self.in_flight if other.is_read]
        read_pages = sum(other.pages for other in reads)
        write_pages = sum(other.pages for other in self.in_flight if not other.is_read)
        ages_ns = [io.arrival_ns - other.arrival_ns for other in reads if other.watched]
        latest: list[Io | None] = []
        for other in reversed(self.history):
            if len(latest) == HISTORY:
                break
            if other.order <= io.order:
                latest.append(other)
        latest += [None] * (HISTORY - len(latest))
        features = [
            io.pages,
            read_pages,
            write_pages,
            len(reads),
            max(ages_ns, default=0) // 1000,
            sum(age_ns > 1000 * self.overdue_us for age_ns in ages_ns),
        ]
        for past in latest:
            if past is None:
                features += [0, 0, 0, CAP]
            else:
                age_us = (io.arrival_ns - past.end_ns) // 1000
                features += [past.latency_ns // 1000, past.pending or 0, past.pages, age_us]
        features.append(sum(other.region == io.region for other in reads))
        return Found(
            read_pages + write_pages + io.pages,
            latest[::-1],
            [min(number, CAP) for number in features],
        )


def walk(ios: Iterable[Io], overdue_us: int, *, ties_in_order: bool) -> Iterator[Found]:
    """Return the features of each I/O of a log, in order of arrival."""
    drive = ReferenceDrive(overdue_us)
    of_this_instant: list[Io] = []
    for io in ios:
        if ties_in_order or (of_this_instant and of_this_instant[0].arrival_ns < io.arrival_ns):
            for other in of_this_instant:
                drive.begin(other)
            of_this_instant = []
        drive.end_until(io.arrival_ns)
        found = drive.find(io)
        if io.on_drive:
            io.pending = min(found.pending if io.pending is None else io.pending, PAGES_MAX)
            of_this_instant.append(io)
        yield found
