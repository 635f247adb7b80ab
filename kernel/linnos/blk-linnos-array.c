// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: measure whether an md array gains from redirecting reads.
 *
 * A stacked driver (md) selects a disk for each read by a rule of its own. This disk is called
 * the default disk of the read, and "home" in the names below. If the predictions say that
 * another disk is faster, the read is redirected or, at random, kept at the default disk as a
 * control. The latencies of both groups decide how many reads are redirected
 * (core/linnos_guard.c). An array whose disks have misleading models is therefore soon read as
 * if it had no models.
 *
 * A redirected read also takes time of another disk, and a control read finds the default
 * disk less busy than it would be if no read were redirected. A random assignment per read
 * cannot show this. Time is therefore divided into slices. In about one slice out of
 * %OFF_SLICE_EVERY no disk is queried; once queries have proved beneficial, it is one out of
 * %OFF_SLICE_EVERY_BENEFICIAL. The distance between two such slices is random, so that no periodic
 * load can stay in step with them. It is at most one and a half times its mean: during a longer
 * one, the means could decay until the benefit is unknown again. Comparing slices with and without
 * queries gives the benefit.
 *
 * The array is suspended if the benefit is negative, or if it is not known yet and no class of
 * reads is mostly redirected. While it is suspended, disks are queried and reads redirected in
 * only one slice out of %ON_SLICE_EVERY, to notice a change.
 *
 * A prediction takes time, too. The default disk is therefore queried first, and the other
 * disks only if the read may be redirected according to the answer. If fewer than %FEW of 1024
 * reads of a slowness class are redirected, the other disks are queried for only one read in
 * 2^%EXPLORE_SHIFT of that class, chosen at random. The same applies to the class
 * %LINNOS_SLOWNESS_NORMAL if the other disks include a better one for fewer than one in
 * %SELDOM of its reads.
 *
 * An array has one guard, with a lock. With a guard per CPU, each of them would need the minimum
 * number of samples before it knows anything. Reads for which another disk is better take the
 * lock twice, for less than a microsecond. Reads of the class %LINNOS_SLOWNESS_NORMAL for which
 * other disks were queried take it once more: one in 2^%SAMPLE_SHIFT of them, or all while the
 * other disks are queried for only one read in 2^%EXPLORE_SHIFT. One read in 2^%SAMPLE_SHIFT,
 * chosen at random from all reads, adds its latency to its slice when it completes. Sampling has
 * to be uniform. If reads that can be redirected were sampled more often, slices with few reads
 * would be biased towards slow reads.
 *
 * A read that probes a disk is not assigned at random, because it is sent to measure that disk.
 */
#include <linux/bitfield.h>
#include <linux/blk-linnos-array.h>
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "linnos_guard.h"

/*
 * Means decay once every 2^%FADE_SHIFT slices: the decay of a single slice would be lost in
 * rounding to 1/%LINNOS_GUARD_ONE.
 */
#define FADE_SHIFT 5
/* log2 of a slice in ns, 16.8 ms: longer than most reads, shorter than most bursts */
#define SLICE_SHIFT 24
#define OFF_SLICE_EVERY 64
#define OFF_SLICE_EVERY_BENEFICIAL 256
#define ON_SLICE_EVERY 8
/* Means decay over 2^%FORGET_SLICES slices, that is, two minutes if every slice has reads. */
#define FORGET_SLICES 13
/*
 * Minimum number of slices of each kind. It is a little less than eight, so that eight are
 * still enough after they have decayed a little.
 */
#define SLICES_ENOUGH (15 * LINNOS_GUARD_ONE / 2)
/* Upper limit of the mean of a slice, in us. Keeps sums of squares below 2^64. */
#define SLICE_MAX_US 0x7ffff
#define SAMPLE_SHIFT 3
#define EXPLORE_SHIFT 2
#define FEW 64
/*
 * Querying the other disks costs less than 1 % of the latency of a normal read, and a better disk
 * saves at least a quarter of it. Queries therefore pay off if about one read in %SELDOM finds a
 * better disk.
 */
#define SELDOM 32
#define ASKED_ENOUGH 64
#define ASKED_MOST 1024

static unsigned int linnos_slice_seed;
module_param_named(slice_seed, linnos_slice_seed, uint, 0444);
MODULE_PARM_DESC(slice_seed, "seed that selects slices (0: random)");

