/* SPDX-License-Identifier: MIT */
/* The node's drives, open for reading, and what the kernel expects of them. */
#ifndef LINNOS_AGENT_DRIVES_H
#define LINNOS_AGENT_DRIVES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watched.h"

/**
 * struct drive - one of them
 * @path: of its block device
 * @number: of that, while it is there
 * @fd: open for reading, or -1 while it is not there
 * @pending_fd: the file that tells what is in flight, or -1
 * @pending_is_pages: it is LinnOS' own; otherwise that of every block device, of requests
 * @pending_is_counted: unless the kernel was told not to
 * @known: what the last answer was made of
 * @look_again_ns: of a drive that is not there: not before
 * @watched: what predicts where the kernel does not, or NULL
 */
struct drive {
	const char *path;
	dev_t number;
	int fd;
	int pending_fd;
	bool pending_is_pages, pending_is_counted;
	uint16_t known;
	uint64_t look_again_ns;
	struct watched *watched;
};

/* Opens what is there; what is not is looked for again, each second at most. */
void drive_open(struct drive *drive, const char *path);
/* From now on its requests are told, as soon as it is there. */
void drive_watch(struct drive *drive, struct watched *watched);
/* Fills @known, @state, @latency_us and @pending. */
void drive_ask(struct drive *drive, const struct question *question, uint64_t now_ns,
	       struct answer *answer);

#endif
