/* SPDX-License-Identifier: MIT */
/*
 * Drives whose requests the agent watches; it predicts their latency with its own copy of the
 * model, as the kernel would.
 */
#ifndef LINNOS_AGENT_WATCHED_H
#define LINNOS_AGENT_WATCHED_H

#include "datagram.h"
#include "observer.h"
#include "request_records.h"

/**
 * struct watched - one drive
 * @observer: the history of the drive
 * @model: the latency model
 * @request_pages_max: maximum size of a request; larger reads are split
 * @disk: its entry in &request_watch.disks; several drives may have the same number
 * @n_issued: its requests in flight, excluding those in a scheduler
 * @next_check_ns: time of the next comparison with the kernel's count
 * @n_excess: number of consecutive comparisons in which @n_issued was higher
 */
struct watched {
	struct observer observer;
	struct linnos_latency *model;
	uint32_t request_pages_max;
	volatile __u32 *disk;
	uint32_t n_issued;
	uint32_t n_excess;
	uint64_t next_check_ns;
};

/*
 * Start with an empty history for the drive with this number (major << 20 | minor), or NO_DISK if
 * the drive does not exist.
 */
void watched_begin(struct watched *w, uint32_t disk, uint32_t request_pages_max);
/* Process a record, which may belong to one of the drives. */
void watched_feed(struct watched *all, unsigned int n, const struct request_record *r);
/* Records were lost, so the requests in flight are unknown. */
void watched_lost(void);
/*
 * Fill @known, @state, @latency_us and @pending; the last two may contain the kernel's count
 * before.
 */
void watched_query(struct watched *w, const struct query *query, uint64_t now_ns,
		   struct answer *answer);

#endif
