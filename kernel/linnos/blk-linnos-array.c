// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: does an array gain by reading elsewhere than it would by itself?
 *
 * A stacked driver (md) has a rule of its own, and a disk that it would read from by
 * that: the read's home. Of the reads that would leave it for what their disks are
 * expected to do some stay, by lot, and what both take decides how many leave
 * (core/linnos_guard.c). So an array whose disks' models mislead is soon read as if it
 * did not ask.
 *
 * A redirected read also takes time of another disk, and a read that stays finds the default
 * disk less busy than it would be if all reads stayed. A random assignment per read cannot
 * show this. Time is therefore divided into slices. In one randomly chosen slice out of
 * %OFF_SLICE_EVERY no disk is queried; once queries have proved beneficial, it is one out of
 * %OFF_SLICE_EVERY_BENEFICIAL. Comparing slices with and without queries gives the benefit.
 * If it is negative, or not known yet and no class of reads is mostly redirected, the array
 * stops redirecting and queries in one slice out of %ON_SLICE_EVERY, to notice a change.
 *
 * A prediction takes a while, too. So a read's home is asked first, and the others only
 * if it may leave for what that says. If fewer than %FEW of 1024 that wish so leave, one
 * read in 2^%EXPLORE_SHIFT asks the others, by lot; likewise where home is no slower than
 * usual, and fewer than one in %SELDOM find a better disk then.
 *
 * An array has one guard, with a lock: a guard a CPU would have to learn everything many
 * times. Reads that would leave take it twice, for less than a microsecond, and one in
 * 2^%SAMPLE_SHIFT of those for which others were asked at a usual home once more. Of all
 * reads one in 2^%SAMPLE_SHIFT, by lot, counts for its slice when it is answered, whatever
 * it wished: were those that wish to leave told more often, slices of few reads would be
 * slower for it.
 *
 * Nobody stays at a disk that is stalled to see what that takes; nor do reads that probe
 * a disk draw a lot: these are sent to learn of it.
 */
#include <linux/bitfield.h>
#include <linux/blk-linnos.h>
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/prandom.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "linnos_guard.h"

/* By so many slices at once: in 1/%LINNOS_GUARD_ONE a mean would not fade by one. */
#define FADE_SHIFT 5
/* 16.8 ms: longer than reads take, shorter than most bursts */
#define SLICE_SHIFT 24
#define OFF_SLICE_EVERY 64
#define OFF_SLICE_EVERY_BENEFICIAL 256
#define ON_SLICE_EVERY 8
/* What slices tell is remembered for 2^13 of them: two minutes, of many reads a second. */
#define FORGET_SLICES 13
/* Eight, which have faded a little since the last: what is known is not forgotten at once. */
#define SLICES_ENOUGH (15 * LINNOS_GUARD_ONE / 2)
/* Means of slices, in us: sums of their squares stay below 2^64. */
#define SLICE_MAX_US 0x7ffff
#define SAMPLE_SHIFT 3
#define EXPLORE_SHIFT 2
#define FEW 64
/* A question costs less than 1 % of a usual read, a better disk saves a quarter. */
#define SELDOM 32
#define ASKED_ENOUGH 64
#define ASKED_MOST 1024

static const char *const linnos_array_modes[] = { "off", "on", "unguarded" };
static const char *const linnos_slowness_names[] = { NULL, "usual", "slow",
						     "slower", "bad" };

/* Slices of one sort, with asking or without. */
struct linnos_slices {
	u64 last; /* the number of the last one */
	u64 reads; /* of it, and */
	u64 us; /* what they took together */
	struct linnos_moments took; /* means of the slices before */
};

struct blk_linnos_guard {
	/* each read looks at this line */
	u64 slice; /* number of the present one */
	bool asks; /* in it */
	bool stays; /* asking is not worth it */
	u8 leaves_for; /* a bit for each wish for which the others are asked */

	/* of the rest; completions take it, on PREEMPT_RT too */
	raw_spinlock_t lock ____cacheline_aligned_in_smp;
	struct linnos_guard core; /* decides of single reads */
	struct linnos_slices slices[2]; /* without asking, and with */
	u32 begun; /* slices that had a read */
	/* with a usual home, the older ones counting less: */
	u32 asked; /* reads of which the others were asked, and */
	u32 better; /* those for which one of them was better */
	struct rnd_state random; /* of the slices' lots */
};

/* What asking gains, in us of a slice's mean, and the square of its standard error. */
struct linnos_gain {
	s64 us;
	u64 error;
};

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
 * Is it worth it to ask? 1: yes, -1: no; by what all reads took, if that is known by more
 * than three standard errors, for it is looked at often.
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
 * Return true if the array should stop redirecting. @pays is linnos_query_benefit_sign(); while it
 * is unknown, the answer depends on whether any class of reads is mostly redirected.
 */
