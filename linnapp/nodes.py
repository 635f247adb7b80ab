# SPDX-License-Identifier: MIT
"""Choose the node with the lowest expected latency, with liblinnos-cluster.

The library does no I/O. It chooses a node, is informed of each read that is sent and of its result,
and names the agent to query next. docs/cluster.md has an example, and linnos_cluster(3) describes
the options and counters in detail.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Unpack

from linnapp.native import (
    Closable,
    Counters,
    Library,
    check_fits,
    check_status,
    load_public,
    loaded_once,
)
from linnapp.replicas import STATES

_NEVER = (1 << 64) - 1

Mode = Literal["observe", "choose", "hedge"]
Kind = Literal["primary", "hedge", "probe"]
End = Literal["succeeded", "failed", "ignored", "cancelled"]
_MODES = {mode: f"LINNOS_CLUSTER_{mode.upper()}" for mode in ("observe", "choose", "hedge")}
_KINDS = {
    "primary": "LINNOS_PRIMARY_ATTEMPT",
    "hedge": "LINNOS_HEDGE_ATTEMPT",
    "probe": "LINNOS_PROBE_COPY",
}
_ENDS = {
    "succeeded": "LINNOS_SUCCEEDED",
    "failed": "LINNOS_FAILED",
    "ignored": "LINNOS_RESULT_IGNORED",
    "cancelled": "LINNOS_CANCELLED",
}


@loaded_once
def library() -> Library:
    """Return the library, which is loaded once."""
    return load_public(
        *("liblinnos-cluster.so.1", "LINNOS_CLUSTER_LIB", ("cluster", "install-cluster")),
        *("LIBLINNOS_CLUSTER_1", "linnos_choose.h", "linnos_cluster.h"),
    )


def _check(status: int) -> None:
    check_status(library(), status, library().lib.linnos_cluster_error)


def _number(what: str, names: dict[str, str], value: str) -> int:
    if value not in names:
        raise ValueError(f"{what} is {value!r}; it must be one of {', '.join(names)}")
    return int(getattr(library().lib, names[value]))


class Choosing(TypedDict, total=False):
    """Options of `Nodes`, which documents them."""

    mode: Mode
    margin_percent: int
    report_ttl_ms: int
    report_max_uses: int
    probe_after_ms: int
    hedge_percent: int
    probe_percent: float
    max_duplicates: float
    query_percent: float
    seed: int
    key: bytes
    unguarded: bool


def new_options(owner: type, choosing: Choosing) -> tuple[Any, object]:
    """Return the options of `Nodes` in the library's form, and an object to keep as long as them.

    Errors name the class `owner`. Options that are not given have the defaults of the C header.
    """
    given: dict[str, Any] = {**choosing}
    for name in given.keys() - Choosing.__annotations__.keys():
        raise TypeError(f"{owner.__name__}() got an unexpected keyword argument {name!r}")
    ffi, lib = library()
    signed_with = given.pop("key", None) or b""
    key = ffi.from_buffer(signed_with)
    mode = _number("mode", _MODES, given.pop("mode", "choose"))
    flags = lib.LINNOS_CLUSTER_UNGUARDED if given.pop("unguarded", False) else 0
    defaults = library().defaults("linnos_cluster.h", "linnos_cluster_options")
    given |= {"mode": mode, "flags": flags, "key": key, "key_bytes": len(key)}
    options = library().new("linnos_cluster_options", **(defaults | given))
    return options, key


def client_stats(cluster: Any) -> Counters:
    """Return the counters of a client, which may belong to another library."""
    native = library()
    cluster = native.ffi.cast("struct linnos_cluster *", cluster)
    stats = native.new("linnos_cluster_stats")
    native.lib.linnos_cluster_get_stats(cluster, stats, native.ffi.sizeof(stats[0]))
    return Counters(**native.counters(stats[0]))


def node_stats(cluster: Any, node: int, now_ns: int | None) -> Counters:
    """Return the statistics of one of a client's nodes."""
    check_fits(32, node=node)
    native = library()
    cluster = native.ffi.cast("struct linnos_cluster *", cluster)
    stats = native.new("linnos_cluster_node")
    n_bytes = native.ffi.sizeof(stats[0])
    _check(native.lib.linnos_cluster_get_node(cluster, node, _time(now_ns), stats, n_bytes))
    counters: dict[str, Any] = native.counters(stats[0])
    if counters["report_age_us"] == _NEVER:
        counters["report_age_us"] = None
    counters |= {"state": STATES[stats.state], "is_trusted": bool(stats.is_trusted)}
    return Counters(**counters)


