/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS as a module: observe I/O through trace points, see linnos_tap.c.
 */
#ifndef _LINNOS_TAP_H
#define _LINNOS_TAP_H

#include <linux/atomic.h>
#include <linux/types.h>

#include "linnos_drive.h"

struct blk_linnos;
struct gendisk;
struct request;
struct request_queue;

/**
 * struct linnos_slot - the state of a request in flight
 * @rq: the request, or NULL if the slot has not been used
 * @io: the I/O as counted in the load of the drive
 */
struct linnos_slot {
	const struct request *rq;
	struct linnos_io io;
};

/**
 * struct linnos_slots - a slot for each request that a queue may have in flight
 * @n_queues: number of hardware queues
 * @depth: number of tags per hardware queue
 * @at: the slots; the index is the number of the hardware queue times @depth, plus the tag
 */
struct linnos_slots {
	unsigned int n_queues;
	unsigned int depth;
	struct linnos_slot at[];
};

/**
 * struct linnos_tap - the connection of a drive to the trace points
 * @by_queue: entry in the hash table of observed drives, by @queue
 * @queue: the queue of the disk
 * @slots: slots for its requests; allocated when its mode first changes from off
 * @missed: number of requests without a slot, because the queue had grown
 * @debugfs: the directory of the drive in debugfs
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
