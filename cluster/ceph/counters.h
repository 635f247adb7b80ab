/* SPDX-License-Identifier: MIT */
/*
 * librados' own counters of a handle, by its admin socket: how many reads a replica has sent on.
 *
 * No call says whether a read was. But a request that the OSD sends back is sent once more by
 * librados and answered once, so what was sent less what was answered and what is under way is what
 * was.
 */
#ifndef LINNOS_CEPH_COUNTERS_H
#define LINNOS_CEPH_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A folder that is this user's alone; "": there is none. */
void counters_folder(char *folder, size_t room);

/* Where a handle's socket is to be. */
void counters_path(const char *folder, unsigned int handle, char *path, size_t room);

/* false: nobody says. */
bool counters_unanswered(const char *folder, unsigned int handle, uint64_t *unanswered);

/* Of what the socket says; false: it says something else. */
bool read_unanswered(const char *counters, uint64_t *unanswered);

#endif
