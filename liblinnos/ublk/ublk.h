/* SPDX-License-Identifier: MIT */
/*
 * The interface to the ublk driver: /dev/ublk-control, which creates and deletes the device, and
 * /dev/ublkcN, through which its requests arrive.
 *
 *   ublk_add ──► commands that fetch requests, one per tag of each queue ──► START ──► /dev/ublkbN
 *   STOP ──► every fetch completes as aborted ──► ublk_delete
 *
 * A device that can be recovered continues to exist when its server is killed. It keeps its
 * requests, including those that the server had, until another server has taken it over. The
 * requests that the killed server had are then repeated:
 *
 *   ublk_needs_recovery ──► ublk_take_over ──► commands that fetch requests ──► RECOVER
 *
 * START reads the partition table, RECOVER waits for the fetches, and STOP waits for requests. All
 * three are therefore submitted to the ring that serves the requests, which continues while they
 * are in flight. The other commands are complete when their function returns.
 */
#ifndef LINNOS_UBLK_UBLK_H
#define LINNOS_UBLK_UBLK_H

#include "replicas.h"

#include <liburing.h>

struct ublksrv_io_desc;

struct ublk_device {
	uint32_t number;
	int control_fd, fd; /* fd is that of /dev/ublkcN, < 0 if it is not open */
	bool is_taken_over;
	struct io_uring control;
	unsigned int n_queues, depth;
	unsigned int request_bytes_max;
	const struct ublksrv_io_desc *requests[QUEUES_MAX]; /* by tag, filled by the kernel */
};

enum ublk_command {
	UBLK_START, /* or RECOVER for a device that was taken over */
	UBLK_STOP,
};

/* These functions die if there is no driver, no permission, or no such device. */
void ublk_open_control(struct ublk_device *d);
void ublk_add(struct ublk_device *d, const struct options *o, const struct geometry *g);
/* Return true if the device exists and waits for a server. Waits until a server that is ending has
 * ended. Deletes a device whose server was killed before START, or that cannot be recovered. Dies
 * if the device has a server, or if it waits for one and @recover is false. */
bool ublk_needs_recovery(struct ublk_device *d, uint32_t number, bool recover);
void ublk_take_over(struct ublk_device *d, const struct geometry *g);
/* Release a device that cannot be served: delete it if this process has created it, or leave it for
 * another server if it was taken over. */
void ublk_release(struct ublk_device *d);
/* Stop and delete the device, whichever process serves it. Return 0 or a negative errno. */
int ublk_delete(struct ublk_device *d);
void ublk_remove(uint32_t number);

void ublk_prep_command(const struct ublk_device *d, struct io_uring_sqe *sqe,
		       enum ublk_command command);
/* Fetch the first request for a tag of a queue, whose data is written to or read from @buf. */
void ublk_prep_fetch(const struct ublk_device *d, struct io_uring_sqe *sqe, unsigned int queue,
		     unsigned int tag, const void *buf);
/* Complete a tag's request with a number of bytes or a negative errno, and fetch the next one. */
void ublk_prep_commit(const struct ublk_device *d, struct io_uring_sqe *sqe, unsigned int queue,
		      unsigned int tag, const void *buf, int result);

#endif
