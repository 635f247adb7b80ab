// SPDX-License-Identifier: MIT
/* Choose the replica that is predicted to answer first: see chooser.h. */
#include "chooser.h"

#include "spin.h"

#include <math.h>
#include <string.h>

/* Added to the rank of unhealthy drives. Larger than any prediction. */
#define OUT_US (1ull << 40)

void chooser_model_changed(struct chooser *c, unsigned int drive)
{
	const struct linnos_latency *model = __atomic_load_n(&c->models[drive], __ATOMIC_ACQUIRE);
	bool chooses = model->n_trees > 0;
	uint32_t others = c->common->chooses & ~(1u << drive);

	WRITE_ONCE(c->drives[drive].overdue_us, model->overdue_us);
	WRITE_ONCE(c->common->chooses, others | (uint32_t)chooses << drive);
}

void chooser_init(struct chooser *c, struct chooser_common *common, unsigned int n_drives,
		  struct observer *drives, struct linnos_latency **models, uint64_t explore_ns,
		  unsigned int margin_percent, bool guarded)
{
	memset(common, 0, sizeof(*common));
	common->unguarded = !guarded;
	*c = (struct chooser){
		.common = common,
		.n_drives = n_drives,
		.drives = drives,
		.models = models,
		.explore_ns = explore_ns,
		.margin_percent = margin_percent,
		.budget = {.share = PROBE_COPY_SHARE, .burst = PROBE_COPY_BURST},
	};
	for (unsigned int k = 0; k < n_drives; k++) {
		observer_init(&drives[k], models[k]->overdue_us);
		chooser_model_changed(c, k);
	}
}

void chooser_join(struct chooser *c, const struct chooser *first)
{
	*c = *first;
	c->budget.tokens = 0;
	c->n_unasked = c->n_stayed = 0;
	c->look_for_silent_ns = 0;
	c->told = NULL;
	memset(c->at_home, 0, sizeof(c->at_home));
	memset(c->us, 0, sizeof(c->us));
}

void chooser_set_probe_budget(struct chooser *c, double extra_share, struct budget *hedges)
{
	c->extra = hedges;
	c->budget.share = fmin(PROBE_COPY_SHARE,
			       hedges ? extra_share * PROBE_COPY_SHARE_OF_EXTRA : extra_share);
}

static uint32_t predicted_us(struct chooser *c, unsigned int drive, uint64_t offset_bytes,
			     uint32_t pages, uint64_t now_ns)
{
	uint32_t features[LINNOS_N_FEATURES];

	if (c->told && c->told->known & 1u << drive)
		return c->told->us[drive];
	observer_features(&c->drives[drive], offset_bytes, pages, now_ns, features);
	/* Load the model only after begin_choosing() has marked models as in use. */
	return linnos_latency_us(__atomic_load_n(&c->models[drive], __ATOMIC_SEQ_CST), features);
}

/* Return the time since a drive's last completion; 0 if the drive must not be probed, because a
 * read is in flight whose completion will update its history, or because the drive must be left
 * alone. */
static uint64_t silent_ns(const struct chooser *c, unsigned int drive, uint64_t now_ns)
{
	const struct observer *o = &c->drives[drive];
	uint64_t last_ns = READ_ONCE(o->heard_ns), start_ns = READ_ONCE(c->common->start_ns);
	uint64_t heard_ns = last_ns > start_ns ? last_ns : start_ns;
	struct linnos_load load;

	linnos_load_snapshot(&o->drive, &load);
	if (load.reads || now_ns <= heard_ns || now_ns - heard_ns < c->explore_ns)
		return 0;
	if ((READ_ONCE(o->failing) ||
	     (READ_ONCE(o->slow) && READ_ONCE(c->common->users_explore))) &&
	    now_ns < last_ns + READ_ONCE(o->quiet_ns))
		return 0;
	return now_ns - heard_ns;
}

