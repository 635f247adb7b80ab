/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS as a module: how it is told of I/O, see linnos_tap.c.
 */
#ifndef _LINNOS_TAP_H
#define _LINNOS_TAP_H

#include <linux/atomic.h>
#include <linux/types.h>

#include "linnos_drive.h"

/* No read is decided here. */
#define trace_linnos_decision_enabled() false

struct blk_linnos;
struct gendisk;
struct request;
struct request_queue;

/**
 * struct linnos_slot - what is remembered of a request in flight
 * @rq: whose it is; NULL: of none
 * @io: how it is counted
 */
struct linnos_slot {
	const struct request *rq;
	struct linnos_io io;
};

/**
 * struct linnos_slots - one for each request that a queue may have in flight
 * @n_queues: hardware queues
 * @depth: tags of each
 * @at: at the number of the hardware queue times @depth, and the tag
 */
struct linnos_slots {
	unsigned int n_queues;
	unsigned int depth;
	struct linnos_slot at[];
};

/**
 * struct linnos_tap - how a drive's I/O is found
 * @by_queue: among the drives, by @queue
 * @queue: of the disk
 * @slots: of its requests; allocated when its mode first leaves off
 * @missed: requests that had none, for the queue had grown
 * @debugfs: its folder there
 */
struct linnos_tap {
	struct hlist_node by_queue;
	struct request_queue *queue;
	struct linnos_slots __rcu *slots;
	atomic_t missed;
	struct dentry *debugfs;
};

int linnos_tap_find_points(void);
int linnos_tap_begin(struct blk_linnos *linnos);
void linnos_tap_end(struct blk_linnos *linnos);
int linnos_tap_fit(struct blk_linnos *linnos);

#endif /* _LINNOS_TAP_H */