static const char *const linnos_array_modes[] = { "off", "on", "unguarded" };
static const char *const linnos_slowness_names[] = { NULL, "normal", "over_p90",
						     "over_2x_p90",
						     "over_3x_p90" };

/* Slices of one kind, with or without queries. */
struct linnos_slices {
	u64 last; /* number of the last slice */
	u64 reads; /* sampled reads of the last slice */
	u64 us; /* sum of their latencies */
	struct linnos_moments took; /* mean latencies of previous slices */
};

struct blk_linnos_guard {
	/* this cache line is read for each read */
	u64 slice; /* number of the current slice */
	bool asks; /* disks are queried in this slice */
	bool stays; /* suspended: queries do not pay off */
	u8 leaves_for; /* bitmap of the classes for which other disks are queried */

	/* protects the rest; raw, because completions take it on PREEMPT_RT, too */
	raw_spinlock_t lock ____cacheline_aligned_in_smp;
	struct linnos_guard core; /* assigns single reads */
	/* [0]: without queries, [1]: with queries */
	struct linnos_slices slices[2];
	u32 begun; /* number of slices with a sampled read */
	/* counters of reads of the class LINNOS_SLOWNESS_NORMAL, halved above %ASKED_MOST */
	u32 asked; /* reads for which other disks were queried */
	u32 better; /* those of them for which another disk was better */
	struct rnd_state random; /* selects slices */
	u32 until_off; /* number of slices before the next one without queries */
};

/*
 * The gain from queries: the number of us by which they reduce the mean latency of a slice, and
 * the squared standard error of that number.
 */
struct linnos_gain {
	s64 us;
	u64 error;
};

/* Return false if there are too few slices. */
static bool linnos_estimate_gain(const struct blk_linnos_guard *g,
				 struct linnos_gain *gain)
{
	const struct linnos_moments *off = &g->slices[0].took;
	const struct linnos_moments *on = &g->slices[1].took;

	if (off->n < SLICES_ENOUGH || on->n < SLICES_ENOUGH)
		return false;
	gain->us = linnos_moments_mean_us(off) - linnos_moments_mean_us(on);
	gain->error = linnos_moments_mean_variance(off) +
		      linnos_moments_mean_variance(on);
	return true;
}

/*
 * Return 1 if queries make the mean read of the array faster, -1 if they make it slower, and 0
 * if that is not known. The difference must exceed three standard errors, because it is tested
 * often.
 */
static int linnos_query_benefit_sign(const struct blk_linnos_guard *g)
{
	struct linnos_gain gain;

	if (!linnos_estimate_gain(g, &gain) ||
	    (u64)(gain.us * gain.us) <= 9 * gain.error)
		return 0;
	return gain.us < 0 ? -1 : 1;
}

/*
 * Return true if the array should be suspended. @pays is the result of linnos_query_benefit_sign().
 * While it is 0, suspend the array if there have been reads that could be redirected, but no
 * class of them is mostly redirected.
 */
static bool linnos_should_suspend(const struct blk_linnos_guard *g, int pays)
{
	bool leaves = false, wished = false;
	int i;

	if (pays)
		return pays < 0;
	for (i = LINNOS_SLOWNESS_NONE + 1; i < LINNOS_N_SLOWNESS; i++) {
		wished |= g->core.eligible[i];
		leaves |= g->core.eligible[i] &&
			  linnos_guard_mostly_redirects(&g->core, i);
	}
	return wished && !leaves;
}

/* Return a bitmap of the slowness classes for which other disks should be queried. */
static u8 linnos_redirect_classes(const struct blk_linnos_guard *g)
{
	struct linnos_redirect_benefit benefit;
	u8 which = 0;
	int i;

	for (i = LINNOS_SLOWNESS_NONE + 1; i < LINNOS_N_SLOWNESS; i++) {
		linnos_guard_get_benefit(&g->core, i, &benefit);
		if (benefit.share >= FEW)
			which |= BIT(i);
	}
	if (g->asked >= ASKED_ENOUGH && g->better * SELDOM < g->asked)
		which &= ~BIT(LINNOS_SLOWNESS_NORMAL);
	return which;
}

/*
 * Count a read for which other disks were queried although the default disk is not slow. @better:
 * true if one of them is better.
 */
static void linnos_count_query(struct blk_linnos_guard *g, bool better)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&g->lock, flags);
	g->asked++;
	g->better += better;
	if (g->asked > ASKED_MOST) {
		g->asked /= 2;
		g->better /= 2;
	}
	raw_spin_unlock_irqrestore(&g->lock, flags);
}

