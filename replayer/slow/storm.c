// SPDX-License-Identifier: MIT
/* Write storms: see storm.h. */
#include "storm.h"
#include "drive/splitmix.h"
#include "engine/attempts.h"

#include <stddef.h>

static void write_done(struct replay *r, struct attempt *a, int result);

static bool write_next(struct replay *r, struct storm *s)
{
	uint64_t end = r->devices[s->drive].size_bytes / BLOCK_BYTES * BLOCK_BYTES;

	if (r->draining || r->ring.now_ns >= s->slot_end_ns || s->left_bytes < s->block_bytes)
		return false;
	if (s->offset_bytes + s->block_bytes > end)
		s->offset_bytes = 0;
	s->in_flight++;
	background_write(r, s->drive, s->offset_bytes, s->block_bytes, write_done, s);
	s->offset_bytes += s->block_bytes;
	s->left_bytes -= s->block_bytes;
	s->writes++;
	s->bytes += s->block_bytes;
	return true;
}

static void write_done(struct replay *r, struct attempt *a, int result)
{
	struct storm *s = a->io->owner;

	a->io->answered = true;
	s->in_flight--;
	if (result != (int)a->io->size_bytes) {
		attempt_failed(r, a, result);
		/*
		 * A drive that fails writes would be written again at once, and forever; wait for
		 * the next slot instead.
		 */
		s->slot_end_ns = 0;
	}
	write_next(r, s);
}

/* Return the time from one of the storm's turns to the next, in ns. */
static uint64_t to_next_turn(struct storm *s)
{
	uint64_t ns = 0;

	do {
		s->turn = (s->turn + 1) % s->turns;
		ns += s->every_ns;
	} while (!(s->turn_mask & 1ull << s->turn));
	return ns;
}

/* Start a slot. */
static void begin_slot(void *replay, struct timer *t)
{
	struct storm *s = (struct storm *)((char *)t - offsetof(struct storm, timer));
	struct replay *r = replay;
	uint64_t blocks = r->devices[s->drive].size_bytes / BLOCK_BYTES;

	s->slots++;
	s->slot_end_ns = s->slot_ns ? t->at_ns + s->slot_ns : UINT64_MAX;
	s->left_bytes = s->bytes_per_slot ? s->bytes_per_slot : UINT64_MAX;
	s->offset_bytes = splitmix_next(&r->random_state) % blocks * BLOCK_BYTES;
	if (s->every_ns)
		timer_arm(&r->timers, t, t->at_ns + to_next_turn(s));
	/* Writes of the previous slot may still be in flight; they count for the depth. */
	while (s->in_flight < s->depth && write_next(r, s))
		;
}

void storms_start(struct replay *r)
{
	for (struct storm *s = r->storms->each; s < r->storms->each + r->storms->n; s++) {
		uint64_t first_ns = s->turn_mask & 1 ? 0 : to_next_turn(s);

		s->timer.expired = begin_slot;
		timer_arm(&r->timers, &s->timer, r->start_ns + s->start_ns + first_ns);
	}
}

uint32_t storms_in_flight(const struct storms *all)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < all->n; i++)
		n += all->each[i].in_flight;
	return n;
}
