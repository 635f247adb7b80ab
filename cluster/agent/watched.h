/* SPDX-License-Identifier: MIT */
/* Drives whose requests the agent is told of: what its own model predicts, as the kernel would. */
#ifndef LINNOS_AGENT_WATCHED_H
#define LINNOS_AGENT_WATCHED_H

#include "datagram.h"
#include "observer.h"
#include "request_records.h"

/**
 * struct watched - one of them
 * @observer: what is known of it
 * @model: what makes a prediction of that
 * @request_pages_max: of no larger read are there requests
 * @disk: in &request_watch.disks: whose requests are its own, perhaps another's, too
 * @n_issued: its requests in flight, but those in a scheduler
 * @look_ns: when it is next compared with what the kernel has
 * @n_more: so many times in a row it was more
 */
struct watched {
	struct observer observer;
	struct linnos_latency *model;
	uint32_t request_pages_max;
	volatile __u32 *disk;
	uint32_t n_issued;
	uint32_t n_more;
	uint64_t look_ns;
};

/* The drive is there, as new, under this number (major << 20 | minor); or not, NO_DISK. */
void watched_begin(struct watched *w, uint32_t disk, uint32_t request_pages_max);
/* Something happened to a request, perhaps of one of them. */
void watched_feed(struct watched *all, unsigned int n, const struct request_record *r);
/* Records were lost: nobody knows what is in flight. */
void watched_lost(void);
/* Fills @known, @state, @latency_us and @pending, which may have what the kernel says of it. */
void watched_ask(struct watched *w, const struct question *question, uint64_t now_ns,
		 struct answer *answer);

#endif
