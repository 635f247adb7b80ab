/* SPDX-License-Identifier: MIT */
/* The node's drives, which are open for reading, and the kernel's predictions for them. */
#ifndef LINNOS_AGENT_DRIVES_H
#define LINNOS_AGENT_DRIVES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "datagram.h"

/**
 * struct drive - one drive
 * @path: path of its block device
 * @number: device number while the drive exists
 * @fd: open for reading, or -1 while the drive does not exist
 * @pending_fd: file with the number of I/Os in flight, or -1
 * @pending_is_pages: true if the file is that of LinnOS, which counts pages; false if it is the
 *	file that each block device has, which counts requests
 * @pending_is_counted: false if the kernel's I/O accounting is disabled
 * @known: the member @known of the last answer
 * @retry_ns: time of the next attempt to open a missing drive
 */
struct drive {
	const char *path;
	dev_t number;
	int fd;
	int pending_fd;
	bool pending_is_pages, pending_is_counted;
	uint16_t known;
	uint64_t retry_ns;
};

/* Open a drive. A missing drive is tried again at most once a second. */
void drive_open(struct drive *drive, const char *path);
/* Fill @known, @state, @latency_us and @pending. */
void drive_query(struct drive *drive, const struct query *query, uint64_t now_ns,
		 struct answer *answer);

#endif
