// SPDX-License-Identifier: MIT
/* Chooses the replica that is predicted to answer first: see chooser.h. */
#include "chooser.h"

#include <math.h>

/* After all predictions. */
#define OUT_US (1ull << 40)

void chooser_init(struct chooser *c, unsigned int n_drives, struct observer *drives,
		  struct linnos_latency *const *models, uint64_t explore_ns,
		  unsigned int margin_percent, bool guarded)
{
	*c = (struct chooser){
		.n_drives = n_drives,
		.drives = drives,
		.models = models,
		.explore_ns = explore_ns,
		.margin_percent = margin_percent,
		.unguarded = !guarded,
		.budget = {.share = EXPLORED_SHARE, .burst = EXPLORED_BURST},
	};
	for (unsigned int k = 0; k < n_drives; k++) {
		observer_init(&drives[k], models[k]->overdue_us);
		if (guarded ? models[k]->n_trees > 0 : linnos_latency_chooses(models[k]))
			c->chooses |= 1u << k;
	}
}

void chooser_cap(struct chooser *c, double extra_share, struct budget *hedges)
{
	c->extra = hedges;
	c->budget.share =
		fmin(EXPLORED_SHARE, hedges ? extra_share * EXPLORED_OF_EXTRA : extra_share);
}

static uint32_t predicted_us(struct chooser *c, unsigned int drive, uint64_t offset_bytes,
			     uint32_t pages, uint64_t now_ns)
{
	uint32_t features[LINNOS_N_FEATURES];

	if (c->told && c->told->known & 1u << drive)
		return c->told->us[drive];
	observer_features(&c->drives[drive], offset_bytes, pages, now_ns, features);
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

/* What is added to a prediction for the reads that a drive has in flight, and home has not. */
static uint64_t crowding_us(const struct chooser *c, unsigned int home, unsigned int drive)
{
	struct linnos_load at_home, there;

	linnos_see_load(&c->drives[home].drive, &at_home);
	linnos_see_load(&c->drives[drive].drive, &there);
	if (there.reads <= at_home.reads)
		return 0;
	return linnos_crowding_us(there.reads - at_home.reads, c->drives[drive].overdue_us);
}

int chooser_lowest(struct chooser *c, unsigned int home, uint64_t offset_bytes, uint32_t pages,
		   uint64_t now_ns, uint32_t mask)
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
		c->us[drive] = predicted_us(c, drive, offset_bytes, pages, now_ns);
		if (at_home && drive != home && !(chooses(c, home) && chooses(c, drive)))
			continue;
		rank = c->us[drive] + crowding_us(c, home, drive) +
		       (is_out(c, drive, now_ns) ? OUT_US : 0);
		if (rank < lowest) {
			lowest = rank;
			best = drive;
		}
	}
	if (best < 0 || mask & 1u << home || home_is_out != (lowest >= OUT_US))
		return best;
	if ((uint64_t)c->us[home] * (100 - c->margin_percent) <= lowest % OUT_US * 100)
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

/* Do reads leave it, that have it as their home? As the last choice has predicted. */
static bool is_avoided(const struct chooser *c, unsigned int drive, uint64_t now_ns)
{
	const struct observer *o = &c->drives[drive];

	return c->unguarded || is_out(c, drive, now_ns) ||
	       linnos_guard_leaves(&c->guard, linnos_wish_of(c->us[drive], o->overdue_us));
}

/* The avoided drive that has been silent for longest; -1: none has for long enough. */
static int longest_silent(const struct chooser *c, unsigned int best, uint64_t now_ns)
{
	uint32_t known = c->gone | (c->told ? c->told->known : 0);
	uint64_t longest_ns = 0;
	int silent = -1;

	for (unsigned int drive = 0; c->explore_ns && drive < c->n_drives; drive++) {
		uint64_t for_ns = silent_ns(c, drive, now_ns);

		if (drive != best && !(known & 1u << drive) && for_ns > longest_ns &&
		    is_avoided(c, drive, now_ns)) {
			longest_ns = for_ns;
			silent = drive;
		}
	}
	return silent;
}

/* Where a copy of a read that goes to best should go, -1: nowhere. */
static int copy_to(struct chooser *c, unsigned int best, uint64_t now_ns)
{
	int drive;

	if (!budget_allows(&c->budget) || (c->extra && !budget_allows(c->extra)))
		return -1;
	drive = told_to_ask(c, best);
	if (drive < 0)
		drive = longest_silent(c, best, now_ns);
	if (drive < 0)
		return -1;
	budget_spend(&c->budget);
	if (c->extra)
		budget_spend(c->extra);
	return drive;
}

struct choice chooser_read(struct chooser *c, unsigned int home, uint64_t offset_bytes,
			   uint32_t pages, uint64_t now_ns)
{
	struct choice choice = {0};

	if (!c->start_ns)
		c->start_ns = now_ns;
	budget_earn(&c->budget);
	choice.drive = chooser_lowest(c, home, offset_bytes, pages, now_ns, 0);
	/* Who leaves a home that is out has nothing to compare. */
	if (choice.drive != home && !c->unguarded && !(c->gone & 1u << home) &&
	    !is_out(c, home, now_ns)) {
		choice.lot = linnos_guard_draw(
			&c->guard, linnos_wish_of(c->us[home], c->drives[home].overdue_us),
			c->us[home]);
		if (!choice.lot.left)
			choice.drive = home;
	}
	choice.copy = copy_to(c, choice.drive, now_ns);
	return choice;
}

void chooser_answered(struct chooser *c, struct linnos_lot lot, uint64_t latency_ns)
{
	linnos_guard_learn(&c->guard, lot, latency_ns / 1000);
}