static bool linnos_any_queried(const enum blk_linnos_expected *answers,
			       unsigned int n, unsigned int home)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (i != home && answers[i] != BLK_LINNOS_NOT_QUERIED)
			return true;
	return false;
}

static noinline void linnos_next_slice(struct blk_linnos_guard *g, u64 slice)
{
	unsigned long flags;
	u32 random, off_every;
	int pays;

	raw_spin_lock_irqsave(&g->lock, flags);
	/* another CPU may have started this slice already */
	if (g->slice < slice) {
		pays = linnos_query_benefit_sign(g);
		off_every = pays > 0 ? OFF_SLICE_EVERY_BENEFICIAL :
				       OFF_SLICE_EVERY;
		WRITE_ONCE(g->stays, linnos_should_suspend(g, pays));
		/* in its few slices with queries, a suspended array tests all classes */
		WRITE_ONCE(g->leaves_for,
			   g->stays ? U8_MAX : linnos_redirect_classes(g));
		random = prandom_u32_state(&g->random);
		if (g->stays) {
			WRITE_ONCE(g->asks, !(random % ON_SLICE_EVERY));
		} else if (g->until_off) {
			g->until_off--;
			WRITE_ONCE(g->asks, true);
		} else {
			g->until_off = off_every / 2 + random % off_every;
			WRITE_ONCE(g->asks, false);
		}
		WRITE_ONCE(g->slice, slice);
	}
	raw_spin_unlock_irqrestore(&g->lock, flags);
}

/* Initialize an array; must be called first. Return: 0 or -ENOMEM. */
int blk_linnos_array_init(struct blk_linnos_array *array)
{
	array->mode = BLK_LINNOS_ARRAY_OFF;
	array->guard = kzalloc(sizeof(*array->guard), GFP_KERNEL);
	if (!array->guard)
		return -ENOMEM;
	raw_spin_lock_init(&array->guard->lock);
	return 0;
}
EXPORT_SYMBOL_GPL(blk_linnos_array_init);

/* Return the slowness class of an answer of the default disk. */
static enum linnos_slowness
linnos_answer_slowness(enum blk_linnos_expected answer)
{
	if (answer & BLK_LINNOS_US)
		return FIELD_GET(BLK_LINNOS_US_SLOWNESS, answer);
	return answer == BLK_LINNOS_SLOW ? LINNOS_SLOWNESS_OVER_P90 :
					   LINNOS_SLOWNESS_NONE;
}

/*
 * blk_linnos_array_should_query() for an array whose mode is not off. Return true if disks
 * should be queried for a read. The caller keeps @lot for blk_linnos_record_latency().
 */
bool __blk_linnos_array_should_query(struct blk_linnos_array *array,
				     struct blk_linnos_assignment *lot)
{
	struct blk_linnos_guard *g = array->guard;
	u64 now_ns, slice;
	u32 random;

	if (READ_ONCE(array->mode) != BLK_LINNOS_ARRAY_ON)
		return true;
	now_ns = ktime_get_ns();
	slice = now_ns >> SLICE_SHIFT;
	if (READ_ONCE(g->slice) < slice)
		linnos_next_slice(g, slice);
	lot->asked = READ_ONCE(g->asks);
	random = hash_64(now_ns, SAMPLE_SHIFT + EXPLORE_SHIFT);
	lot->counts = !(random >> EXPLORE_SHIFT);
	lot->tries = !(random & GENMASK(EXPLORE_SHIFT - 1, 0));
	if (lot->counts)
		lot->start_ns = now_ns;
	return lot->asked;
}
EXPORT_SYMBOL_GPL(__blk_linnos_array_should_query);

/**
 * blk_linnos_may_redirect() - check whether the other disks have to be queried, too
 * @array: the array
 * @lot: from blk_linnos_array_should_query()
 * @home: answer of blk_linnos_expect() for the default disk
 *
 * Return: false if the default disk serves the read, whatever is expected of the others.
 */
bool blk_linnos_may_redirect(const struct blk_linnos_array *array,
			     const struct blk_linnos_assignment *lot,
			     enum blk_linnos_expected home)
{
	enum linnos_slowness wish = linnos_answer_slowness(home);

