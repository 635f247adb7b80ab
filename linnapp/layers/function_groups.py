# SPDX-License-Identifier: MIT
"""Which of the kernel's functions bound the parts of a read's or write's way through it.

A function that is in no group is not traced: its time is that of the one which called it. So a
group needs only those at its border, and what is called for every page is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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
