/* SPDX-License-Identifier: MIT */
/*
 * The kernel's side of the device: /dev/ublk-control, which makes and removes it, and /dev/ublkcN,
 * through which its requests come.
 *
 *   ublk_add ──► commands that fetch requests, one a tag of each queue ──► START ──► /dev/ublkbN
 *   STOP ──► every fetch comes back aborted ──► ublk_delete
 *
 * A device that can be recovered outlives a server that is killed. It keeps its requests, also
 * those that the server had, until another has taken it over; what that has is done once more:
 *
 *   ublk_is_left ──► ublk_take_over ──► commands that fetch requests ──► RECOVER ──► /dev/ublkbN
 *
 * START reads the partition table, RECOVER waits for the fetches, and STOP waits for requests, so
 * both are submitted to the ring that serves the requests, and waited for in between; the rest is
 * done when a call returns.
 */
#ifndef LINNOS_UBLK_UBLK_H
#define LINNOS_UBLK_UBLK_H

#include "replicas.h"

#include <liburing.h>

struct ublksrv_io_desc;

struct ublk_device {
	uint32_t number;
	int control_fd, fd; /* fd: of /dev/ublkcN; < 0: not open */
	bool is_legacy;	    /* the driver knows the commands' first encoding only */
	bool is_taken_over;
	struct io_uring control;
	unsigned int n_queues, depth;
	unsigned int request_bytes_max;
	const struct ublksrv_io_desc *requests[QUEUES_MAX]; /* by tag, filled by the kernel */
};

enum ublk_command {
	UBLK_START, /* or RECOVER, of a device that was taken over */
	UBLK_STOP,
};

/* Die when there is no driver, no right, or no such device. */
void ublk_open_control(struct ublk_device *d);
void ublk_add(struct ublk_device *d, const struct options *o, const struct geometry *g);
/* Whether there is such a device that waits for a server; waits for one that is ending. What one
 * has left that was killed before START, or whose device cannot be recovered, is taken away. Dies
 * if it is served, or left and not to be recovered. */
bool ublk_is_left(struct ublk_device *d, uint32_t number, bool recover);
void ublk_take_over(struct ublk_device *d, const struct geometry *g);
/* It cannot be served: a device of our own goes, one that was taken over waits for another. */
void ublk_give_up(struct ublk_device *d);
/* Stops what still runs, and takes the device away; of any process. 0 or a negative errno. */
int ublk_delete(struct ublk_device *d);
void ublk_remove(uint32_t number);

void ublk_prep_command(const struct ublk_device *d, struct io_uring_sqe *sqe,
		       enum ublk_command command);
/* The first request of a queue's tag, to be written to or read from buf. */
void ublk_prep_fetch(const struct ublk_device *d, struct io_uring_sqe *sqe, unsigned int queue,
		     unsigned int tag, const void *buf);
/* A tag's request is done, with so many bytes or a negative errno; and the next one. */
void ublk_prep_commit(const struct ublk_device *d, struct io_uring_sqe *sqe, unsigned int queue,
		      unsigned int tag, const void *buf, int result);

#endif
