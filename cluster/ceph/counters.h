/* SPDX-License-Identifier: MIT */
/*
 * Count the reads that a replica redirected, from librados' performance counters at the admin
 * socket of a handle.
 *
 * No librados call reports redirected reads. But librados sends a redirected request a second time
 * and counts one answer, so the number of redirected reads is the number of requests sent, minus
 * those answered, minus those in flight.
 */
#ifndef LINNOS_CEPH_COUNTERS_H
#define LINNOS_CEPH_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Create a folder that only this user can access. Set @folder to "" on failure. */
void counters_folder(char *folder, size_t room);

/* Get the path of a handle's socket. */
void counters_path(const char *folder, unsigned int handle, char *path, size_t room);

/* Get the number of requests that were sent but not answered. Return false if the socket does not
 * answer. */
bool counters_unanswered(const char *folder, unsigned int handle, uint64_t *unanswered);

/* Parse the answer of the socket; return false if it has a different format. */
bool read_unanswered(const char *counters, uint64_t *unanswered);

#endif
