// SPDX-License-Identifier: MIT
/* Chooses the replica that is predicted to answer first: see chooser.h. */
#include "chooser.h"

/* After all predictions. */
#define FAILING_US UINT32_MAX

void chooser_init(struct chooser *c, unsigned int n_drives, struct observer *drives,
		  struct linnos_latency *const *models, uint64_t explore_ns,
		  unsigned int margin_percent)
{
	*c = (struct chooser){
		.n_drives = n_drives,
		.drives = drives,
		.models = models,
		.explore_ns = explore_ns,
		.margin_percent = margin_percent,
		.budget = {.share = EXPLORED_SHARE, .burst = EXPLORED_BURST},
	};
	for (unsigned int k = 0; k < n_drives; k++)
		observer_init(&drives[k], models[k]->overdue_us);
}

static uint32_t predicted_us(struct chooser *c, unsigned int drive, uint32_t pages, uint64_t now_ns)
{
	uint32_t features[LINNOS_N_FEATURES];

	if (c->told && c->told->known & 1u << drive)
		return c->told->us[drive];
	observer_features(&c->drives[drive], pages, now_ns, features);
	return linnos_latency_us(c->models[drive], features);
}

/* How long a drive has been silent, in us; 0 while a read is under way that will tell. */
static uint64_t silent_us(const struct chooser *c, unsigned int drive, uint64_t now_ns)
{
	const struct observer *o = &c->drives[drive];
	uint64_t heard_ns = o->heard_ns > c->start_ns ? o->heard_ns : c->start_ns;

	if (o->reads_in_flight || now_ns <= heard_ns || now_ns - heard_ns < c->explore_ns)
		return 0;
	return (now_ns - heard_ns) / 1000;
}

static uint32_t rank_of(const struct chooser *c, unsigned int drive)
{
	bool last = c->told && c->told->last & 1u << drive;

	return last || c->drives[drive].failing ? FAILING_US : c->us[drive];
}

int chooser_lowest(struct chooser *c, unsigned int home, uint32_t pages, uint64_t now_ns,
		   uint32_t mask)
{
	uint32_t *us = c->us;
	int best = -1;

	mask |= c->gone;
	for (unsigned int i = 0; i < c->n_drives; i++) {
		unsigned int drive = (home + i) % c->n_drives;
		if (mask & 1u << drive)
			continue;
		us[drive] = predicted_us(c, drive, pages, now_ns);
		if (best < 0 || rank_of(c, drive) < rank_of(c, best))
			best = drive;
	}
	if (best < 0 || mask & 1u << home || rank_of(c, home) == FAILING_US)
		return best;
	if ((uint64_t)us[home] * (100 - c->margin_percent) <= us[best] * 100ull)
		return home;
	return best;
}

/* A drive that this read should go to because it is told so; -1: none. */
static int told_to_ask(const struct chooser *c)
{
	for (unsigned int drive = 0; c->told && drive < c->n_drives; drive++)
		if (c->told->to_ask & ~c->gone & 1u << drive && !c->drives[drive].failing)
			return drive;
	return -1;
}

unsigned int chooser_read(struct chooser *c, unsigned int home, uint32_t pages, uint64_t now_ns,
			  bool *explored)
{
	uint64_t longest_us = 0;
	unsigned int best, silent;

	if (!c->start_ns)
		c->start_ns = now_ns;
	budget_earn(&c->budget);
	*explored = false;
	silent = best = chooser_lowest(c, home, pages, now_ns, 0);
	if (told_to_ask(c) >= 0) {
		*explored = (unsigned int)told_to_ask(c) != best;
		return told_to_ask(c);
	}
	if (!c->explore_ns || !budget_allows(&c->budget))
		return best;
	for (unsigned int drive = 0; drive < c->n_drives; drive++) {
		uint64_t for_us = silent_us(c, drive, now_ns);

		if ((c->gone | (c->told ? c->told->known : 0)) & 1u << drive)
			continue;
		if (for_us >= c->us[drive] && for_us > longest_us) {
			longest_us = for_us;
			silent = drive;
		}
	}
	if (silent == best)
		return best;
	budget_spend(&c->budget);
	*explored = true;
	return silent;
}
