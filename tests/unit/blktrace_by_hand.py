# SPDX-License-Identifier: MIT
"""I/Os of a recording and their features, sector by sector, as docs/formats.md defines them."""

from __future__ import annotations

import collections
import dataclasses
import math
import struct
from pathlib import Path

from blktrace_builder import DISCARD, EBUSY, NOTIFY, PASSTHROUGH, WRITE, C, D, F, G, M, Q, R, X

EAGAIN = 11
CAP = 2**24 - 1


def size_class(pages: int) -> int:
    """Return the size class: up to 64 KiB, up to 1 MiB, larger."""
    return int(pages > 16) + int(pages > 256)


@dataclasses.dataclass
class CompletedRead:
    """A read request that the drive has answered."""

    end_ns: int
    latency_us: int
    pending: int
    pages: int


@dataclasses.dataclass(eq=False)
class Request:
    """A request to the drive."""

    write: bool
    number: int
    sectors: dict[int, Io] = dataclasses.field(default_factory=dict)
    pages: int | None = None  # not counted yet
    region: int = 0
    pending: int = 0
    counted_ns: int = 0
    issued: bool = False
    first_issue_ns: int | None = None
    answered: bool = False

    @property
    def state(self) -> int:
        """0 if queued, 1 if at the block layer, 2 if at the drive."""
        return 2 if self.issued else int(self.pages is not None)


@dataclasses.dataclass(eq=False)
class Io:
    """An I/O as submitted."""

    arrival_ns: int
    write: bool
    left: int  # sectors
    pending: int = 0
    hist_pending: list[int] = dataclasses.field(default_factory=lambda: [0] * 4)
    hist_latency_us: list[int] = dataclasses.field(default_factory=lambda: [0] * 4)
    features: list[int] = dataclasses.field(default_factory=lambda: [0] * 23)
    latency_ns: int = 0
    completed: bool = False
    error: bool = False
    revoked: bool = False
    was_issued: bool = False


