// SPDX-License-Identifier: MIT
/* Timing of a drive: see drive.h. */
#include "drive.h"

#include <stdlib.h>
#include <string.h>

/*
 * kernel/flashsim/profile.c has the sources of these values; rows_per_erase is block_slices times
 * pages_per_block.
 */
static const struct profile profiles[] = {
	{.name = "consumer",
	 .channels = 4,
	 .chips_per_channel = 4,
	 .planes = 2,
	 .page_kb = 16,
	 .read_ns = 74000,
	 .program_ns = 900000,
	 .erase_ns = 5000000,
	 .spread_pct = 20,
	 .channel_ns = 10240,
	 .controller_ns = 9000,
	 .host_ns = 7447,
	 .flush_interval_us = 1000000,
	 .reads_ahead = 64,
	 .rows_per_erase = 64 * 8,
	 .programs_per_row = 4},
	{.name = "enterprise",
	 .channels = 16,
	 .chips_per_channel = 8,
	 .planes = 2,
	 .page_kb = 16,
	 .read_ns = 68000,
	 .program_ns = 600000,
	 .erase_ns = 3800000,
	 .spread_pct = 15,
	 .channel_ns = 6144,
	 .controller_ns = 8000,
	 .host_ns = 1280,
	 .flush_interval_us = 64000,
	 .reads_ahead = 64,
	 .rows_per_erase = 64 * 4,
	 .programs_per_row = 1.6},
};

const struct profile *profile_named(const char *name)
{
	for (unsigned int k = 0; k < sizeof(profiles) / sizeof(*profiles); k++)
		if (!strcmp(profiles[k].name, name))
			return &profiles[k];
	return NULL;
}

static uint32_t n_chips(const struct profile *p)
{
	return p->channels * p->chips_per_channel;
}

void drive_init(struct drive *d, const struct profile *p, const struct injected *injected,
		uint32_t number)
{
	*d = (struct drive){.p = p, .injected = injected, .number = number};
	d->chips = calloc(n_chips(p), sizeof(*d->chips));
	d->channels = calloc(p->channels, sizeof(*d->channels));
	if (!d->chips || !d->channels)
		abort();
}

void drive_free(struct drive *d)
{
	free(d->chips);
	free(d->channels);
}

void drive_flush(struct drive *d, uint64_t now_ns, double bytes)
{
	const struct profile *p = d->p;

	d->rows_owed += bytes / (p->planes * p->page_kb * 1024.0) * p->programs_per_row;
	for (; d->rows_owed >= 1; d->rows_owed--) {
		struct chip *c = &d->chips[d->next_chip++ % n_chips(p)];

		if (!c->programs && !c->erase_steps)
			c->backlog_since_ns = now_ns;
		c->programs++;
		d->erases_owed += 1.0 / p->rows_per_erase;
		if (d->erases_owed >= 1) {
			d->erases_owed--;
			c->erase_steps +=
				p->erase_suspend_ns ? p->erase_ns / p->erase_suspend_ns : 1;
		}
	}
}

static void step(const struct profile *p, struct chip *c)
{
	uint64_t begin_ns =
		c->busy_until_ns > c->backlog_since_ns ? c->busy_until_ns : c->backlog_since_ns;

	if (c->programs) {
		c->programs--;
		c->busy_until_ns = begin_ns + p->program_ns;
	} else {
		c->erase_steps--;
		c->busy_until_ns =
			begin_ns + (p->erase_suspend_ns ? p->erase_suspend_ns : p->erase_ns);
	}
	c->overtaken = 0;
}

bool drive_is_slow(const struct drive *d, uint64_t now_ns)
{
	const struct injected *i = d->injected;
	uint64_t turn = i->turn_ns ? now_ns / i->turn_ns : 0;

	if (d->number == i->slow_drive && now_ns >= i->slow_from_ns && now_ns < i->slow_to_ns)
		return true;
	if (!i->burst_ns)
		return false;
	if (i->n_drives == i->one_in)
		return turn % i->one_in == d->number;
	return mixed(mixed(i->seed + turn) ^ d->number) % i->one_in == 0;
}

static uint64_t injected_ns(const struct drive *d, uint64_t now_ns)
{
	const struct injected *i = d->injected;

	if (!drive_is_slow(d, now_ns))
		return 0;
	return d->number == i->slow_drive && now_ns >= i->slow_from_ns && now_ns < i->slow_to_ns
		       ? i->slow_ns
		       : i->burst_ns;
}

/* Book a transfer into the gap before the last booking, or after it. */
static uint64_t transferred(struct channel *ch, uint64_t ready_ns, uint64_t ns, bool commit)
{
	uint64_t begin_ns = ready_ns;

	if (ready_ns + ns <= ch->begin_ns)
		return ready_ns + ns;
	if (begin_ns < ch->end_ns)
		begin_ns = ch->end_ns;
	if (commit)
		*ch = (struct channel){begin_ns, begin_ns + ns};
	return begin_ns + ns;
}

uint64_t drive_read(struct drive *d, uint64_t place, uint64_t now_ns, bool commit)
{
	const struct profile *p = d->p;
	uint64_t draw = mixed(place ^ mixed(d->number + 1)), end_ns,
		 begin_ns = now_ns + p->controller_ns;
	uint32_t number = draw % n_chips(p);
	struct chip chip = d->chips[number], *c = &chip;
	int page = (int)((draw >> 32) % 3) - 1;

	while ((c->programs || c->erase_steps) && c->busy_until_ns <= begin_ns)
		step(p, c);
	if (c->programs + c->erase_steps && c->overtaken >= p->reads_ahead)
		step(p, c);
	if (c->programs + c->erase_steps)
		c->overtaken++;
	if (begin_ns < c->busy_until_ns)
		begin_ns = c->busy_until_ns;
	end_ns = begin_ns + p->read_ns + page * (int64_t)(p->read_ns / 100 * p->spread_pct);
	c->busy_until_ns = end_ns;
	if (commit)
		d->chips[number] = chip;
	end_ns = transferred(&d->channels[number % p->channels], end_ns, p->channel_ns, commit);
	if (end_ns < d->host_free_ns && end_ns + 4 * p->read_ns > d->host_free_ns)
		end_ns = d->host_free_ns;
	end_ns += p->host_ns;
	if (commit && end_ns > d->host_free_ns)
		d->host_free_ns = end_ns;
	return end_ns + injected_ns(d, now_ns);
}
