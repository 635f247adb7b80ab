// SPDX-License-Identifier: MIT
/* The drive with the fewest pending pages: see shortest.h. */
#include "shortest.h"
#include "engine/attempts.h"

int shortest_queue(const struct replay *r, const struct io *io, uint32_t mask)
{
	int shortest = -1;

	for (unsigned int i = 0; i < r->n_drives; i++) {
		unsigned int drive = (io->home + i) % r->n_drives;

		if (mask & 1u << drive)
			continue;
		if (shortest < 0 || r->pending_pages[drive] < r->pending_pages[shortest])
			shortest = drive;
	}
	return shortest;
}