def _time(now_ns: int | None) -> int:
    if now_ns is None:
        return time.monotonic_ns()
    check_fits(64, now_ns=now_ns)
    return now_ns


def _place(candidates: Sequence[int], node: int) -> int:
    if node not in candidates:
        raise ValueError(
            f"node {node} is not a candidate of the read; these are "
            f"{', '.join(map(str, candidates))}"
        )
    return candidates.index(node)


def _nodes(candidates: Sequence[int]) -> Any:
    for node in candidates:
        check_fits(32, candidate=node)
    return library().ffi.new("uint32_t[]", list(candidates))


class Nodes(Closable):
    """A client's knowledge of its nodes; any number of threads may use it at the same time.

    Times are absolute, in ns of one clock, not 0, and default to `time.monotonic_ns()`.

    Parameters
    ----------
    n_nodes : int
        Number of nodes, which are numbered from 0.
    mode : str
        "observe": reads go to the default node, and the possible gain is counted; "choose", the
        default; "hedge": a read that takes long is also sent to a second node.
    margin_percent : int
        A read leaves its default node if its expected latency elsewhere is lower by this margin.
    report_ttl_ms, report_max_uses : int
        Time and number of reads for which an agent's report is valid; 0 if it is never used.
    probe_after_ms : int
        Initial wait before a node that was slow is probed again.
    hedge_percent : int
        A read is hedged when it has taken this percentage of the usual latency.
    probe_percent, max_duplicates, query_percent : float
        Upper limits in percent of the reads: for copies that probe a slow node; for hedges and
        copies together; for queries to an agent.
    seed : int
        Seed of the random choices, for reproducible simulations; 0 for a random seed, so that
        clients choose differently.
    key : bytes, optional
        Key with which queries are signed, as the agents require; at most 256 bytes.
    unguarded : bool
        Follow the expected latencies even if that has no benefit.

    Raises
    ------
    OSError
        If an option is invalid; the message gives its range.
    LinnappError
        If the library is not built.
    """

    def __init__(self, n_nodes: int, **choosing: Unpack[Choosing]) -> None:
        self._handle = None
        #: Keeps the attempts alive, because the library has their addresses.
        self._in_flight: set[Attempt] = set()
        check_fits(32, n_nodes=n_nodes)
        options, _key = new_options(type(self), choosing)
        created = library().ffi.new("struct linnos_cluster **")
        _check(library().lib.linnos_cluster_create(created, n_nodes, options))
        self._handle = created[0]

    def _open(self) -> Any:
        if not self._handle:
            raise ValueError("the client is closed")
        return self._handle

    def choose(
        self,
        candidates: Sequence[int],
        size: int,
        *,
        home: int | None = None,
        never_hedge: bool = False,
        now_ns: int | None = None,
    ) -> Read:
        """Choose the node for a read.

        Parameters
        ----------
        candidates : sequence of int
            Nodes that have the data, each once; 1 to 16.
        home : int, optional
            The default node, from which the engine itself would read. Default: round robin.
        never_hedge : bool
            Send the read to one node at a time.

        Raises
        ------
        OSError
            If a node does not exist, or the number of candidates is out of range.
        """
        return Read(self, candidates, size, home, never_hedge, now_ns)

    def query_first(
        self, candidates: Sequence[int], home: int, *, now_ns: int | None = None
    ) -> tuple[int, int] | None:
        """Return the node to query before a choice, if the query is likely to be worthwhile.

        Returns
        -------
        tuple of int, or None
            The node to query, and the time until which to wait for the answer; None to choose
            immediately.
        """
        ffi, lib = library()
        nodes, place = _nodes(candidates), _place(candidates, home)
        until_ns = ffi.new("uint64_t *")
        node = lib.linnos_cluster_should_query_first(
            self._open(), nodes, len(nodes), place, _time(now_ns), until_ns
        )
        return None if node < 0 else (node, until_ns[0])

    def next_query_node(self, *, now_ns: int | None = None) -> int | None:
        """Return the node whose agent to query now, or None; call this after each read sent."""
        node: int = library().lib.linnos_cluster_next_query_node(self._open(), _time(now_ns))
        return None if node < 0 else node

    def build_query(self, node: int, drive: int, size: int, *, now_ns: int | None = None) -> bytes:
        """Return the datagram to send to an agent; answers to earlier queries are then ignored.

        Parameters
        ----------
        drive : int
            The drive's number in that agent's configuration.
        size : int
            Size of a read from that drive, in bytes, not 0.
        """
        check_fits(32, node=node, size=size)
        check_fits(16, drive=drive)
        ffi, lib = library()
        datagram = ffi.new("uint8_t[]", lib.LINNOS_CLUSTER_DATAGRAM)
        n = lib.linnos_cluster_build_query(self._open(), node, drive, size, _time(now_ns), datagram)
        if not n:
            raise ValueError(
                f"a read of {size} bytes on node {node}: the client has no such node, or the size "
                "is 0"
            )
        return bytes(ffi.buffer(datagram, n))

    def receive_report(self, node: int, datagram: bytes, *, now_ns: int | None = None) -> bool:
        """Process an agent's report.

        Returns
        -------
        bool
            True if it is the answer to the last query and is used.
        """
        check_fits(32, node=node)
        return not library().lib.linnos_cluster_receive_report(
            self._open(), node, datagram, len(datagram), _time(now_ns)
        )

    def stats(self) -> Counters:
        """Return the client's counters: `struct linnos_cluster_stats`."""
        return client_stats(self._open())

    def node_stats(self, node: int, *, now_ns: int | None = None) -> Counters:
        """Return the statistics of a node: `struct linnos_cluster_node`.

        `state` is one of `linnapp.replicas.STATES` except the last. `report_age_us` is None if
        there is no valid report of its agent.
        """
        return node_stats(self._open(), node, now_ns)

    def close(self) -> None:
        """Free nodes and attempts in flight, while no other thread uses them. May be repeated."""
        if self._handle:
            handle, self._handle = self._handle, None
            library().lib.linnos_cluster_free(handle)
            self._in_flight.clear()