class Drive:
    """A drive that follows events; `ios` are in order of arrival."""

    def __init__(self, overdue_us: int, unit_bytes: int) -> None:
        self.overdue_us = overdue_us
        #: The size of a "sector" in this module; every event affects whole sectors.
        self.unit_bytes = unit_bytes
        self.ios: list[Io] = []
        self.requests: dict[int, Request] = {}
        self.holders: dict[tuple[bool, int], list[Request]] = collections.defaultdict(list)
        #: The history of completed reads of each size class and of smaller ones.
        self.history: list[list[CompletedRead]] = [[], [], []]
        self.has_requests = False
        self.numbers = 0

    def see(self, action: int, now: int, sector: int, size: int, write: bool, error: int) -> None:
        """Process one event."""
        sector, size = sector * 512 // self.unit_bytes, size // self.unit_bytes
        sectors = range(sector, sector + size)
        if action == Q:
            self.submit(now, sectors, write)
        elif action == X:
            self.cut(self.choose(sector, write, (0, 1), None), sectors.stop, now)
        elif action == G:
            for request in self.requests.values() if not self.has_requests else ():
                request.pages = request.pages if request.issued else None
            self.has_requests = True
            request = self.choose(sector, write, (0, 1), None)
            self.cut(request, sectors.stop, now)
            self.count(request, now)
        elif action in (M, F):
            self.merge(sectors, write, action == F, now)
        elif action == D:
            self.issue(sectors, write, now)
        elif action == R:
            request = self.choose(sector, write, (2, 1, 0), None)
            if request:
                request.issued = False
        elif action == C:
            self.answer(sectors, write, abs(error), now)

    def new_request(self, write: bool) -> Request:
        self.numbers += 1
        self.requests[self.numbers] = Request(write, self.numbers)
        return self.requests[self.numbers]

    def hold(self, request: Request, sector: int, io: Io) -> None:
        request.sectors[sector] = io
        self.holders[request.write, sector].append(request)

    def let_go(self, request: Request, sector: int) -> Io:
        self.holders[request.write, sector].remove(request)
        return request.sectors.pop(sector)

    def choose(
        self, sector: int, write: bool, states: tuple[int, ...], same: Request | None,
        youngest: bool = False,
    ) -> Request | None:  # fmt: skip
        """Return the request with that sector in the wanted state; of several, the oldest one."""
        found = [r for r in self.holders[write, sector] if r.state in states]
        if same in found:
            return same
        sign = -1 if youngest else 1
        found.sort(key=lambda request: (states.index(request.state), sign * request.number))
        return found[0] if found else None

    def submit(self, now: int, sectors: range, write: bool) -> None:
        io = Io(now, write, len(sectors))
        self.ios.append(io)
        self.look(io, sectors.start, now)
        request = self.new_request(write)
        for at in sectors:
            self.hold(request, at, io)
        if not self.has_requests:
            self.count(request, now)

    def pages_of(self, sectors: int) -> int:
        return math.ceil(sectors * self.unit_bytes / 4096)

    def in_flight(self, write: bool) -> list[Request]:
        every = self.requests.values()
        return [r for r in every if r.pages is not None and r.write == write]

    def pages_in_flight(self, write: bool) -> int:
        return sum(request.pages for request in self.in_flight(write))

    def region_of(self, sector: int) -> int:
        return sector * self.unit_bytes // 8192 % 64

    def look(self, io: Io, sector: int, now: int) -> None:
        own = self.pages_of(io.left)
        reads, writes = self.pages_in_flight(False), self.pages_in_flight(True)
        io.pending = reads + writes + own
        if io.write:
            return
        seen = self.history[size_class(own)][-4:]
        io.hist_pending = [0] * (4 - len(seen)) + [ended.pending for ended in seen]
        io.hist_latency_us = [0] * (4 - len(seen)) + [ended.latency_us for ended in seen]
        since = [request.counted_ns for request in self.in_flight(False)]
        io.features = [
            *(own, reads, writes, len(since)),
            min(CAP, (now - min(since)) // 1000) if since else 0,
            sum(start + self.overdue_us * 1000 < now for start in since),
        ]
        for ended in reversed(seen):
            age_us = min(CAP, (now - ended.end_ns) // 1000)
            io.features += [min(CAP, ended.latency_us), ended.pending, ended.pages, age_us]
        io.features += [0, 0, 0, CAP] * (4 - len(seen))
        region = self.region_of(sector)
        io.features.append(sum(r.region == region for r in self.in_flight(False)))

    def count(self, request: Request | None, now: int) -> None:
        if request is None or request.pages is not None:
            return
        request.pages = self.pages_of(len(request.sectors))
        request.region = self.region_of(min(request.sectors))
        request.pending = self.pages_in_flight(False) + self.pages_in_flight(True)
        request.counted_ns = now

    def cut(self, request: Request | None, sector: int, now: int) -> None:
        """Split the request; the part behind becomes a separate request."""
        later = [at for at in request.sectors if at >= sector] if request else []
        if not later:
            return
        other = self.new_request(request.write)
        for at in later:
            self.hold(other, at, self.let_go(request, at))
        other.issued, other.first_issue_ns = request.issued, request.first_issue_ns
        if request.pages is not None:
            request.pages = None
            self.count(request, now)
            self.count(other, now)

    def cut_before(self, sector: int, write: bool, now: int) -> None:
        """Cut a request that begins before its part, because the split was not traced."""
        request = self.choose(sector, write, (1, 0, 2), None)
        if request and sector - 1 in request.sectors:
            self.cut(request, sector, now)

    def merge(self, sectors: range, write: bool, front: bool, now: int) -> None:
        source = self.choose(sectors.start, write, (0, 1), None)
        if source is None:
            return
        adjacent = [
            request
            for request in self.holders[write, sectors.stop if front else sectors.start - 1]
            if request.state == 1 and request is not source
        ]
        if adjacent:
            self.join(max(adjacent, key=lambda request: request.number), source)
        else:
            self.count(source, now)

    def join(self, into: Request, source: Request) -> None:
        into.pages += self.pages_of(len(source.sectors))
        for at in list(source.sectors):
            self.hold(into, at, self.let_go(source, at))
        del self.requests[source.number]

    def issue(self, sectors: range, write: bool, now: int) -> None:
        self.cut_before(sectors.start, write, now)
        first = self.choose(sectors.start, write, (1, 0, 2), None)
        if first is None:
            return
        self.cut(first, sectors.stop, now)
        self.count(first, now)
        for sector in sectors:
            other = self.choose(sector, write, (1, 0, 2), first)
            if other not in (None, first):
                self.cut(other, sectors.stop, now)
                self.join(first, other)
        first.issued = True
        if first.first_issue_ns is None:
            first.first_issue_ns = now
        for io in first.sectors.values():
            io.was_issued = True

    def answer(self, sectors: range, write: bool, error: int, now: int) -> None:
        refused = error in (EBUSY, EAGAIN)
        request: Request | None = None
        for sector in sectors:
            states = (0, 1, 2) if refused else (2, 1, 0)
            request = self.choose(sector, write, states, request, refused)
            if request is None:
                continue
            self.count(request, now)
            io = self.let_go(request, sector)
            request.answered = not error
            if error:
                io.revoked |= error == EBUSY and not request.issued
                io.error |= not (error == EBUSY and not request.issued)
            if request.first_issue_ns is not None:
                io.latency_ns = max(io.latency_ns, now - request.first_issue_ns)
            io.left -= 1
            if not io.left:
                io.completed = True
                if not io.was_issued:
                    io.latency_ns = now - io.arrival_ns
            if not request.sectors:
                self.end(request, io, now)

    def end(self, request: Request, io: Io, now: int) -> None:
        del self.requests[request.number]
        issued = request.first_issue_ns
        latency_ns = now - (io.arrival_ns if issued is None else issued)
        if request.answered and not request.write:
            pending = min(request.pending, 65535)
            for order in range(size_class(request.pages), 3):
                self.history[order].append(
                    CompletedRead(now, latency_ns // 1000, pending, request.pages)
                )


def walk(path: Path, overdue_us: int) -> list[Io]:
    """Return the I/Os of one merged file of little-endian events in order of time."""
    data = path.read_bytes()
    events = []
    at = 0
    while at < len(data):
        _, _, now, sector, size, action, _, _, _, error, n = struct.unpack_from(
            "<IIQQIIIIIHH", data, at
        )
        at += 48 + n
        if size and not action & (NOTIFY | DISCARD | PASSTHROUGH):
            error = error - 0x10000 if error > 0x8000 else error
            events.append((action & 0xFF, now, sector, size, bool(action & WRITE), error))
    drive = Drive(overdue_us, math.gcd(*(n for e in events for n in (e[2] * 512, e[3]))))
    for event in events:
        drive.see(*event)
    return drive.ios