static bool linnos_should_suspend(const struct blk_linnos_guard *g, int pays)
{
	bool leaves = false, wished = false;
	int i;

	if (pays)
		return pays < 0;
	for (i = LINNOS_SLOWNESS_NONE + 1; i < LINNOS_N_SLOWNESS; i++) {
		wished |= g->core.wished[i];
		leaves |= g->core.wished[i] &&
			  linnos_guard_mostly_redirects(&g->core, i);
	}
	return wished && !leaves;
}

/* A bit for each wish. */
static u8 linnos_redirect_classes(const struct blk_linnos_guard *g)
{
	struct linnos_redirect_benefit worth;
	u8 which = 0;
	int i;

	for (i = LINNOS_SLOWNESS_NONE + 1; i < LINNOS_N_SLOWNESS; i++) {
		linnos_guard_get_benefit(&g->core, i, &worth);
		if (worth.share >= FEW)
			which |= BIT(i);
	}
	if (g->asked >= ASKED_ENOUGH && g->better * SELDOM < g->asked)
		which &= ~BIT(LINNOS_SLOWNESS_NORMAL);
	return which;
}

/* The others were asked although home is usual: is one better? */
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
	u32 random, off_once;
	int pays;

	raw_spin_lock_irqsave(&g->lock, flags);
	/* who was late does not draw again */
	if (g->slice < slice) {
		pays = linnos_query_benefit_sign(g);
		off_once = pays > 0 ? OFF_SLICE_EVERY_BENEFICIAL :
				      OFF_SLICE_EVERY;
		WRITE_ONCE(g->stays, linnos_should_suspend(g, pays));
		/* who stays asks seldom enough */
		WRITE_ONCE(g->leaves_for,
			   g->stays ? U8_MAX : linnos_redirect_classes(g));
		random = prandom_u32_state(&g->random);
		WRITE_ONCE(g->asks, g->stays ? !(random % ON_SLICE_EVERY) :
					       random % off_once);
		WRITE_ONCE(g->slice, slice);
	}
	raw_spin_unlock_irqrestore(&g->lock, flags);
}

/* Nothing else of an array is used before. Return: 0 or -ENOMEM. */
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

/* Why a read would leave a disk of which this is expected. */
static enum linnos_slowness
linnos_answer_slowness(enum blk_linnos_expected answer)
{
	if (answer & BLK_LINNOS_US)
		return FIELD_GET(BLK_LINNOS_US_SLOWNESS, answer);
	return answer == BLK_LINNOS_SLOW ? LINNOS_SLOWNESS_OVER_P90 :
					   LINNOS_SLOWNESS_NONE;
}

/*
 * blk_linnos_array_should_query() of one whose mode is not off: should disks be asked about a
 * read? @lot: to be kept for blk_linnos_record_latency().
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
 * blk_linnos_may_redirect() - are others to be asked, too?
 * @array: asks
 * @lot: of blk_linnos_array_should_query()
 * @home: what blk_linnos_expect() has told of the disk that would serve the read
 *
 * Return: false if it is served there, whatever the others would do with it.
 */
bool blk_linnos_may_redirect(const struct blk_linnos_array *array,
			     const struct blk_linnos_assignment *lot,
			     enum blk_linnos_expected home)
{
	enum linnos_slowness wish = linnos_answer_slowness(home);

	if (home == BLK_LINNOS_STALLED || home == BLK_LINNOS_NOT_QUERIED)
		return true;
	/* fast or unknown: no other is better; to be probed: it is promised this read */
	if (wish == LINNOS_SLOWNESS_NONE)
		return false;
	return READ_ONCE(array->mode) != BLK_LINNOS_ARRAY_ON || lot->tries ||
	       READ_ONCE(array->guard->leaves_for) & BIT(wish);
}
EXPORT_SYMBOL_GPL(blk_linnos_may_redirect);

/**
 * blk_linnos_redirect() - which disks should serve a read, rather than its home
 * @array: asks
 * @answers: what blk_linnos_expect() has told of each disk
 * @n: how many disks, up to %BITS_PER_LONG
 * @home: which of them would serve it otherwise, and may be left
 * @lot: of blk_linnos_array_should_query()
 *
 * Context: Any. Does not sleep.
 * Return: a bit for each disk that should; 0 if home should.
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
	/* of one that is stalled or gone there is nothing to compare */
	if (wish == LINNOS_SLOWNESS_NONE || !guarded)
		return best;
	lot->asked = true;
	lot->wish = wish;
	/* only a model of latencies says how long */
	lot->home_us = answers[home] & BLK_LINNOS_US ?
			       answers[home] & BLK_LINNOS_US_MASK :
			       U32_MAX;
	raw_spin_lock_irqsave(&g->lock, flags);
	g->core.unjudged = answers[home] & BLK_LINNOS_US_UNVALIDATED;
	lot->left = linnos_guard_assign(&g->core, wish, lot->home_us).left;
	raw_spin_unlock_irqrestore(&g->lock, flags);
	lot->start_ns = lot->start_ns ?: ktime_get_ns();
	return lot->left ? best : 0;
}
EXPORT_SYMBOL_GPL(blk_linnos_redirect);

