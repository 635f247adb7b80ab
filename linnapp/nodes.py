# SPDX-License-Identifier: MIT
"""Choose the node with the lowest expected latency: ctypes bindings for liblinnos-cluster.

The library does no I/O. It chooses a node, is informed of each read that is sent and of its result,
and names the agent to query next. docs/cluster.md has an example.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack, get_args

from linnapp.native import (
    Closable,
    check_fits,
    check_status,
    counted,
    load_public,
    of_counters,
    of_one_kind,
)
from linnapp.replicas import STATES

_DATAGRAM_BYTES = 96
_HOME_TURNS = -1
_UNGUARDED = 1
_NEVER = (1 << 64) - 1

#: `enum linnos_cluster_mode`, `enum linnos_kind` and `enum linnos_end`
Mode = Literal["observe", "choose", "hedge"]
Kind = Literal["primary", "hedge", "probe"]
End = Literal["succeeded", "failed", "ignored", "cancelled"]


@dataclass(frozen=True)
class ClientStats:
    """Counters of a client; linnos_cluster.h defines each number.

    Attributes
    ----------
    saved_us : int
        Sum over `moved` of the latency expected at the default node, minus the actual latency.
    would_save_us : int
        Sum over the reads of `would_move` that the default node served: the actual latency minus
        the latency expected from the other node.
    """

    reads: int
    would_move: int
    moved: int
    stayed: int
    copies: int
    hedges: int
    hedges_won: int
    hedges_denied: int
    failovers: int
    sent: int
    ended: int
    errors: int
    asked_first: int
    questions: int
    answers: int
    refused: int
    saved_us: int
    would_save_us: int


@dataclass(frozen=True)
class NodeStats:
    """Statistics of a node; linnos_cluster.h defines each number.

    Attributes
    ----------
    state : str
        One of `linnapp.replicas.STATES` except the last.
    expected_us : int
        Expected latency of a read of one page.
    report_age_us : int or None
        Age of its agent's last report; None if there is no valid one.
    is_trusted : bool
        True if its agent's predictions were not much less accurate than the client's own estimates.
    """

    state: str
    expected_us: int
    in_flight: int
    answered: int
    errors: int
    report_age_us: int | None
    is_trusted: bool


class _ClusterOptions(ctypes.Structure):
    """`struct linnos_cluster_options` of linnos_cluster.h."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        *of_one_kind(ctypes.c_uint32, "mode", "flags", "home_margin_percent", "report_ttl_ms"),
        *of_one_kind(ctypes.c_uint32, "report_max_uses", "explore_ms", "hedge_percent"),
        *of_one_kind(ctypes.c_double, "probe_percent", "extra_io_percent", "query_percent"),
        ("seed", ctypes.c_uint64),
        ("key", ctypes.c_char_p),
        ("key_bytes", ctypes.c_size_t),
    )


class _ClusterCounters(ctypes.Structure):
    """`struct linnos_cluster_stats`, whose members are those of `ClientStats` in the same order."""

    _fields_ = of_counters(ClientStats, "saved_us", "would_save_us")


class _NodeStats(ctypes.Structure):
    """`struct linnos_cluster_node` of linnos_cluster.h."""

    _fields_ = (
        *of_one_kind(ctypes.c_uint32, "state", "expected_us"),
        *of_one_kind(ctypes.c_uint64, "in_flight", "answered", "errors", "report_age_us"),
        *of_one_kind(ctypes.c_uint32, "is_trusted", "reserved"),
    )


class _Choice(ctypes.Structure):
    """`struct linnos_choice` of linnos_choose.h."""

    _fields_ = (
        *of_one_kind(ctypes.c_uint64, "offset", "bytes"),
        ("home", ctypes.c_int32),
        *of_one_kind(ctypes.c_uint32, "flags", "replica"),
        ("copy", ctypes.c_int32),
        *of_one_kind(ctypes.c_uint32, "predicted_us", "tried"),
        ("hedge_at_ns", ctypes.c_uint64),
        ("own", ctypes.c_uint64 * 6),
    )


