// SPDX-License-Identifier: MIT
/* Chooses the replica that is predicted to answer first: see chooser.h. */
#include "chooser.h"

#include <math.h>

/* After all predictions. */
#define OUT_US (1ull << 32)

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
	for (unsigned int k = 0; k < n_drives; k++) {
		observer_init(&drives[k], models[k]->overdue_us);
		c->chooses |= linnos_latency_chooses(models[k]) ? 1u << k : 0;
	}
}

void chooser_cap(struct chooser *c, double extra_share, struct budget *hedges)
{
	c->extra = hedges;
	c->budget.share =
		fmin(EXPLORED_SHARE, hedges ? extra_share * EXPLORED_OF_EXTRA : extra_share);
}

static uint32_t predicted_us(struct chooser *c, unsigned int drive, uint32_t pages, uint64_t now_ns)
{
	uint32_t features[LINNOS_N_FEATURES];

	if (c->told && c->told->known & 1u << drive)
		return c->told->us[drive];
	observer_features(&c->drives[drive], pages, now_ns, features);
	return linnos_latency_us(c->models[drive], features);
}

/* How long a drive has been silent; 0 while nobody should look at it: a read is under way that will
 * tell, or it is left alone. */
static uint64_t silent_ns(const struct chooser *c, unsigned int drive, uint64_t now_ns)
{
	const struct observer *o = &c->drives[drive];
	uint64_t heard_ns = o->heard_ns > c->start_ns ? o->heard_ns : c->start_ns;
	struct linnos_load load;

	linnos_see_load(&o->drive, &load);
	if (load.reads || now_ns <= heard_ns || now_ns - heard_ns < c->explore_ns)
		return 0;
	if ((o->failing || (o->slow && c->users_explore)) && now_ns - o->heard_ns < o->quiet_ns)
		return 0;
	return now_ns - heard_ns;
}

static bool is_out(const struct chooser *c, unsigned int drive, uint64_t now_ns)
{
	const struct observer *o = &c->drives[drive];

	if (c->told && c->told->last & 1u << drive)
		return true;
	/* That it was slow is forgotten by who looks again. */
	return o->failing || (o->slow && c->explore_ns) || observer_is_stalled(o, now_ns);
}

static bool chooses(const struct chooser *c, unsigned int drive)
{
	return (c->chooses | (c->told ? c->told->known : 0)) & 1u << drive;
}

int chooser_lowest(struct chooser *c, unsigned int home, uint32_t pages, uint64_t now_ns,
		   uint32_t mask)
{
	bool at_home, home_is_out = is_out(c, home, now_ns);
	uint64_t rank, lowest = UINT64_MAX;
	int best = -1;

	mask |= c->gone;
	at_home = !(mask & 1u << home) && !home_is_out;
	for (unsigned int i = 0; i < c->n_drives; i++) {
		unsigned int drive = (home + i) % c->n_drives;
		if (mask & 1u << drive)
			continue;
		c->us[drive] = predicted_us(c, drive, pages, now_ns);
		if (at_home && drive != home && !(chooses(c, home) && chooses(c, drive)))
			continue;
		rank = c->us[drive] + (is_out(c, drive, now_ns) ? OUT_US : 0);
		if (rank < lowest) {
			lowest = rank;
			best = drive;
		}
	}
	if (best < 0 || mask & 1u << home || home_is_out != (lowest >= OUT_US))
		return best;
	if ((uint64_t)c->us[home] * (100 - c->margin_percent) <= c->us[best] * 100ull)
		return home;
	return best;
}

/* A drive to look at because it is told so; -1: none. */
static int told_to_ask(const struct chooser *c, unsigned int best)
{
	for (unsigned int drive = 0; c->told && drive < c->n_drives; drive++)
		if (drive != best && c->told->to_ask & ~c->gone & 1u << drive &&
		    !c->drives[drive].failing)
			return drive;
	return -1;
}

/* The drive that has been silent for longest; -1: none has for long enough. */
static int longest_silent(const struct chooser *c, unsigned int best, uint64_t now_ns)
{
	uint32_t known = c->gone | (c->told ? c->told->known : 0);
	uint64_t longest_ns = 0;
	int silent = -1;

	for (unsigned int drive = 0; c->explore_ns && drive < c->n_drives; drive++) {
		uint64_t for_ns = silent_ns(c, drive, now_ns);

		if (drive != best && !(known & 1u << drive) && for_ns > longest_ns) {
			longest_ns = for_ns;
			silent = drive;
		}
	}
	return silent;
}

unsigned int chooser_read(struct chooser *c, unsigned int home, uint32_t pages, uint64_t now_ns,
			  int *copy)
{
	unsigned int best;

	if (!c->start_ns)
		c->start_ns = now_ns;
	budget_earn(&c->budget);
	best = chooser_lowest(c, home, pages, now_ns, 0);
	*copy = -1;
	if (!budget_allows(&c->budget) || (c->extra && !budget_allows(c->extra)))
		return best;
	*copy = told_to_ask(c, best);
	if (*copy < 0)
		*copy = longest_silent(c, best, now_ns);
	if (*copy < 0)
		return best;
	budget_spend(&c->budget);
	if (c->extra)
		budget_spend(c->extra);
	return best;
}
