/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the kernel's side (requests.bpf.c) tells the agent of requests, and what it is told. */
#ifndef LINNOS_AGENT_REQUEST_RECORDS_H
#define LINNOS_AGENT_REQUEST_RECORDS_H

#include <linux/types.h>

#define WATCHED_MAX 64

enum request_event {
	REQUEST_WAITS, /* in a scheduler */
	REQUEST_ISSUED,
	REQUEST_ANSWERED,
	REQUEST_FAILED,
	REQUEST_MERGED,
};

/**
 * struct request_record - what happened to a read or a write
 * @request: its address, which no other has before it ends
 * @sector: its last 32 bits
 * @bytes: of all of it
 * @disk: as in &request_watch.disks
 */
struct request_record {
	__u64 request;
	__u64 time_ns;
	__u32 sector;
	__u32 bytes;
	__u32 disk;
	__u8 event;
	__u8 is_read;
	__u16 unused;
};

/* For &request_watch.disks: one that is not there. */
#define NO_DISK 0xffffffffu

/**
 * struct request_watch - in memory of both sides
 * @disks: by major << 20 | minor, up to the first 0
 * @lost: so many records did not fit
 */
struct request_watch {
	__u32 disks[WATCHED_MAX];
	__u64 lost;
};

#endif