class _Sending(ctypes.Structure):
    """`struct linnos_attempt` of linnos_choose.h."""

    _fields_ = (("own", ctypes.c_uint64 * 8),)


@functools.cache
def library() -> ctypes.CDLL:
    """The library; loaded once."""
    handle, status, size, number = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint
    u16, u32, i64, u64 = ctypes.c_uint16, ctypes.c_uint32, ctypes.c_int64, ctypes.c_uint64
    choice, sending = ctypes.POINTER(_Choice), ctypes.POINTER(_Sending)
    nodes = ctypes.POINTER(u32)
    return load_public(
        "liblinnos-cluster.so.1",
        "LINNOS_CLUSTER_LIB",
        ("cluster", "install-cluster"),
        "LIBLINNOS_CLUSTER_1",
        linnos_cluster_error=(ctypes.c_char_p,),
        linnos_cluster_create=(
            *(status, ctypes.POINTER(handle), u32, ctypes.POINTER(_ClusterOptions)),
        ),
        linnos_cluster_free=(None, handle),
        linnos_cluster_choose=(i64, handle, choice, nodes, number, u64),
        linnos_cluster_choose_next=(status, handle, choice, u64),
        linnos_cluster_choose_hedge=(status, handle, choice, u64),
        linnos_cluster_on_submit=(None, handle, sending, choice, number, status, u64),
        linnos_cluster_on_complete=(None, handle, sending, status, u64),
        linnos_cluster_on_answer=(None, handle, choice, sending, u64),
        linnos_cluster_should_query_first=(
            *(i64, handle, nodes, number, ctypes.c_int32, u64, ctypes.POINTER(u64)),
        ),
        linnos_cluster_next_query_node=(i64, handle, u64),
        linnos_cluster_build_query=(size, handle, u32, u16, u32, u64, ctypes.c_char_p),
        linnos_cluster_receive_report=(status, handle, u32, ctypes.c_char_p, size, u64),
        linnos_cluster_get_stats=(None, handle, ctypes.POINTER(_ClusterCounters), size),
        linnos_cluster_get_node=(status, handle, u32, u64, ctypes.POINTER(_NodeStats), size),
    )


def _check(status: int) -> None:
    check_status(status, library().linnos_cluster_error)


def _number(kind: Any, what: str, value: str) -> int:
    known: tuple[str, ...] = get_args(kind)
    if value not in known:
        raise ValueError(f"{what} {value!r}: one of {', '.join(known)} can be")
    return known.index(value)


class Choosing(TypedDict, total=False):
    """Options of `Nodes`, which documents them."""

    mode: Mode
    home_margin_percent: int
    report_ttl_ms: int
    report_max_uses: int
    explore_ms: int
    hedge_percent: int
    probe_percent: float
    extra_io_percent: float
    query_percent: float
    seed: int
    key: bytes | None
    unguarded: bool


def options_of(
    owner: type,
    /,
    *,
    mode: Mode = "choose",
    home_margin_percent: int = 5,
    report_ttl_ms: int = 50,
    report_max_uses: int = 8,
    explore_ms: int = 20,
    hedge_percent: int = 200,
    probe_percent: float = 1,
    extra_io_percent: float = 3,
    query_percent: float = 100,
    seed: int = 0,
    key: bytes | None = None,
    unguarded: bool = False,
    **unknown: object,
) -> _ClusterOptions:
    """Convert the options of `Nodes` to the library's form; errors name the class `owner`."""
    for name in unknown:
        raise TypeError(f"{owner.__name__}() got an unexpected keyword argument {name!r}")
    whole = {
        "home_margin_percent": home_margin_percent,
        "report_ttl_ms": report_ttl_ms,
        "report_max_uses": report_max_uses,
        "explore_ms": explore_ms,
        "hedge_percent": hedge_percent,
    }
    check_fits(32, **whole)
    check_fits(64, seed=seed)
    return _ClusterOptions(
        ctypes.sizeof(_ClusterOptions),
        _number(Mode, "mode", mode),
        _UNGUARDED * unguarded,
        *whole.values(),
        probe_percent,
        extra_io_percent,
        query_percent,
        seed,
        key,
        len(key or b""),
    )


