// SPDX-License-Identifier: MIT
/* Write storms: see storm.h. */
#include "storm.h"
#include "engine.h"
#include "splitmix.h"

static bool storm_write(struct replay *r, struct storm *s)
{
	uint64_t end = r->devices[s->drive].size_bytes / BLOCK_BYTES * BLOCK_BYTES;

	if (r->draining || r->ring.now_ns >= s->slot_end_ns || s->left_bytes < s->block_bytes)
		return false;
	if (s->offset_bytes + s->block_bytes > end)
		s->offset_bytes = 0;
	background_write(r, s, s->drive, s->offset_bytes, s->block_bytes);
	s->offset_bytes += s->block_bytes;
	s->left_bytes -= s->block_bytes;
	s->writes++;
	s->bytes += s->block_bytes;
	return true;
}

void storm_slot(struct replay *r, struct storm *s)
{
	uint64_t blocks = r->devices[s->drive].size_bytes / BLOCK_BYTES;

	/* A write of the last slot may still be under way: the new slot fills up to the depth only.
	 */
	s->slots++;
	s->slot_end_ns = s->slot_ns ? s->timer.at_ns + s->slot_ns : UINT64_MAX;
	s->left_bytes = s->bytes_per_slot ? s->bytes_per_slot : UINT64_MAX;
	s->offset_bytes = splitmix_next(&r->random_state) % blocks * BLOCK_BYTES;
	if (s->every_ns)
		timer_arm(&r->timers, &s->timer, s->timer.at_ns + s->every_ns);
	while (s->in_flight < s->depth && storm_write(r, s))
		s->in_flight++;
}

void storm_written(struct replay *r, struct storm *s, bool ok)
{
	s->in_flight--;
	/* A drive that refuses would be asked again at once, and for ever: the next slot tries
	 * again. */
	if (!ok)
		s->slot_end_ns = 0;
	if (storm_write(r, s))
		s->in_flight++;
}

void storms_start(struct replay *r)
{
	for (unsigned int i = 0; i < r->n_storms; i++) {
		r->storms[i].timer.kind = TIMER_STORM;
		timer_arm(&r->timers, &r->storms[i].timer, r->start_ns + r->storms[i].start_ns);
	}
}