static bool is_out(const struct chooser *c, unsigned int drive, uint64_t now_ns)
{
	const struct observer *o = &c->drives[drive];

	if (c->told && c->told->last & 1u << drive)
		return true;
	/* These two states count only if probes are sent: only a completion ends them, and an
	 * unhealthy drive receives no other reads. */
	return READ_ONCE(o->failing) || (READ_ONCE(o->slow) && c->explore_ns) ||
	       (READ_ONCE(o->unheard) && c->explore_ns && c->budget.share > 0) ||
	       observer_has_late_read(o, now_ns);
}

static bool chooses(const struct chooser *c, unsigned int drive)
{
	return (READ_ONCE(c->common->chooses) | (c->told ? c->told->known : 0)) & 1u << drive;
}

/* Return the queueing penalty for the reads that @drive has in flight in excess of those at
 * @home. */
static uint64_t queueing_penalty_us(const struct chooser *c, unsigned int home, unsigned int drive)
{
	struct linnos_load at_home, there;

	linnos_load_snapshot(&c->drives[home].drive, &at_home);
	linnos_load_snapshot(&c->drives[drive].drive, &there);
	if (there.reads <= at_home.reads)
		return 0;
	return linnos_queueing_penalty_us(there.reads - at_home.reads,
					  READ_ONCE(c->drives[drive].overdue_us));
}