/* A slice begins; those of both sorts before are forgotten alike. */
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

/* blk_linnos_record_latency() of one that the guard wants to know of. */
void __blk_linnos_record_latency(struct blk_linnos_array *array,
				 const struct blk_linnos_assignment *lot)
{
	struct blk_linnos_guard *g = array->guard;
	struct linnos_slices *slices = &g->slices[lot->asked];
	u64 us = div_u64(ktime_get_ns() - lot->start_ns, NSEC_PER_USEC);
	u64 slice = lot->start_ns >> SLICE_SHIFT;
	struct linnos_assignment drawn = {
		.home_us = lot->home_us,
		.wish = lot->wish,
		.left = lot->left,
	};
	unsigned long flags;

	raw_spin_lock_irqsave(&g->lock, flags);
	/* late ones count in the next of their sort */
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

/* In sysfs: off, on or unguarded. Return: how many bytes were written to @page. */
ssize_t blk_linnos_array_show(struct blk_linnos_array *array, char *page)
{
	return sysfs_emit(page, "%s\n",
			  linnos_array_modes[READ_ONCE(array->mode)]);
}
EXPORT_SYMBOL_GPL(blk_linnos_array_show);

/*
 * Told to be on, also if it is, an array forgets what it knows of leaving: who has given
 * its disks other models says so. Return: 0 or -EINVAL.
 */
int blk_linnos_array_store(struct blk_linnos_array *array, const char *word)
{
	struct blk_linnos_guard *g = array->guard;
	int mode = sysfs_match_string(linnos_array_modes, word);
	unsigned long flags;

	if (mode < 0)
		return mode;
	raw_spin_lock_irqsave(&g->lock, flags);
	if (mode == BLK_LINNOS_ARRAY_ON) {
		WRITE_ONCE(g->slice, 0);
		WRITE_ONCE(g->stays, false);
		memset_after(g, 0, lock);
		WRITE_ONCE(g->leaves_for, linnos_redirect_classes(g));
		prandom_seed_state(&g->random, 1);
	}
	WRITE_ONCE(array->mode, mode);
	raw_spin_unlock_irqrestore(&g->lock, flags);
	return 0;
}
EXPORT_SYMBOL_GPL(blk_linnos_array_store);

/* What asking is worth to all reads, and between what it is 19 times in 20. */
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
	/* Few slices without asking may have seen no burst, and seem alike: the wider sort's. */
	wider = max(linnos_moments_mean_variance(off) * off->n,
		    linnos_moments_mean_variance(on) * on->n);
	error_us = 200 *
		   int_sqrt64(div_u64(wider, off->n) + div_u64(wider, on->n));
	return sysfs_emit_at(page, at, "gain_percent %lld %lld %lld\n",
			     gain.us / off_us, (gain.us - error_us) / off_us,
			     min_t(s64, (gain.us + error_us) / off_us, 100));
}

/* Likewise: is leaving home worth it? */
ssize_t blk_linnos_array_show_guard(struct blk_linnos_array *array, char *page)
{
	u8 mode = READ_ONCE(array->mode);
	const char *state = linnos_array_modes[mode];
	struct linnos_redirect_benefit worth;
	struct blk_linnos_guard g;
	unsigned long flags;
	u64 steered = 0;
	int i, at;

	raw_spin_lock_irqsave(&array->guard->lock, flags);
	g = *array->guard;
	raw_spin_unlock_irqrestore(&array->guard->lock, flags);
	for (i = LINNOS_SLOWNESS_NONE + 1; i < LINNOS_N_SLOWNESS; i++)
		steered += g.core.left[i];
	if (mode == BLK_LINNOS_ARRAY_ON)
		state = g.stays ? "staying" : "choosing";
	at = sysfs_emit(page, "state %s\nsteered %llu\n", state, steered);
	at += linnos_emit_gain(&g, page, at);
	for (i = LINNOS_SLOWNESS_NONE + 1; i < LINNOS_N_SLOWNESS; i++) {
		linnos_guard_get_benefit(&g.core, i, &worth);
		at += sysfs_emit_at(page, at, "%s wished %llu left %llu ",
				    linnos_slowness_names[i], g.core.wished[i],
				    g.core.left[i]);
		at += sysfs_emit_at(page, at,
				    "stayed_us %u left_us %u share %u\n",
				    worth.stayed_us, worth.left_us,
				    worth.share);
	}
	return at;
}
EXPORT_SYMBOL_GPL(blk_linnos_array_show_guard);
