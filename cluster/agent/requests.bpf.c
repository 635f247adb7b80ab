// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The kernel side of watched drives. It writes a record when a read or write is inserted into a
 * scheduler, issued and completed, as linnos.ko does (kernel/module/linnos_tap.c).
 *
 * Records are collected until a query arrives or there are many of them, because waking the agent
 * for each would cost more.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "request_records.h"

/*
 * The members of kernel types that are read; their offsets are resolved when the program is loaded.
 */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 __sector;
};
#pragma clang attribute pop

#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1

/* The number of bytes per wake-up, which takes about 20 us to process. */
#define WAKE_BYTES (16 << 10)
#define RECORD_BYTES (sizeof(struct request_record) + BPF_RINGBUF_HDR_SZ)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct request_watch watch;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

static __always_inline bool is_watched(__u32 disk)
{
	for (int k = 0; k < WATCHED_MAX && watch.disks[k]; k++)
		if (watch.disks[k] == disk)
			return true;
	return false;
}

static __always_inline __u64 wake_up(void)
{
	__u64 waiting = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);

	return waiting >= WAKE_BYTES && waiting % WAKE_BYTES < RECORD_BYTES ? BPF_RB_FORCE_WAKEUP
									    : BPF_RB_NO_WAKEUP;
}

static __always_inline int tell(const struct request *rq, enum request_event event)
{
	__u32 op = rq->cmd_flags & REQ_OP_MASK;
	struct request_record *record;
	__u32 disk;

	if (op > REQ_OP_WRITE || !rq->__data_len)
		return 0;
	/* for a queue without a disk both numbers are 0, which is never watched */
	disk = rq->q->disk->major << 20 | rq->q->disk->first_minor;
	if (!is_watched(disk))
		return 0;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&watch.lost, 1);
		return 0;
	}
	*record = (struct request_record){
		.request = (__u64)rq,
		.time_ns = bpf_ktime_get_ns(),
		.sector = rq->__sector,
		.bytes = rq->__data_len,
		.disk = disk,
		.event = event,
		.is_read = op == REQ_OP_READ,
	};
	bpf_ringbuf_submit(record, wake_up());
	return 0;
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(request_waits, struct request *rq)
{
	return tell(rq, REQUEST_WAITS);
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(request_is_issued, struct request *rq)
{
	return tell(rq, REQUEST_ISSUED);
}

SEC("tp_btf/block_rq_merge")
int BPF_PROG(request_is_merged, struct request *rq)
{
	return tell(rq, REQUEST_MERGED);
}

/* Only the completion of the last remaining part counts. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(request_ends, struct request *rq, int error, unsigned int bytes)
{
	if (bytes < rq->__data_len)
		return 0;
	return tell(rq, error ? REQUEST_FAILED : REQUEST_ANSWERED);
}