def client_stats(handle: ctypes.c_void_p) -> ClientStats:
    """Return the counters of a client, which may belong to another library."""
    raw = _ClusterCounters()
    library().linnos_cluster_get_stats(handle, ctypes.byref(raw), ctypes.sizeof(raw))
    return ClientStats(**counted(raw))


def node_stats(handle: ctypes.c_void_p, node: int, now_ns: int | None) -> NodeStats:
    """Return the statistics of one of a client's nodes."""
    check_fits(32, node=node)
    raw = _NodeStats()
    _check(
        library().linnos_cluster_get_node(
            handle, node, _time(now_ns), ctypes.byref(raw), ctypes.sizeof(raw)
        )
    )
    return NodeStats(
        state=STATES[raw.state],
        expected_us=raw.expected_us,
        in_flight=raw.in_flight,
        answered=raw.answered,
        errors=raw.errors,
        report_age_us=None if raw.report_age_us == _NEVER else raw.report_age_us,
        is_trusted=bool(raw.is_trusted),
    )


def _time(now_ns: int | None) -> int:
    if now_ns is None:
        return time.monotonic_ns()
    check_fits(64, now_ns=now_ns)
    return now_ns


class Nodes(Closable):
    """A client's knowledge of its nodes; any number of threads may use it at the same time.

    Times are absolute, in ns of one clock, not 0, and default to `time.monotonic_ns()`.

    Parameters
    ----------
    n_nodes : int
        Number of nodes, which are numbered from 0.
    mode : str
        "observe": reads go to the default node, and the possible gain is counted; "choose";
        "hedge": a read that takes long is also sent to a second node.
    home_margin_percent : int
        A read leaves its default node if its expected latency elsewhere is lower by this margin.
    report_ttl_ms, report_max_uses : int
        Time and number of reads for which an agent's report is valid; 0 if it is never used.
    explore_ms : int
        Initial wait before a node that was slow is probed again.
    hedge_percent : int
        A read is hedged when it has taken this percentage of the usual latency.
    probe_percent, extra_io_percent, query_percent : float
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
        self._handle = ctypes.c_void_p()
        #: Keeps the attempts alive, because the library has their addresses.
        self._in_flight: set[Attempt] = set()
        check_fits(32, n_nodes=n_nodes)
        options = options_of(type(self), **choosing)
        _check(
            library().linnos_cluster_create(
                ctypes.byref(self._handle), n_nodes, ctypes.byref(options)
            )
        )

    def _open(self) -> ctypes.c_void_p:
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

    def ask_first(
        self, candidates: Sequence[int], home: int, *, now_ns: int | None = None
    ) -> tuple[int, int] | None:
        """Return the node to query before a choice, if the query is likely to be worthwhile.

        Returns
        -------
        tuple of int, or None
            The node to query, and the time until which to wait for the answer; None to choose
            immediately.
        """
        nodes, at = _nodes(candidates), _place(candidates, home)
        until_ns = ctypes.c_uint64()
        node = library().linnos_cluster_should_query_first(
            self._open(), nodes, len(nodes), at, _time(now_ns), ctypes.byref(until_ns)
        )
        return None if node < 0 else (node, until_ns.value)

    def next_probe(self, *, now_ns: int | None = None) -> int | None:
        """Return the node whose agent to query now, or None; call this after each read sent."""
        node: int = library().linnos_cluster_next_query_node(self._open(), _time(now_ns))
        return None if node < 0 else node

    def question(self, node: int, drive: int, size: int, *, now_ns: int | None = None) -> bytes:
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
        datagram = ctypes.create_string_buffer(_DATAGRAM_BYTES)
        length = library().linnos_cluster_build_query(
            self._open(), node, drive, size, _time(now_ns), datagram
        )
        if not length:
            raise ValueError(f"a read of {size} bytes on node {node}: there is no such question")
        return datagram.raw[:length]

    def news(self, node: int, datagram: bytes, *, now_ns: int | None = None) -> bool:
        """Process an agent's report.

        Returns
        -------
        bool
            True if it is the answer to the last query and is used.
        """
        check_fits(32, node=node)
        return not library().linnos_cluster_receive_report(
            self._open(), node, datagram, len(datagram), _time(now_ns)
        )

    def stats(self) -> ClientStats:
        """Return the client's counters."""
        return client_stats(self._open())

    def node_stats(self, node: int, *, now_ns: int | None = None) -> NodeStats:
        """Return the statistics of a node."""
        return node_stats(self._open(), node, now_ns)

    def close(self) -> None:
        """Free nodes and attempts in flight, while no other thread uses them. May be repeated."""
        if self._handle:
            handle, self._handle = self._handle, ctypes.c_void_p()
            library().linnos_cluster_free(handle)
            self._in_flight.clear()


