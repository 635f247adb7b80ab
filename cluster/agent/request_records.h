/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Records about requests from the kernel side (requests.bpf.c) to the agent, and the shared
 * settings.
 */
#ifndef LINNOS_AGENT_REQUEST_RECORDS_H
#define LINNOS_AGENT_REQUEST_RECORDS_H

#include <linux/types.h>

#define WATCHED_MAX 64

enum request_event {
	REQUEST_WAITS, /* inserted into a scheduler */
	REQUEST_ISSUED,
	REQUEST_ANSWERED,
	REQUEST_FAILED,
	REQUEST_MERGED,
};

/**
 * struct request_record - an event of a read or a write
 * @request: its address, which is unique until it completes
 * @sector: the low 32 bits of its first sector
 * @bytes: its total length
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

/* For &request_watch.disks: a missing disk. */
#define NO_DISK 0xffffffffu

/**
 * struct request_watch - memory shared by both sides
 * @disks: major << 20 | minor of each disk, up to the first 0
 * @lost: number of records that did not fit
 */
struct request_watch {
	__u32 disks[WATCHED_MAX];
	__u64 lost;
};

#endif
