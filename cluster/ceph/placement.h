/* SPDX-License-Identifier: MIT */
/*
 * Where objects lie, and the handles that read there.
 *
 * The monitors are asked by a thread of its own: whoever reads never waits for them. It asks for
 * the group of an object that somebody has read, and of what is then needed: the OSD's host, and a
 * handle that claims to be there. Once a second, while there are reads, it looks whether the map
 * has changed; a group of an older map is asked for again when it is read from, and until then is
 * where it was. An OSD is looked for again, too: it may have moved. A host that no group has any
 * more loses its handle. To be late costs time, never a wrong answer: Ceph itself sends each read
 * where it belongs.
 */
#ifndef LINNOS_CEPH_PLACES_H
#define LINNOS_CEPH_PLACES_H

#include "answers.h"

#include <rados/librados.h>
#include <stdbool.h>
#include <stdint.h>

/* What is the user's, for every handle. */
struct login {
	const char *configuration, *user, *pool;
};

enum place { PLACE_UNKNOWN, PLACE_FRESH, PLACE_KNOWN };

struct places;
struct handle;

/* Called by the thread when an OSD is met, perhaps again: at which address, and the how many-th of
 * its host. */
typedef void (*meet_osd)(void *of, uint32_t osd, const char *address, unsigned int rank);

/* *main: the pool by the handle without a place, which lives as long as this; *users: likewise, for
 * whatever its user does with it; errors are negative, and said. */
int places_create(struct places **places, const struct login *login, uint64_t fresh_ns,
		  meet_osd tell, void *of, rados_ioctx_t *main, rados_ioctx_t *users);
void places_free(struct places *places);

/* OSDs that can be told apart are numbered below this; there is room for some that come later. */
uint32_t places_osds(const struct places *places);

/* Who holds an object: the primary first, and then those that a handle reads from. */
enum place place_of(struct places *places, const char *object, uint64_t now_ns,
		    uint32_t osds[REPLICAS_MAX], unsigned int *n);
void place_written(struct places *places, const char *object, uint64_t now_ns);

/* A handle whose reads that OSD is asked for, for one of them: until it is left; NULL: there is
 * none. */
struct handle *place_enter(struct places *places, uint32_t osd);
void place_leave(struct places *places, struct handle *handle);
rados_ioctx_t handle_pool(const struct handle *handle);

struct place_counts {
	uint64_t asked, misplaced, handles;
	/* requests of handles with a place that were sent and answered by nobody, beyond those that
	 * are under way; UINT64_MAX: unknown */
	uint64_t bounced;
};

void places_count(struct places *places, struct place_counts *counts);

#endif
