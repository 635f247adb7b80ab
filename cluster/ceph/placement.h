/* SPDX-License-Identifier: MIT */
/*
 * Object placement, and the handles that read from each host.
 *
 * A separate thread asks the monitors, so reads never wait for them. It asks for the group of an
 * object that was read, and then for the OSD's host, and creates a handle that claims to be on that
 * host. Once a second, while there are reads, it checks for a new map. A group from an older map is
 * asked for again at its next read, and its old placement is used until then. OSDs are looked up
 * again as well, because they may have moved. The handle of a host that no group uses is closed.
 * Outdated placement costs time but never returns wrong data, because Ceph redirects each read to
 * the right OSD.
 */
#ifndef LINNOS_CEPH_PLACEMENT_H
#define LINNOS_CEPH_PLACEMENT_H

#include "answers.h"

#include <rados/librados.h>
#include <stdbool.h>
#include <stdint.h>

/* The user's options, for all handles. */
struct login {
	const char *configuration, *user, *pool;
};

enum place { PLACE_UNKNOWN, PLACE_FRESH, PLACE_KNOWN };

struct placement;
struct handle;

/*
 * Called by the thread when an OSD is looked up, possibly again: its address, and its index on its
 * host.
 */
typedef void (*osd_found)(void *data, uint32_t osd, const char *address, unsigned int rank);

/*
 * @main is set to the pool of the handle without a crush_location, which exists as long as the
 *	result. @users is set to a second one, for the caller's own use. Errors are negative, and
 *	their text is set.
 */
int placement_create(struct placement **placement, const struct login *login, uint64_t fresh_ns,
		     osd_found on_found, void *data, rados_ioctx_t *main, rados_ioctx_t *users);
void placement_free(struct placement *placement);

/* Return the upper bound of OSD numbers, with room for OSDs that are added later. */
uint32_t placement_osds(const struct placement *placement);

/* Get the OSDs of an object: the primary first, then those that a handle reads from. */
enum place placement_find(struct placement *placement, const char *object, uint64_t now_ns,
			  uint32_t osds[REPLICAS_MAX], unsigned int *n);
void placement_wrote(struct placement *placement, const char *object, uint64_t now_ns);

/*
 * Return the handle that reads from an OSD, and hold it until handle_leave(); NULL if there is
 * none.
 */
struct handle *handle_enter(struct placement *placement, uint32_t osd);
void handle_leave(struct placement *placement, struct handle *handle);
rados_ioctx_t handle_pool(const struct handle *handle);

struct placement_counts {
	uint64_t asked, misplaced, handles;
	/*
	 * requests of handles with a crush_location that were sent but not answered, minus those in
	 * flight; UINT64_MAX if unknown
	 */
	uint64_t bounced;
};

void placement_count(struct placement *placement, struct placement_counts *counts);

#endif
