/* SPDX-License-Identifier: MIT */
/*
 * Object placement, and the handles that read from each host.
 *
 * A separate thread queries the monitors, so reads never wait for them. It queries the OSDs of the
 * group of an object that was read, and then the host of each OSD, and creates a handle that claims
 * to be on that host. Once a second, while there are reads, it checks for a new map. After a new
 * map, each group is queried again at its next read, and its old placement is used until the answer
 * arrives. OSDs are queried again as well, because they may have moved. The handle of a host that
 * no group uses is closed. Outdated placement costs time but never returns wrong data, because Ceph
 * redirects each read to the right OSD.
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
 * The thread calls this function each time it has looked up an OSD, with the address of the OSD and
 * its index on its host.
 */
typedef void (*osd_found)(void *data, uint32_t osd, const char *address, unsigned int rank);

/*
 * Connect to a pool. @main is set to the pool of the handle without a crush_location, which exists
 * as long as the result, and @users to a second one for the caller's own use. Return 0, or a
 * negative errno after setting the error text.
 */
int placement_create(struct placement **placement, const struct login *login, uint64_t fresh_ns,
		     osd_found on_found, void *data, rados_ioctx_t *main, rados_ioctx_t *users);
void placement_free(struct placement *placement);

/* Return the number of OSDs for which there is room, including OSDs that are added later. */
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
	uint64_t queries, misplaced, handles;
	uint64_t bounced; /* reads that replicas redirected; UINT64_MAX if it is not known */
};

void placement_count(struct placement *placement, struct placement_counts *counts);

#endif
