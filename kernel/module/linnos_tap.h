/* SPDX-License-Identifier: GPL-2.0-only */
/* LinnOS as a module: observe I/O through trace points, see linnos_tap.c. */
#ifndef _LINNOS_TAP_H
#define _LINNOS_TAP_H

#include <linux/atomic.h>
#include <linux/list.h>
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
 * struct linnos_queue - an observed request queue; its I/O counts as that of a drive
 * @by_queue: entry in the hash table of observed queues; the key is @queue
 * @of_drive: entry in &linnos_tap.queues
 * @linnos: the drive
 * @disk: the disk of the queue: the drive's own, or a path to it
 * @queue: the queue of @disk
 * @slots: slots for its requests; allocated when the mode of the drive first changes from off
 * @missed: number of requests without a slot, because the queue had grown
 */
struct linnos_queue {
	struct hlist_node by_queue;
	struct list_head of_drive;
	struct blk_linnos *linnos;
	struct gendisk *disk;
	struct request_queue *queue;
	struct linnos_slots __rcu *slots;
	atomic_t missed;
};

/**
 * struct linnos_tap - the connection of a drive to the trace points
 * @own: the queue of the drive's own disk; for the head of an NVMe multipath drive it has no
 *	requests, but queries find the drive by it
 * @queues: @own and the queues of the paths; changed under linnos_drives_lock and
 *	&blk_linnos.lock, read under either of them
 * @debugfs: the directory of the drive in debugfs
 */
struct linnos_tap {
	struct linnos_queue own;
	struct list_head queues;
	struct dentry *debugfs;
};

int linnos_tap_find_points(void);
int linnos_tap_begin(struct blk_linnos *linnos);
void linnos_tap_end(struct blk_linnos *linnos);
int linnos_tap_add_path(struct blk_linnos *linnos, struct gendisk *path);
void linnos_tap_remove_path(struct blk_linnos *linnos,
			    const struct gendisk *path);
int linnos_tap_fit(struct blk_linnos *linnos);
unsigned int linnos_tap_missed(const struct blk_linnos *linnos);

#endif /* _LINNOS_TAP_H */