def _nodes(candidates: Sequence[int]) -> ctypes.Array[ctypes.c_uint32]:
    for node in candidates:
        check_fits(32, candidate=node)
    return (ctypes.c_uint32 * len(candidates))(*candidates)


def _place(candidates: Sequence[int], node: int) -> int:
    if node not in candidates:
        raise ValueError(f"node {node}: no candidate; these are {', '.join(map(str, candidates))}")
    return candidates.index(node)


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
        self._client = client
        self._candidates = tuple(candidates)
        #: Keeps the array alive, because the choice has its address.
        self._nodes = _nodes(self._candidates)
        self._choice = _Choice(
            bytes=size,
            home=_HOME_TURNS if home is None else _place(self._candidates, home),
            flags=int(never_hedge),
        )
        self._is_answered = False
        node: int = library().linnos_cluster_choose(
            client._open(), self._choice, self._nodes, len(self._nodes), _time(now_ns)
        )
        _check(node)
        self.node = node

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

    def _open(self) -> ctypes.c_void_p:
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
        place = library().linnos_cluster_choose_next(self._open(), self._choice, _time(now_ns))
        if place < 0:
            return None
        self.node = self._candidates[place]
        return self.node

    def hedge(self, *, now_ns: int | None = None) -> int | None:
        """Choose a second node; call this when the time `hedge_at_ns` has come.

        Returns
        -------
        int or None
            The node to which to send the read as well; None for no hedge.
        """
        place = library().linnos_cluster_choose_hedge(self._open(), self._choice, _time(now_ns))
        return self._candidates[place] if place >= 0 else None

    def answered(self, winner: Attempt | None, *, now_ns: int | None = None) -> None:
        """Record that the user has the answer. The read ends here.

        Parameters
        ----------
        winner : Attempt or None
            The attempt that was answered, which may have ended; None if all have failed.
        """
        if winner is not None and winner._read is not self:
            raise ValueError("the winner is another read's")
        sending = None if winner is None else ctypes.byref(winner._sending)
        library().linnos_cluster_on_answer(self._open(), self._choice, sending, _time(now_ns))
        self._is_answered = True


class Attempt:
    """A read that was sent to a node, from `Read.sent` to `ended`; another thread may end it."""

    def __init__(self, read: Read, node: int, kind: Kind, now_ns: int | None) -> None:
        place, number = _place(read._candidates, node), _number(Kind, "kind", kind)
        self.node = node
        self._read = read
        self._sending = _Sending()
        handle, now_ns = read._open(), _time(now_ns)
        # Keep it alive before the library has its address: an interruption in between must not free
        # it.
        read._client._in_flight.add(self)
        library().linnos_cluster_on_submit(
            handle, self._sending, read._choice, place, number, now_ns
        )

    def ended(self, end: End = "succeeded", *, now_ns: int | None = None) -> None:
        """Record that the attempt has ended. Each attempt ends exactly once.

        Parameters
        ----------
        end : str
            "succeeded"; "failed"; "ignored" if the result says nothing about the node; or
            "cancelled" before the node answered.
        now_ns : int, optional
            The time.

        Raises
        ------
        ValueError
            If it has ended before, or its client is closed.
        """
        client = self._read._client
        handle, number, now_ns = client._open(), _number(End, "end", end), _time(now_ns)
        try:
            client._in_flight.remove(self)
        except KeyError:
            raise ValueError("the attempt has ended already") from None
        library().linnos_cluster_on_complete(handle, self._sending, number, now_ns)
