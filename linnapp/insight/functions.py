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
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from linnapp.errors import TraceError
from linnapp.files import AnyPath
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


#: key: (what it is, names of functions as regular expressions), in the order of the way down
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
    # What the block layer and md call, and of that the models.
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
    """The group of a function; None of one that is in none.

    What a compiler has made of it, as ``name.isra.0``, is in the group of ``name``.
    """
    found = _KNOWN.fullmatch(function.partition(".")[0])
    return found.lastgroup if found else None


def grouped(functions: Iterable[str]) -> dict[str, str]:
    """Of functions those that are in a group, and in which."""
    return {name: group for name in functions if (group := group_of(name)) is not None}


def system_call(function: str) -> str | None:
    """``pread64`` of ``__x64_sys_pread64``; None of what is no system call."""
    found = _CALL.fullmatch(function)
    return found[1] if found else None