class Read:
    """A read to send to `node`, from `Nodes.choose` to `answered`; used by one thread at a time."""

    def __init__(
        self,
        client: Nodes,
        candidates: Sequence[int],
        size: int,
        home: int | None,
        never_hedge: bool,
        now_ns: int | None,
    ) -> None:
        check_fits(64, size=size)
        ffi, lib = library()
        self._client = client
        self._candidates = tuple(candidates)
        #: Keeps the array alive, because the choice has its address.
        self._nodes = _nodes(self._candidates)
        default = lib.LINNOS_DEFAULT_ROUND_ROBIN if home is None else _place(candidates, home)
        flags = lib.LINNOS_NEVER_HEDGE * never_hedge
        self._choice = ffi.new(
            "struct linnos_choice *", {"bytes": size, "home": default, "flags": flags}
        )
        self._is_answered = False
        self.node: int = lib.linnos_cluster_choose(
            client._open(), self._choice, self._nodes, len(self._nodes), _time(now_ns)
        )
        _check(self.node)

    @property
    def home(self) -> int:
        """The default node, which would have served it without a choice."""
        place: int = self._choice.home
        return self._candidates[place]

    @property
    def copy(self) -> int | None:
        """The node to send a probe copy to, whose answer is not waited for."""
        return self._candidates[self._choice.copy] if self._choice.copy >= 0 else None

    @property
    def expected_us(self) -> int:
        """Expected latency at `node`; 0 if it is not known."""
        return int(self._choice.predicted_us)

    @property
    def hedge_at_ns(self) -> int | None:
        """Time at which to call `hedge` if there is no answer by then; None for never."""
        at: int = self._choice.hedge_at_ns
        return None if at == _NEVER else at

    def _open(self) -> Any:
        if self._is_answered:
            raise ValueError("the read is answered already")
        return self._client._open()

    def sent(self, node: int, kind: Kind = "primary", *, now_ns: int | None = None) -> Attempt:
        """Record that the read is sent to a node, and return the attempt, which must end once.

        Parameters
        ----------
        node : int
            `node`, `copy`, or the result of `hedge`.
        kind : str
            "primary" if the node was chosen, also after another one failed; "hedge"; or "probe" for
            a copy that probes a node.
        """
        return Attempt(self, node, kind, now_ns)

    def next(self, *, now_ns: int | None = None) -> int | None:
        """Choose another node after a failure.

        Returns
        -------
        int or None
            The best node to which the read was not sent, which becomes `node`; None if none is
            left.
        """
        place = library().lib.linnos_cluster_choose_next(self._open(), self._choice, _time(now_ns))
        if place < 0:
            return None
        self.node = self._candidates[place]
        return self.node

    def hedge(self, *, now_ns: int | None = None) -> int | None:
        """Return the node to which to send the read as well, or None for no hedge.

        Call this when the time `hedge_at_ns` has come.
        """
        place = library().lib.linnos_cluster_choose_hedge(self._open(), self._choice, _time(now_ns))
        return self._candidates[place] if place >= 0 else None

    def answered(self, winner: Attempt | None, *, now_ns: int | None = None) -> None:
        """Record that the user has the answer. The read ends here.

        Parameters
        ----------
        winner : Attempt or None
            The attempt that was answered, which may have ended; None if all have failed.
        """
        if winner is not None and winner._read is not self:
            raise ValueError("the winner is an attempt of another read")
        ffi, lib = library()
        attempt = ffi.NULL if winner is None else winner._attempt
        lib.linnos_cluster_on_answer(self._open(), self._choice, attempt, _time(now_ns))
        self._is_answered = True