	if (home == BLK_LINNOS_NOT_QUERIED)
		return true;
	/* no disk is better than a fast or unknown one; a disk to be probed gets this read */
	if (wish == LINNOS_SLOWNESS_NONE)
		return false;
	return READ_ONCE(array->mode) != BLK_LINNOS_ARRAY_ON || lot->tries ||
	       READ_ONCE(array->guard->leaves_for) & BIT(wish);
}
EXPORT_SYMBOL_GPL(blk_linnos_may_redirect);

/**
 * blk_linnos_redirect() - choose the disks that should serve a read
 * @array: the array
 * @answers: answer of blk_linnos_expect() for each disk
 * @n: number of disks, at most %BITS_PER_LONG
 * @home: index of the default disk
 * @lot: from blk_linnos_array_should_query()
 *
 * Context: Any. Does not sleep.
 * Return: a bitmap of disks; 0 if the default disk should serve the read.
 */
unsigned long blk_linnos_redirect(struct blk_linnos_array *array,
				  const enum blk_linnos_expected *answers,
				  unsigned int n, unsigned int home,
				  struct blk_linnos_assignment *lot)
{
	unsigned long best = blk_linnos_best(answers, n);
	bool guarded = READ_ONCE(array->mode) == BLK_LINNOS_ARRAY_ON;
	enum linnos_slowness wish = linnos_answer_slowness(answers[home]);
	bool leaves = best && !(best & BIT(home));
	struct blk_linnos_guard *g = array->guard;
	unsigned long flags;

	if (wish == LINNOS_SLOWNESS_NORMAL && guarded &&
	    (lot->counts || !(READ_ONCE(g->leaves_for) & BIT(wish))) &&
	    linnos_any_queried(answers, n, home))
		linnos_count_query(g, leaves);
	if (!leaves)
		return 0;
	/* the default disk cannot serve the read, or another disk is to be probed: no test */
	if (wish == LINNOS_SLOWNESS_NONE || !guarded)
		return best;
	lot->asked = true;
	lot->wish = wish;
	/* only a latency model predicts microseconds */
	lot->home_us = answers[home] & BLK_LINNOS_US ?
			       answers[home] & BLK_LINNOS_US_MASK :
			       U32_MAX;
	raw_spin_lock_irqsave(&g->lock, flags);
	lot->left =
		linnos_guard_assign(&g->core, wish, lot->home_us).redirected;
	raw_spin_unlock_irqrestore(&g->lock, flags);
	lot->start_ns = lot->start_ns ?: ktime_get_ns();
	return lot->left ? best : 0;
}
EXPORT_SYMBOL_GPL(blk_linnos_redirect);

/* Begin a slice. Previous slices of both kinds decay at the same rate. */
static void linnos_begin_slice(struct blk_linnos_guard *g,
			       struct linnos_slices *slices, u64 slice)
{
	const u32 shift = FORGET_SLICES - FADE_SHIFT;

	if (!(++g->begun % (1 << FADE_SHIFT))) {
		linnos_moments_decay(&g->slices[0].took, shift);
		linnos_moments_decay(&g->slices[1].took, shift);
	}
	if (slices->reads)
		linnos_moments_add(&slices->took,
				   min_t(u64, SLICE_MAX_US,
					 div64_u64(slices->us, slices->reads)));
	slices->last = slice;
	slices->reads = 0;
	slices->us = 0;
}

/* blk_linnos_record_latency() for a read that the guard has assigned or sampled. */
void __blk_linnos_record_latency(struct blk_linnos_array *array,
				 const struct blk_linnos_assignment *lot)
{
	struct blk_linnos_guard *g = array->guard;
	struct linnos_slices *slices = &g->slices[lot->asked];
	u64 us = div_u64(ktime_get_ns() - lot->start_ns, NSEC_PER_USEC);
	u64 slice = lot->start_ns >> SLICE_SHIFT;
	struct linnos_assignment drawn = {
		.default_us = lot->home_us,
		.slowness = lot->wish,
		.redirected = lot->left,
	};
	unsigned long flags;

	raw_spin_lock_irqsave(&g->lock, flags);
	/* if a later slice of its kind has begun since, the read counts in that one */
	if (lot->counts && slice > slices->last)
		linnos_begin_slice(g, slices, slice);
	if (lot->counts) {
		slices->reads++;
		slices->us += us;
	}
	if (lot->asked)
		linnos_guard_record_latency(&g->core, drawn, us);
	raw_spin_unlock_irqrestore(&g->lock, flags);
}
EXPORT_SYMBOL_GPL(__blk_linnos_record_latency);

