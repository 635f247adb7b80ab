# SPDX-License-Identifier: MIT
"""Sum the time of kernel functions by function, group and system call.

The kernel's function graph tracer records the calls, and ``linnapp/native/function_graph.c`` sums
their times. `GROUPS` assigns functions to groups. Only these functions are traced, and the time of
other functions counts as time of their callers. Functions that are called for every page are
therefore not slowed down by tracing.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.native import native

#: maximum offset in a function of the recorded address, which is that of the call to the tracer
_MAX_CALL_OFFSET = 32


#: Offsets and sizes in a recording: the members of ``struct lg_layout``.
Layout = dict[str, int]


@dataclasses.dataclass(frozen=True)
class Overhead:
    """Time that tracing adds to each traced function."""

    #: to the function's own recorded time
    inside_ns: float
    #: to the own time of its caller
    outside_ns: float

    @property
    def function_ns(self) -> float:
        """Return the sum of both."""
        return self.inside_ns + self.outside_ns


@dataclasses.dataclass(frozen=True)
class Function:
    """Times of a function within one kind of system call, or when called by one function."""

    name: str
    group: str
    calls: int
    #: including called functions
    total_ns: int
    #: without the traced functions that it called
    self_ns: int
    #: number of calls from it to traced functions
    children: int
    #: the functions that it called, if only calls by one caller are counted
    called: list[Function] = dataclasses.field(default_factory=list)

    def own_ns(self, overhead: Overhead) -> float:
        """Return its own time without the overhead of tracing it and the functions it called."""
        return self.self_ns - overhead.inside_ns * self.calls - overhead.outside_ns * self.children

    def walk(self) -> Iterator[Function]:
        """Yield it and all functions below it in the tree, each after its caller."""
        yield self
        for function in self.called:
            yield from function.walk()

    def to_json(self, overhead: Overhead) -> dict[str, Any]:
        """Return its fields by name, with times in us."""
        return {
            "name": self.name,
            "group": self.group,
            "calls": self.calls,
            "us": max(0.0, self.own_ns(overhead)) / 1000,
            "measured_us": self.self_ns / 1000,
            "with_called_us": self.total_ns / 1000,
        }

    def tree_json(self, overhead: Overhead) -> dict[str, Any]:
        """Return the fields of :meth:`to_json`, and those of the functions that it called."""
        called = [function.tree_json(overhead) for function in self.called]
        return {**self.to_json(overhead), "called": called}


@dataclasses.dataclass(frozen=True)
class GroupTime:
    """Times of a group in one kind of system call, summed over all calls."""

    #: number of calls of its functions
    calls: int
    #: without the overhead of tracing
    us: float
    #: including the overhead
    measured_us: float
    #: `share`, `measured_share`: fraction of the system call's time, without and with overhead
    share: float
    measured_share: float


@dataclasses.dataclass(frozen=True)
class Call:
    """Times of one kind of system call."""

    name: str
    #: the function of the system call, with all that it called
    tree: Function

    @property
    def calls(self) -> int:
        """Return the number of calls."""
        return self.tree.calls

    @functools.cached_property
    def functions(self) -> list[Function]:
        """Return the sum of each function over its callers, longest own time first."""
        parts: dict[str, list[Function]] = {}
        for part in self.tree.walk():
            parts.setdefault(part.name, []).append(part)
        sums = [
            Function(
                name,
                found[0].group,
                sum(part.calls for part in found),
                sum(part.total_ns for part in found),
                sum(part.self_ns for part in found),
                sum(part.children for part in found),
            )
            for name, found in parts.items()
        ]
        return sorted(sums, key=lambda f: f.self_ns, reverse=True)

    @property
    def measured_us(self) -> float:
        """Return the recorded time of all its calls."""
        return sum(function.self_ns for function in self.functions) / 1000

    def groups(self, overhead: Overhead) -> dict[str, GroupTime]:
        """Return the times of the groups that occur, in the order of :data:`GROUPS`."""
        found = {}
        us = {
            group: sum(f.own_ns(overhead) for f in self.functions if f.group == group) / 1000
            for group in GROUPS
        }
        # The overhead can exceed the measured time of functions that take a few ns.
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
        """Return all fields by name. Times in us are sums over all calls."""
        groups = self.groups(overhead)
        return {
            "call": self.name,
            "calls": self.calls,
            "us": sum(group.us for group in groups.values()),
            "measured_us": self.measured_us,
            "traced_functions": sum(f.calls for f in self.functions),
            "groups": {name: dataclasses.asdict(group) for name, group in groups.items()},
            "functions": [function.to_json(overhead) for function in self.functions],
            "tree": self.tree.tree_json(overhead),
        }


@dataclasses.dataclass(frozen=True)
class FunctionTimes:
    """Result of a recording."""

    #: kinds of system calls, longest total time first
    calls: list[Call]
    #: time in traced functions outside these calls: page faults, exec, other system calls
    outside_us: float
    #: number of recorded function returns
    events: int
    #: number of times that events were lost because the buffer was full
    missed: int
    #: number of calls left out because a part of them was lost
    cut: int


def sum_recordings(
    recordings: Sequence[AnyPath], layout: Layout, groups: Mapping[str, str], symbols: Symbols
) -> FunctionTimes:
    """Sum the recordings of all CPUs."""
    library = native()
    ffi, lib = library
    counts = ffi.new("struct lg_counts *")
    sums = lib.lg_add_up(
        library.strings(map(os.fsencode, recordings)),
        len(recordings),
        library.new("lg_layout", **layout),
        counts,
    )
    if not sums:
        raise TraceError(
            "the function graph tracer's recording cannot be read: its layout differs from the "
            "kernel's files in events/ftrace, it is truncated, or memory is exhausted"
        )
    rows = ffi.new("struct lg_row[]", counts.rows)
    try:
        lib.lg_rows(sums, rows)
    finally:
        lib.lg_free(sums)
    calls: list[Call] = []
    outside_ns = 0
    # The callers of a row, outermost first.
    callers: list[Function] = []
    for row in rows:
        name = symbols.name(row.function) or hex(row.function)
        group = groups.get(name, "other")
        function = Function(name, group, row.calls, row.total_ns, row.self_ns, row.children)
        del callers[row.depth :]
        if callers:
            callers[-1].called.append(function)
        elif call := system_call(name):
            calls.append(Call(call, function))
        else:
            outside_ns += row.total_ns
        callers.append(function)
    calls.sort(key=lambda call: call.measured_us, reverse=True)
    return FunctionTimes(calls, outside_ns / 1000, counts.events, counts.missed, counts.cut)


class Symbols:
    """Maps addresses to those of `names` that occur in `lines` of ``/proc/kallsyms``."""

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
        """Return the function that contains `address` within its first bytes, or None."""
        at = bisect.bisect_right(self._addresses, address) - 1
        if at < 0 or address - self._addresses[at] > _MAX_CALL_OFFSET:
            return None
        return self._names[at]


#: key: (description, regular expression of function names), in the order in which an I/O passes
GROUPS = {
    "entry": (
        "the system call itself",
        r"__(x64|arm64|s390x)_sys_(p?(read|write)v?(64)?2?|preadv|pwritev|preadv2|pwritev2|fsync"
        r"|fdatasync|io_submit|io_getevents|io_uring_enter)|read_null",
    ),
    "filesystem": (
        "VFS and file system",
        r"vfs_(read|write|readv|writev|iter_read|iter_write|fsync_range)|rw_verify_area"
        r"|(ext4|xfs|f2fs|btrfs|blkdev)_(file_)?(read|write)_iter|xfs_file_dio_.*|xfs_file_write_.*"
        r"|ext4_dio_.*_iter|ext4_direct_IO|btrfs_direct_(read|write)|generic_file_.*|(__)?iomap_dio_rw"
        r"|iomap_dio_(bio_)?iter|iomap_iter|__blkdev_direct_IO.*|blkdev_direct_IO"
        r"|(__)?(do_)?blockdev_direct_IO|file_(modified|update_time|remove_privs).*|kiocb_modified"
        r"|touch_atime|ext4_sync_file|xfs_file_fsync|xfs_ilock|xfs_iunlock|filemap_(read|write_and.*)"
        r"|page_cache_(ra_unbounded|sync_ra|async_ra)|ext4_readahead|ext4_mpage_readpages"
        r"|iomap_readahead|ext4_buffered_write_iter|iomap_file_buffered_write|ext4_writepages"
        r"|xfs_vm_writepages|mpage_readahead",
    ),
    "mapping": (
        "blocks of the file: mapping, allocation, journal",
        r"ext4_iomap_.*|ext4_map_blocks|ext4_dirty_inode|ext4_dio_write_end_io"
        r"|ext4_convert_unwritten_.*|ext4_(dio_)?get_block.*|(__)?ext4_journal_st(art|op).*"
        r"|(__)?ext4_mark_inode_dirty|ext4_orphan_(add|del)|ext4_truncate"
        r"|jbd2_(_)?journal_(start|stop|.*_access|dirty_metadata)|jbd2_log_wait_commit"
        r"|xfs_(read|direct_write|buffered_write)_iomap_begin|xfs_.*_iomap_end|xfs_iomap_.*"
        r"|xfs_bmapi_.*|xfs_trans_(alloc|commit|cancel).*|xfs_dio_write_end_io|xfs_setfilesize.*"
        r"|xfs_vn_update_time|xfs_file_iomap_.*|xfs_get_blocks.*|btrfs_(dio_iomap_begin|get_extent)"
        r"|btrfs_(start|end)_transaction.*|btrfs_dirty_inode|f2fs_map_blocks|f2fs_iomap_begin",
    ),
    "pages": (
        "pages: pinning the caller's, adding them to bios",
        r"bio_iov_iter_get_pages.*|bio_iov_bvec_set|bio_alloc_bioset|bio_set_pages_dirty"
        r"|(__)?bio_add_(page|folio|hw_page|pc_page)|iov_iter_extract_pages|iov_iter_get_pages.*"
        r"|(pin|get)_user_pages_fast|submit_page_section|dio_refill_pages|dio_send_cur_page",
    ),
    "split": (
        "splitting and merging bios",
        r"(__)?bio_split.*|bio_submit_split|(__)?blk_queue_split|blk_bio_segment_split"
        r"|blk_attempt_plug_merge|(__)?blk_mq_sched_(bio|try)_merge|blk_mq_sched_try_insert_merge"
        r"|blk_attempt_req_merge|attempt_merge|bio_attempt_.*_merge|elv_merge|elv_attempt_insert_merge"
        r"|blk_bio_list_merge|ll_.*_merge_fn|dd_bio_merge|kyber_bio_merge|bfq_bio_merge",
    ),
    # The functions that the block layer and md call, and the prediction.
    "linnos": ("LinnOS", r"(__)?blk_linnos_.*|linnos_predict"),
    "queue": (
        "block layer: queueing, scheduler, dispatch",
        r"submit_bio(_noacct.*|_wait)?|generic_make_request.*|(__)?blk_mq_submit_bio"
        r"|blk_mq_make_request|blk_mq_get_tag|(__)?blk_flush_plug.*|blk_finish_plug"
        r"|blk_mq_flush_plug_list.*|blk_mq_dispatch_rq_list|blk_mq_sched_(dispatch|insert)_requests?"
        r"|blk_mq_run_hw_queues?|blk_mq_(request|try)_issue_.*|blk_mq_insert_requests?"
        r"|blk_mq_start_request|(dd|kyber|bfq)_(insert|dispatch)_requests?|__rq_qos_.*|blk_throtl_bio"
        r"|__blk_throtl_bio",
    ),
    "driver": (
        "the driver",
        r"nvme_(queue_rqs?|prep_rq.*|setup_cmd|map_data|commit_rqs|submit_cmds?)|scsi_queue_rq"
        r"|sd_init_command|ata_scsi_queuecmd|ahci_qc_issue|virtio_queue_rqs?|virtblk_.*|ubd_queue_rq"
        r"|flashsim_queue_rqs?|null_queue_rqs?|loop_queue_rq|mmc_mq_queue_rq|(__)?blk_rq_map_sg"
        r"|dm_submit_bio|md_submit_bio|brd_submit_bio|zram_submit_bio|nvme_ns_head_submit_bio",
    ),
    "completion": (
        "completion",
        r"nvme_(irq|poll|irq_check|complete_.*|pci_complete_.*)|scsi_(done|complete|io_completion)"
        r"|virtblk_done|ahci_.*_irq.*|blk_mq_complete_request.*|blk_mq_end_request.*"
        r"|blk_update_request|blk_done_softirq|blk_complete_reqs|bio_endio|bio_chain_endio"
        r"|bio_check_pages_dirty|(__)?bio_release_pages|iomap_dio_bio_end_io|iomap_dio_complete.*"
        r"|dio_bio_end_(io|aio)|dio_complete|dio_bio_complete|dio_await_completion"
        r"|blkdev_bio_end_io.*|flashsim_.*complete.*|null_complete_rq|lo_complete_rq",
    ),
    "wait": (
        "asleep: the drive, a lock, a journal",
        r"schedule|io_schedule|io_schedule_timeout|blk_io_schedule|schedule_timeout|preempt_schedule"
        r"|schedule_preempt_disabled",
    ),
    "other": (
        "interrupts and their work",
        r"handle_softirqs|__do_softirq|handle_edge_irq|handle_fasteoi_irq|hrtimer_interrupt"
        r"|generic_smp_call_function_single_interrupt",
    ),
}

_KNOWN = re.compile("|".join(f"(?P<{group}>{names})" for group, (_, names) in GROUPS.items()))
_CALL = re.compile(r"__\w+?_sys_(\w+)")


def group_of(function: str) -> str | None:
    """Return the group of a function, or None if it has none.

    A variant made by the compiler, for example ``name.isra.0``, is in the group of ``name``.
    """
    found = _KNOWN.fullmatch(function.partition(".")[0])
    return found.lastgroup if found else None


def grouped(functions: Iterable[str]) -> dict[str, str]:
    """Return the groups of those functions that are in one."""
    return {name: group for name in functions if (group := group_of(name)) is not None}


def system_call(function: str) -> str | None:
    """Return ``pread64`` for ``__x64_sys_pread64``, or None for other functions."""
    found = _CALL.fullmatch(function)
    return found[1] if found else None
