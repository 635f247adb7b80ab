/* SPDX-License-Identifier: MIT */
/* The replicas of an array: opened files and devices, or the replicas of a backend. Except for
 * has_lost_descriptors they do not change after the array was opened. */
#ifndef LINNOS_REPLICA_H
#define LINNOS_REPLICA_H

#include "chooser.h"
#include "liblinnos.h"

#include <stdbool.h>

struct io_uring_sqe;

/* For tests: replacements for the clock and for results of drives. */
struct hooks {
	uint64_t (*clock_ns)(void *context);
	/* May change an attempt's result, which is for a read at this offset. */
	int (*answer)(void *context, unsigned int replica, uint64_t offset, int result);
	void (*prepared)(void *context, unsigned int replica, struct io_uring_sqe *sqe);
	void *context;
};

struct replica {
	char *name;   /* for messages */
	int fd;	      /* -1 if it is absent, or belongs to a backend */
	bool is_ours; /* close it with the array */
	/* Required alignment of offsets and sizes, and of memory; powers of two, 1 for none. */
	uint32_t align_bytes, memory_align_bytes;
	uint64_t size_bytes;
};

struct replica_set {
	unsigned int n;
	struct replica replicas[CHOOSER_DRIVES_MAX];
	bool is_files;	     /* false: a backend reads them */
	bool queries_kernel; /* before each read */
	uint32_t missing;    /* bitmap of the files that were absent when the array was opened */
	uint64_t size_bytes; /* of the largest one when the array was opened */
	struct linnos_backend backend; /* a user's, or that of uring.c */
	struct hooks hooks;
	/* The program has closed descriptors of the library. A new ring could get the number of a
	 * replica's closed descriptor, so no new ring is opened. Accessed atomically. */
	bool has_lost_descriptors;
};

/* These functions return 0, or a negative errno after setting the error text. replica_set_close()
 * must be called in both cases. */

/* Add a file. If @path is NULL, the descriptor @fd is used, where -1 means that the replica is
 * absent.
 */
int replica_add_file(struct replica_set *set, const char *path, int fd, uint32_t flags,
		     bool may_be_absent);
int replica_add(struct replica_set *set, const struct linnos_replica *replica);
/* Check that at least one file or device is present, that no two are the same, and that either all
 * or none are empty. */
int replica_set_check_files(struct replica_set *set);
void replica_set_close(struct replica_set *set);

uint64_t replica_set_clock_ns(const struct replica_set *set);
/* Return the current size of the largest replica. A file may have grown. */
uint64_t replica_set_size_now(const struct replica_set *set);
/* Get the alignment that O_DIRECT requires of offsets and sizes, and of memory addresses. Both are
 * powers of two. */
void replica_direct_alignment(int fd, uint32_t *align_bytes, uint32_t *memory_align_bytes);

#endif