/* Show the mode in sysfs: off, on or unguarded. Return: number of bytes written to @page. */
ssize_t blk_linnos_array_show(struct blk_linnos_array *array, char *page)
{
	return sysfs_emit(page, "%s\n",
			  linnos_array_modes[READ_ONCE(array->mode)]);
}
EXPORT_SYMBOL_GPL(blk_linnos_array_show);

/*
 * Set the mode. Writing "on" resets the guard, even if the mode is on already: do so after
 * loading other models for the disks. Return: 0 or -EINVAL.
 */
int blk_linnos_array_store(struct blk_linnos_array *array, const char *word)
{
	struct blk_linnos_guard *g = array->guard;
	int mode = sysfs_match_string(linnos_array_modes, word);
	/* before the raw lock is taken: get_random_u64() may sleep on PREEMPT_RT */
	u64 seed = linnos_slice_seed ?: get_random_u64();
	unsigned long flags;

	if (mode < 0)
		return mode;
	raw_spin_lock_irqsave(&g->lock, flags);
	if (mode == BLK_LINNOS_ARRAY_ON) {
		WRITE_ONCE(g->slice, 0);
		WRITE_ONCE(g->stays, false);
		memset_after(g, 0, lock);
		WRITE_ONCE(g->leaves_for, linnos_redirect_classes(g));
		prandom_seed_state(&g->random, seed);
		g->until_off = prandom_u32_state(&g->random) % OFF_SLICE_EVERY;
	}
	WRITE_ONCE(array->mode, mode);
	raw_spin_unlock_irqrestore(&g->lock, flags);
	return 0;
}
EXPORT_SYMBOL_GPL(blk_linnos_array_store);

/* Print the gain from queries in percent of the mean read, and its 95 % interval. */
static int linnos_emit_gain(const struct blk_linnos_guard *g, char *page,
			    int at)
{
	const struct linnos_moments *off = &g->slices[0].took;
	const struct linnos_moments *on = &g->slices[1].took;
	struct linnos_gain gain;
	s64 off_us, error_us;
	u64 wider;

	if (!linnos_estimate_gain(g, &gain))
		return sysfs_emit_at(page, at, "gain_percent n/a\n");
	off_us = linnos_moments_mean_us(off) + 1;
	gain.us *= 100;
	/*
	 * Use the larger variance of the two kinds. If no burst happened during the few slices
	 * without queries, their variance is too small.
	 */
	wider = max(linnos_moments_mean_variance(off) * off->n,
		    linnos_moments_mean_variance(on) * on->n);
	error_us = 200 *
		   int_sqrt64(div_u64(wider, off->n) + div_u64(wider, on->n));
	return sysfs_emit_at(page, at, "gain_percent %lld %lld %lld\n",
			     gain.us / off_us, (gain.us - error_us) / off_us,
			     min_t(s64, (gain.us + error_us) / off_us, 100));
}

/* Show the state and the measurements of the guard in sysfs. */
ssize_t blk_linnos_array_show_guard(struct blk_linnos_array *array, char *page)
{
	u8 mode = READ_ONCE(array->mode);
	const char *state = linnos_array_modes[mode];
	struct linnos_redirect_benefit benefit;
	struct blk_linnos_guard g;
	unsigned long flags;
	u64 redirected = 0;
	int i, at;

	raw_spin_lock_irqsave(&array->guard->lock, flags);
	g = *array->guard;
	raw_spin_unlock_irqrestore(&array->guard->lock, flags);
	for (i = LINNOS_SLOWNESS_NONE + 1; i < LINNOS_N_SLOWNESS; i++)
		redirected += g.core.redirected[i];
	if (mode == BLK_LINNOS_ARRAY_ON)
		state = g.stays ? "suspended" : "redirecting";
	at = sysfs_emit(page, "state %s\nredirected %llu\n", state, redirected);
	at += linnos_emit_gain(&g, page, at);
	for (i = LINNOS_SLOWNESS_NONE + 1; i < LINNOS_N_SLOWNESS; i++) {
		linnos_guard_get_benefit(&g.core, i, &benefit);
		at += sysfs_emit_at(page, at, "%s reads %llu redirected %llu ",
				    linnos_slowness_names[i],
				    g.core.eligible[i], g.core.redirected[i]);
		at += sysfs_emit_at(page, at,
				    "control_us %u redirected_us %u share %u\n",
				    benefit.control_us, benefit.redirected_us,
				    benefit.share);
	}
	return at;
}
EXPORT_SYMBOL_GPL(blk_linnos_array_show_guard);