int chooser_find_fastest(struct chooser *c, unsigned int home, uint64_t offset_bytes,
			 uint32_t pages, uint64_t now_ns, uint32_t mask)
{
	bool at_home, home_is_out = is_out(c, home, now_ns);
	uint64_t rank, lowest = UINT64_MAX;
	int best = -1;

	mask |= READ_ONCE(c->common->gone);
	at_home = !(mask & 1u << home) && !home_is_out;
	for (unsigned int i = 0; i < c->n_drives; i++) {
		unsigned int drive = (home + i) % c->n_drives;
		if (mask & 1u << drive)
			continue;
		c->us[drive] = predicted_us(c, drive, offset_bytes, pages, now_ns);
		if (at_home && drive != home && !(chooses(c, home) && chooses(c, drive)))
			continue;
		rank = c->us[drive] + queueing_penalty_us(c, home, drive) +
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

/* Return a drive for which the external predictions request a probe; -1 if there is none. */
static int externally_requested_probe(const struct chooser *c, unsigned int best)
{
	for (unsigned int drive = 0; c->told && drive < c->n_drives; drive++)
		if (drive != best && c->told->to_ask & ~READ_ONCE(c->common->gone) & 1u << drive &&
		    !READ_ONCE(c->drives[drive].failing))
			return drive;
	return -1;
}

static enum linnos_slowness wish_of(const struct chooser *c, unsigned int drive)
{
	return linnos_classify_slowness(c->us[drive], READ_ONCE(c->drives[drive].overdue_us));
}

/* Return true if most reads whose default replica is this drive are redirected, by the predictions
 * of the last choice. */
static bool is_mostly_avoided(struct chooser *c, unsigned int drive, uint64_t now_ns)
{
	bool leaves;

	if (c->common->unguarded || is_out(c, drive, now_ns))
		return true;
	spin_take(&c->common->guard_lock);
	leaves = linnos_guard_mostly_redirects(&c->common->guard, wish_of(c, drive));
	spin_leave(&c->common->guard_lock);
	return leaves;
}

/* Return the avoided drive whose last completion is oldest; -1 if no avoided drive is stale. */
static int longest_idle_drive(struct chooser *c, unsigned int best, uint64_t now_ns)
{
	uint32_t known = READ_ONCE(c->common->gone) | (c->told ? c->told->known : 0);
	uint64_t longest_ns = 0;
	int silent = -1;

	for (unsigned int drive = 0; c->explore_ns && drive < c->n_drives; drive++) {
		uint64_t for_ns = silent_ns(c, drive, now_ns);

		if (drive != best && !(known & 1u << drive) && for_ns > longest_ns &&
		    is_mostly_avoided(c, drive, now_ns)) {
			longest_ns = for_ns;
			silent = drive;
		}
	}
	return silent;
}

/* Return where a copy of a read that is sent to @best should go; -1 for no copy. */
static int copy_to(struct chooser *c, unsigned int best, uint64_t now_ns)
{
	int drive;

	if (!budget_allows(&c->budget) || (c->extra && !budget_allows(c->extra)))
		return -1;
	/* A drive does not become stale much earlier than the next check. */
	if (!c->told && now_ns < c->look_for_silent_ns)
		return -1;
	drive = externally_requested_probe(c, best);
	if (drive < 0)
		drive = longest_idle_drive(c, best, now_ns);
	if (drive < 0) {
		c->look_for_silent_ns = c->look_every ? now_ns + c->explore_ns / LOOKS : 0;
		return -1;
	}
	budget_spend(&c->budget);
	if (c->extra)
		budget_spend(c->extra);
	return drive;
}

/* Return true if the last prediction for an idle default drive can be used instead of a new one. */
static bool is_as_before(struct chooser *c, unsigned int home, uint32_t pages)
{
	if (c->at_home[home].pages != pages || c->at_home[home].n >= DEFAULT_PREDICT_EVERY - 1)
		return false;
	c->at_home[home].n++;
	return observer_recent_reads_within(&c->drives[home], pages,
					    DEFAULT_TOLERANCE * c->us[home]);
}

/* Return true if a read can stay at its default drive without predictions for the others. */
static bool can_stay_without_predicting(struct chooser *c, unsigned int home, uint64_t offset_bytes,
					uint32_t pages, uint64_t now_ns)
{
	uint32_t gone = READ_ONCE(c->common->gone);
	struct linnos_load load;
	uint64_t least_us;

	if (c->told || c->n_unasked >= c->look_every || gone & 1u << home)
		return false;
	linnos_load_snapshot(&c->drives[home].drive, &load);
	if (load.reads || load.write_pages || is_out(c, home, now_ns))
		return false;
	if (!is_as_before(c, home, pages)) {
		c->us[home] = predicted_us(c, home, offset_bytes, pages, now_ns);
		c->at_home[home].pages = pages;
		c->at_home[home].n = 0;
	}
	least_us = (uint64_t)c->us[home] * (100 - c->margin_percent);
	for (unsigned int k = 0; k < c->n_drives; k++)
		if (k != home && !(gone & 1u << k) && chooses(c, k) && chooses(c, home) &&
		    least_us > (uint64_t)c->us[k] * 100)
			return false;
	c->n_unasked++;
	return true;
}

struct choice chooser_read(struct chooser *c, unsigned int home, uint64_t offset_bytes,
			   uint32_t pages, uint64_t now_ns)
{
	struct choice choice = {.drive = home};

	if (!READ_ONCE(c->common->start_ns))
		WRITE_ONCE(c->common->start_ns, now_ns);
	budget_earn(&c->budget);
	if (!can_stay_without_predicting(c, home, offset_bytes, pages, now_ns)) {
		c->n_unasked = 0;
		choice.drive = chooser_find_fastest(c, home, offset_bytes, pages, now_ns, 0);
	}
	/* If the default drive is unhealthy, redirection needs no control group. */
	if (choice.drive != home && !c->common->unguarded &&
	    !(READ_ONCE(c->common->gone) & 1u << home) && !is_out(c, home, now_ns)) {
		spin_take(&c->common->guard_lock);
		choice.lot = linnos_guard_assign(&c->common->guard, wish_of(c, home), c->us[home]);
		spin_leave(&c->common->guard_lock);
		if (!choice.lot.left)
			choice.drive = home;
	}
	choice.copy = copy_to(c, choice.drive, now_ns);
	return choice;
}

void chooser_answered(struct chooser *c, struct linnos_assignment lot, uint64_t latency_ns)
{
	spin_take(&c->common->guard_lock);
	linnos_guard_record_latency(&c->common->guard, lot, latency_ns / 1000);
	spin_leave(&c->common->guard_lock);
}

void chooser_answered_sampled(struct chooser *c, struct linnos_assignment lot, uint64_t latency_ns)
{
	if (lot.wish == LINNOS_SLOWNESS_NONE && c->n_stayed++ % STAYED_SAMPLE_EVERY)
		return;
	chooser_answered(c, lot, latency_ns);
}
