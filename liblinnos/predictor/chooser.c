// SPDX-License-Identifier: MIT
/* Choose the replica that is predicted to answer first: see chooser.h. */
#include "chooser.h"

#include "spin.h"

#include <math.h>
#include <string.h>

/* Added to the rank of unhealthy drives. Larger than any prediction. */
#define UNHEALTHY_US (1ull << 40)

void chooser_model_changed(struct chooser *c, unsigned int drive)
{
	const struct linnos_latency *model = __atomic_load_n(&c->models[drive], __ATOMIC_ACQUIRE);
	bool chooses = model->n_trees > 0;
	uint32_t others = c->common->chooses & ~(1u << drive);

	WRITE_ONCE(c->drives[drive].overdue_us, model->overdue_us);
	WRITE_ONCE(c->common->chooses, others | (uint32_t)chooses << drive);
}

void chooser_init(struct chooser *c, struct chooser_common *common, unsigned int n_drives,
		  struct observer *drives, struct linnos_latency **models, uint64_t probe_after_ns,
		  unsigned int margin_percent, bool guarded)
{
	memset(common, 0, sizeof(*common));
	common->unguarded = !guarded;
	*c = (struct chooser){
		.common = common,
		.n_drives = n_drives,
		.drives = drives,
		.models = models,
		.probe_after_ns = probe_after_ns,
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
}

void chooser_set_probe_budget(struct chooser *c, double extra_share, struct budget *hedges)
{
	c->extra = hedges;
	c->budget.share = fmin(PROBE_COPY_SHARE,
			       hedges ? extra_share * PROBE_COPY_SHARE_OF_EXTRA : extra_share);
}

/* --- Predictions ---------------------------------------------------------------------------- */

static void predict(struct chooser *c, unsigned int drive, uint64_t offset_bytes, uint32_t pages,
		    uint64_t now_ns)
{
	uint32_t features[LINNOS_N_FEATURES];

	c->predicted |= 1u << drive;
	if (c->external && c->external->known & 1u << drive) {
		c->us[drive] = c->external->us[drive];
		c->last[drive].pages = 0;
		return;
	}
	observer_features(&c->drives[drive], offset_bytes, pages, now_ns, features);
	/* Load the model only after begin_choosing() has marked models as in use. */
	c->us[drive] =
		linnos_latency_us(__atomic_load_n(&c->models[drive], __ATOMIC_SEQ_CST), features);
	c->last[drive].pages =
		features[LINNOS_READS_IN_FLIGHT] || features[LINNOS_WRITE_PAGES] ? 0 : pages;
	c->last[drive].n = 0;
}

/* @reads: number of reads in flight */
static bool is_unhealthy(const struct chooser *c, unsigned int drive, uint32_t reads,
			 uint64_t now_ns)
{
	const struct observer *o = &c->drives[drive];

	if (c->external && c->external->last & 1u << drive)
		return true;
	/* Only a completed read ends the states slow and unprobed. An unhealthy drive may receive
	 * no reads except probes, so without probes these states might never end. Ignore them then.
	 */
	return READ_ONCE(o->failing) || (READ_ONCE(o->slow) && c->probe_after_ns) ||
	       (READ_ONCE(o->unprobed) && c->probe_after_ns && c->budget.share > 0) ||
	       (reads && observer_has_late_read(o, now_ns));
}

static void take_state(struct chooser *c, unsigned int drive, uint64_t now_ns)
{
	struct linnos_load load;

	linnos_load_snapshot(&c->drives[drive].drive, &load);
	c->state[drive] = (struct drive_state){
		.reads = load.reads,
		.is_idle = !load.reads && !load.write_pages,
		.is_unhealthy = is_unhealthy(c, drive, load.reads, now_ns),
	};
}

static bool chooses(const struct chooser *c, unsigned int drive)
{
	return (READ_ONCE(c->common->chooses) | (c->external ? c->external->known : 0)) &
	       1u << drive;
}

/* Return the delay that is expected from this many reads in flight at a drive (chooser.h). */
static uint64_t queueing_penalty_us(const struct chooser *c, unsigned int drive, uint32_t reads)
{
	uint64_t median_us = READ_ONCE(c->common->median_us);

	if (!median_us)
		return linnos_queueing_penalty_us(reads, READ_ONCE(c->drives[drive].overdue_us));
	return (median_us * reads / READS_PER_MEDIAN) >> MEDIAN_SHIFT;
}

/* Return the prediction of a drive, increased by the queueing penalty for the reads that it has in
 * flight in excess of those at the default drive. Unhealthy drives rank after all others. */
static uint64_t rank_of(const struct chooser *c, unsigned int default_drive, unsigned int drive)
{
	const struct drive_state *there = &c->state[drive], *at_default = &c->state[default_drive];
	uint64_t rank = c->us[drive];

	if (there->reads > at_default->reads)
		rank += queueing_penalty_us(c, drive, there->reads - at_default->reads);
	return rank + (there->is_unhealthy ? UNHEALTHY_US : 0);
}

/* Return the drive with the lowest rank among those whose bit in @mask is clear, or the default
 * drive if the lowest rank is within the margin; -1 if all are masked. */
static int pick(const struct chooser *c, unsigned int default_drive, uint32_t mask)
{
	const bool is_masked = mask & 1u << default_drive;
	const bool default_is_unhealthy = c->state[default_drive].is_unhealthy;
	uint64_t lowest = UINT64_MAX;
	int best = -1;

	for (unsigned int i = 0, drive = default_drive; i < c->n_drives;
	     i++, drive = drive + 1 < c->n_drives ? drive + 1 : 0) {
		uint64_t rank;

		if (mask & 1u << drive)
			continue;
		if (!is_masked && !default_is_unhealthy && drive != default_drive &&
		    !(chooses(c, default_drive) && chooses(c, drive)))
			continue;
		rank = rank_of(c, default_drive, drive);
		if (rank < lowest) {
			lowest = rank;
			best = drive;
		}
	}
	if (best < 0 || is_masked || default_is_unhealthy != (lowest >= UNHEALTHY_US))
		return best;
	if ((uint64_t)c->us[default_drive] * (100 - c->margin_percent) <=
	    lowest % UNHEALTHY_US * 100)
		return default_drive;
	return best;
}

/* Return true if the last prediction for a drive can be used instead of a new one. The drive must
 * be idle, as it was then. */
static bool is_as_before(struct chooser *c, unsigned int drive, uint32_t pages)
{
	if (!c->state[drive].is_idle || c->last[drive].pages != pages ||
	    c->last[drive].n >= PREDICT_EVERY - 1 || !c->max_unpredicted_reads || c->external)
		return false;
	c->last[drive].n++;
	return observer_recent_reads_within(&c->drives[drive], pages,
					    REUSE_TOLERANCE * c->us[drive]);
}

static int find(struct chooser *c, unsigned int default_drive, uint64_t offset_bytes,
		uint32_t pages, uint64_t now_ns, uint32_t mask, bool reuse)
{
	uint32_t drives = ((1u << c->n_drives) - 1) & ~(mask |= READ_ONCE(c->common->dropped));

	/* The queueing penalty depends on the default drive even if @mask excludes it. */
	take_state(c, default_drive, now_ns);
	for (; drives; drives &= drives - 1) {
		unsigned int drive = __ffs(drives);

		if (drive != default_drive)
			take_state(c, drive, now_ns);
		if (!(c->predicted & 1u << drive) && !(reuse && is_as_before(c, drive, pages)))
			predict(c, drive, offset_bytes, pages, now_ns);
	}
	return pick(c, default_drive, mask);
}

int chooser_find_second(struct chooser *c, unsigned int default_drive, uint64_t offset_bytes,
			uint32_t pages, uint64_t now_ns, uint32_t mask)
{
	return find(c, default_drive, offset_bytes, pages, now_ns, mask, true);
}

int chooser_find_fastest(struct chooser *c, unsigned int default_drive, uint64_t offset_bytes,
			 uint32_t pages, uint64_t now_ns, uint32_t mask)
{
	c->predicted = 0;
	return find(c, default_drive, offset_bytes, pages, now_ns, mask, false);
}

/* --- Probes --------------------------------------------------------------------------------- */

/* Return the time since a drive's last completion; 0 if the drive must not be probed, because that
 * time is less than probe_after_ns, because a read in flight will update the history, or because
 * the drive must be left alone after a failed or slow read (observer.h). */
static uint64_t silent_ns(const struct chooser *c, unsigned int drive, uint64_t now_ns)
{
	const struct observer *o = &c->drives[drive];
	uint64_t last_ns = READ_ONCE(o->last_completion_ns);
	uint64_t start_ns = READ_ONCE(c->common->start_ns);
	uint64_t since_ns = last_ns > start_ns ? last_ns : start_ns;
	struct linnos_load load;

	linnos_load_snapshot(&o->drive, &load);
	if (load.reads || now_ns <= since_ns || now_ns - since_ns < c->probe_after_ns)
		return 0;
	if ((READ_ONCE(o->failing) || (READ_ONCE(o->slow) && READ_ONCE(c->common->users_probe))) &&
	    now_ns < last_ns + READ_ONCE(o->quiet_ns))
		return 0;
	return now_ns - since_ns;
}

/* Return a drive for which the external predictions request a probe; -1 if there is none. */
static int externally_requested_probe(const struct chooser *c, unsigned int best)
{
	for (unsigned int drive = 0; c->external && drive < c->n_drives; drive++)
		if (drive != best &&
		    c->external->probe & ~READ_ONCE(c->common->dropped) & 1u << drive &&
		    !READ_ONCE(c->drives[drive].failing))
			return drive;
	return -1;
}

static enum linnos_slowness slowness_of(const struct chooser *c, unsigned int drive)
{
	return linnos_classify_slowness(c->us[drive], READ_ONCE(c->drives[drive].overdue_us));
}

/* Return true if most reads with this default drive are redirected, according to its last
 * prediction. The drive has no reads in flight. */
static bool is_mostly_avoided(struct chooser *c, unsigned int drive, uint64_t now_ns)
{
	struct linnos_redirect_benefit benefit;

	if (c->common->unguarded || is_unhealthy(c, drive, 0, now_ns))
		return true;
	spin_take(&c->common->guard_lock);
	linnos_guard_get_benefit(&c->common->guard, slowness_of(c, drive), &benefit);
	spin_leave(&c->common->guard_lock);
	return benefit.share > LINNOS_GUARD_ALL / 2;
}

/* Return the avoided drive whose last completion is oldest; -1 if no avoided drive is stale. */
static int longest_idle_drive(struct chooser *c, unsigned int best, uint64_t now_ns)
{
	uint32_t excluded = READ_ONCE(c->common->dropped) | (c->external ? c->external->known : 0);
	uint64_t longest_ns = 0;
	int longest = -1;

	for (unsigned int drive = 0; c->probe_after_ns && drive < c->n_drives; drive++) {
		uint64_t for_ns = silent_ns(c, drive, now_ns);

		if (drive != best && !(excluded & 1u << drive) && for_ns > longest_ns &&
		    is_mostly_avoided(c, drive, now_ns)) {
			longest_ns = for_ns;
			longest = drive;
		}
	}
	return longest;
}

/* Return where a copy of a read that is sent to @best should go; -1 for no copy. */
static int copy_to(struct chooser *c, unsigned int best, uint64_t now_ns)
{
	int drive;

	/* The last check found no drive to probe. The next one is at most a fraction of
	 * probe_after_ns later. */
	if (!c->external && now_ns < c->next_silence_check_ns)
		return -1;
	if (!budget_allows(&c->budget) || (c->extra && !budget_allows(c->extra)))
		return -1;
	drive = externally_requested_probe(c, best);
	if (drive < 0)
		drive = longest_idle_drive(c, best, now_ns);
	if (drive < 0) {
		c->next_silence_check_ns =
			c->max_unpredicted_reads ? now_ns + c->probe_after_ns / SILENCE_CHECKS : 0;
		return -1;
	}
	budget_spend(&c->budget);
	if (c->extra)
		budget_spend(c->extra);
	return drive;
}

/* --- Choices -------------------------------------------------------------------------------- */

/* Return true if a read can stay at its default drive without predictions for the others. */
static bool can_stay_without_predicting(struct chooser *c, unsigned int default_drive,
					uint64_t offset_bytes, uint32_t pages, uint64_t now_ns)
{
	const uint32_t default_bit = 1u << default_drive;
	uint32_t dropped = READ_ONCE(c->common->dropped), others;
	uint64_t lowest_us;

	if (c->external || c->n_unpredicted >= c->max_unpredicted_reads || dropped & default_bit)
		return false;
	take_state(c, default_drive, now_ns);
	if (!c->state[default_drive].is_idle || c->state[default_drive].is_unhealthy)
		return false;
	if (!is_as_before(c, default_drive, pages))
		predict(c, default_drive, offset_bytes, pages, now_ns);
	lowest_us = (uint64_t)c->us[default_drive] * (100 - c->margin_percent);
	others = READ_ONCE(c->common->chooses) & ~dropped;
	others = others & default_bit ? others & ~default_bit : 0;
	for (; others; others &= others - 1)
		if (lowest_us > (uint64_t)c->us[__ffs(others)] * 100)
			return false;
	c->n_unpredicted++;
	return true;
}

struct choice chooser_read(struct chooser *c, unsigned int default_drive, uint64_t offset_bytes,
			   uint32_t pages, uint64_t now_ns)
{
	struct choice choice = {.drive = default_drive};

	if (!READ_ONCE(c->common->start_ns))
		WRITE_ONCE(c->common->start_ns, now_ns);
	budget_earn(&c->budget);
	c->predicted = 0;
	if (!can_stay_without_predicting(c, default_drive, offset_bytes, pages, now_ns)) {
		c->n_unpredicted = 0;
		choice.drive = find(c, default_drive, offset_bytes, pages, now_ns, 0, false);
	}
	/* If the default drive is unhealthy, redirection needs no control group. */
	if (choice.drive != default_drive && !c->common->unguarded &&
	    !(READ_ONCE(c->common->dropped) & 1u << default_drive) &&
	    !c->state[default_drive].is_unhealthy) {
		spin_take(&c->common->guard_lock);
		choice.assignment = linnos_guard_assign(
			&c->common->guard, slowness_of(c, default_drive), c->us[default_drive]);
		spin_leave(&c->common->guard_lock);
		if (!choice.assignment.redirected)
			choice.drive = default_drive;
	}
	choice.copy = copy_to(c, choice.drive, now_ns);
	return choice;
}

/* Move the median by a fixed fraction towards a latency. At the true median there are as many steps
 * up as down. */
static void update_median(struct chooser_common *common, uint64_t latency_us)
{
	uint64_t median_us = common->median_us;

	if (!median_us)
		median_us = latency_us << MEDIAN_SHIFT;
	else if (latency_us << MEDIAN_SHIFT > median_us)
		median_us += (median_us >> MEDIAN_STEP_SHIFT) + 1;
	else
		median_us -= median_us >> MEDIAN_STEP_SHIFT;
	WRITE_ONCE(common->median_us, median_us);
}

void chooser_answered(struct chooser *c, struct linnos_assignment assignment, uint64_t latency_ns)
{
	spin_take(&c->common->guard_lock);
	update_median(c->common, latency_ns / 1000);
	linnos_guard_record_latency(&c->common->guard, assignment, latency_ns / 1000);
	spin_leave(&c->common->guard_lock);
}

void chooser_answered_sampled(struct chooser *c, struct linnos_assignment assignment,
			      uint64_t latency_ns)
{
	if (assignment.slowness == LINNOS_SLOWNESS_NONE &&
	    c->n_unassigned++ % UNASSIGNED_SAMPLE_EVERY)
		return;
	chooser_answered(c, assignment, latency_ns);
}