class Attempt:
    """A read that was sent to a node, from `Read.sent` to `ended`; another thread may end it."""

    def __init__(self, read: Read, node: int, kind: Kind, now_ns: int | None) -> None:
        place, number = _place(read._candidates, node), _number("kind", _KINDS, kind)
        self.node = node
        self._read = read
        self._attempt = library().ffi.new("struct linnos_attempt *")
        handle, now_ns = read._open(), _time(now_ns)
        # Keep it alive before the library has its address: an interruption in between must not free
        # it.
        read._client._in_flight.add(self)
        library().lib.linnos_cluster_on_submit(
            handle, self._attempt, read._choice, place, number, now_ns
        )

    def ended(self, end: End = "succeeded", *, now_ns: int | None = None) -> None:
        """Record that the attempt has ended. Each attempt ends exactly once.

        Parameters
        ----------
        end : str
            "succeeded"; "failed"; "ignored" if the result says nothing about the node; or
            "cancelled" before the node answered.

        Raises
        ------
        ValueError
            If it has ended before, or its client is closed.
        """
        client = self._read._client
        handle, number, now_ns = client._open(), _number("end", _ENDS, end), _time(now_ns)
        try:
            client._in_flight.remove(self)
        except KeyError:
            raise ValueError("the attempt has ended already") from None
        library().lib.linnos_cluster_on_complete(handle, self._attempt, number, now_ns)
