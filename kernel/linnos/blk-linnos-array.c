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
 * An array has one guard, with a lock: what a few reads taught is of use to all, and on
 * a guard a CPU each would have to learn it anew. Reads that would leave take it twice,
 * for less than a microsecond. Of the others, which it tells no more than the mean, one
 * in %STAYED_TOLD does when it is answered, and not even that if it would have to wait.
 *
 * Nobody stays at a disk that is stalled, by the rule that says so, to see what that
 * takes; nor do reads that probe a disk take part: these are sent to learn of it.
 */
#include <linux/bitfield.h>
#include <linux/blk-linnos.h>
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "linnos_guard.h"

#define STAYED_TOLD_SHIFT 3
#define STAYED_TOLD (1 << STAYED_TOLD_SHIFT)
/* What leaving was worth is told of the last so many reads, or half of them. */
#define LATELY (1 << 17)
/* Shares are in 1/4096: with a squared error of 2^38 us^2 a square fits 64 bits. */
#define SHARE_SHIFT 12
#define ERROR_MAX (1ULL << 38)

enum { LINNOS_ARRAY_OFF, LINNOS_ARRAY_ON, LINNOS_ARRAY_UNGUARDED };

static const char *const linnos_array_modes[] = { "off", "on", "unguarded" };
static const char *const linnos_wishes[] = { NULL, "usual", "slow", "slower",
					     "bad" };

/**
 * struct blk_linnos_guard - what reads that left home took, and those that stayed
 * @lock: taken in process context and by completions, on PREEMPT_RT too
 * @core: decides
 * @reads: lately answered, and
 * @us: what they took, and
 * @left: how many of these had left home, by what they wished
 */
struct blk_linnos_guard {
	raw_spinlock_t lock;
	struct linnos_guard core;
	u64 reads;
	u64 us;
	u64 left[LINNOS_N_WISHES];
};

/**
 * blk_linnos_array_init() - an array that does not ask, yet
 * @array: of which nothing else is used before
 *
 * Return: 0 or -ENOMEM.
 */
int blk_linnos_array_init(struct blk_linnos_array *array)
{
	array->mode = LINNOS_ARRAY_OFF;
	array->guard = kzalloc(sizeof(*array->guard), GFP_KERNEL);
	if (!array->guard)
		return -ENOMEM;
	raw_spin_lock_init(&array->guard->lock);
	return 0;
}
EXPORT_SYMBOL_GPL(blk_linnos_array_init);

/* Why a read would leave a disk of which this is expected. */
static enum linnos_wish linnos_wish_at(enum blk_linnos_expected answer)
{
	if (answer & BLK_LINNOS_US)
		return FIELD_GET(BLK_LINNOS_US_WISH, answer);
	return answer == BLK_LINNOS_SLOW ? LINNOS_HOME_SLOW : LINNOS_STAY;
}

/**
 * blk_linnos_leave() - which disks should serve a read, rather than its home
 * @array: asks
 * @answers: what blk_linnos_expect() has told of each disk
 * @n: how many disks, up to %BITS_PER_LONG
 * @home: which of them would serve it otherwise
 * @lot: to be kept for blk_linnos_learn(), of the reads for which it says so
 *
 * Context: Any. Does not sleep.
 * Return: a bit for each disk that should; 0 if home should.
 */
unsigned long blk_linnos_leave(struct blk_linnos_array *array,
			       const enum blk_linnos_expected *answers,
			       unsigned int n, unsigned int home,
			       struct blk_linnos_lot *lot)
{
	unsigned long best = blk_linnos_best(answers, n);
	struct blk_linnos_guard *guard = array->guard;
	enum linnos_wish wish = LINNOS_STAY;
	struct linnos_lot drawn = {};
	unsigned long flags;
	u64 now_ns;
	u32 us;

	if (best & BIT(home))
		best = 0;
	if (READ_ONCE(array->mode) != LINNOS_ARRAY_ON)
		return best;
	now_ns = ktime_get_ns();
	/* only a model of latencies says how long */
	us = answers[home] & BLK_LINNOS_US ?
		     answers[home] & BLK_LINNOS_US_MASK :
		     U32_MAX;
	if (best)
		wish = linnos_wish_at(answers[home]);
	if (wish == LINNOS_STAY || us == BLK_LINNOS_US_MASK) {
		if (!best && hash_64(now_ns, STAYED_TOLD_SHIFT) == 0)
			lot->start_ns = now_ns;
		return best;
	}
	raw_spin_lock_irqsave(&guard->lock, flags);
	drawn = linnos_guard_draw(&guard->core, wish, us);
	raw_spin_unlock_irqrestore(&guard->lock, flags);
	*lot = (struct blk_linnos_lot){
		.start_ns = now_ns,
		.home_us = us,
		.wish = wish,
		.left = drawn.left,
	};
	return drawn.left ? best : 0;
}
EXPORT_SYMBOL_GPL(blk_linnos_leave);

/* Context: @guard->lock held. */
static void linnos_guard_add(struct blk_linnos_guard *guard,
			     struct linnos_lot lot, u64 us)
{
	u32 weight = lot.wish == LINNOS_STAY ? STAYED_TOLD : 1;
	int i;

	linnos_guard_learn(&guard->core, lot, us);
	guard->reads += weight;
	guard->us += us * weight;
	guard->left[lot.wish] += lot.left;
	if (guard->reads < LATELY)
		return;
	guard->reads /= 2;
	guard->us /= 2;
	for (i = 0; i < LINNOS_N_WISHES; i++)
		guard->left[i] /= 2;
}

/* blk_linnos_learn() of one for which a lot was drawn. */
void __blk_linnos_learn(struct blk_linnos_array *array,
			const struct blk_linnos_lot *lot)
{
	struct blk_linnos_guard *guard = array->guard;
	u64 us = div_u64(ktime_get_ns() - lot->start_ns, NSEC_PER_USEC);
	struct linnos_lot drawn = {
		.home_us = lot->home_us,
		.wish = lot->wish,
		.left = lot->left,
	};
	unsigned long flags;

	if (lot->wish != LINNOS_STAY)
		raw_spin_lock_irqsave(&guard->lock, flags);
	else if (!raw_spin_trylock_irqsave(&guard->lock, flags))
		return;
	linnos_guard_add(guard, drawn, us);
	raw_spin_unlock_irqrestore(&guard->lock, flags);
}
EXPORT_SYMBOL_GPL(__blk_linnos_learn);

/**
 * blk_linnos_array_show() - off, on or unguarded
 * @array: the array
 * @page: of a file in sysfs
 *
 * Return: how many bytes were written there.
 */
ssize_t blk_linnos_array_show(struct blk_linnos_array *array, char *page)
{
	return sysfs_emit(page, "%s\n",
			  linnos_array_modes[READ_ONCE(array->mode)]);
}
EXPORT_SYMBOL_GPL(blk_linnos_array_show);

/**
 * blk_linnos_array_store() - what a file in sysfs was told
 * @array: the array
 * @word: one that blk_linnos_array_show() has
 *
 * What an array knows of leaving it forgets when it is switched on.
 *
 * Return: 0 or -EINVAL.
 */
int blk_linnos_array_store(struct blk_linnos_array *array, const char *word)
{
	struct blk_linnos_guard *guard = array->guard;
	int mode = sysfs_match_string(linnos_array_modes, word);
	unsigned long flags;

	if (mode < 0)
		return mode;
	raw_spin_lock_irqsave(&guard->lock, flags);
	if (mode == LINNOS_ARRAY_ON && array->mode != mode)
		memset_after(guard, 0, lock);
	WRITE_ONCE(array->mode, mode);
	raw_spin_unlock_irqrestore(&guard->lock, flags);
	return 0;
}
EXPORT_SYMBOL_GPL(blk_linnos_array_store);

/* Percent of what reads would take at home, rounded. */
static int linnos_percent(s64 us, u64 home_us)
{
	s64 percent = div64_s64(200 * us + (us < 0 ? -1 : 1) * (s64)home_us,
				2 * (s64)home_us);

	return clamp_t(s64, percent, -1000, 100);
}

/* What leaving was worth to all reads, and between what it is 19 times in 20. */
static int linnos_emit_gain(const struct blk_linnos_guard *guard, char *page,
			    int at)
{
	u64 error = 0, home_us, error_us;
	struct linnos_worth worth;
	bool known = false;
	s64 gain_us = 0;
	u64 share;
	int i;

	for (i = LINNOS_STAY + 1; i < LINNOS_N_WISHES; i++) {
		linnos_guard_worth(&guard->core, i, &worth);
		if (!guard->left[i] || !worth.known)
			continue;
		known = true;
		share = div64_u64(guard->left[i] << SHARE_SHIFT, guard->reads);
		gain_us += (s64)share * ((s64)worth.stayed_us - worth.left_us);
		error += share * share * min_t(u64, worth.error, ERROR_MAX);
	}
	home_us = guard->us << SHARE_SHIFT;
	home_us = guard->reads ? div64_u64(home_us, guard->reads) : 0;
	if (!known || (s64)home_us + gain_us <= 0)
		return sysfs_emit_at(page, at, "gain_percent n/a\n");
	home_us += gain_us;
	error_us = 2 * int_sqrt64(error);
	return sysfs_emit_at(page, at, "gain_percent %d %d %d\n",
			     linnos_percent(gain_us, home_us),
			     linnos_percent(gain_us - error_us, home_us),
			     linnos_percent(gain_us + error_us, home_us));
}

/**
 * blk_linnos_array_worth() - is leaving home worth it?
 * @array: the array
 * @page: of a file in sysfs
 *
 * Return: how many bytes were written there.
 */
ssize_t blk_linnos_array_worth(struct blk_linnos_array *array, char *page)
{
	bool leaves = false, wished = false;
	struct blk_linnos_guard guard;
	struct linnos_worth worth;
	unsigned long flags;
	u64 steered = 0;
	int i, at;

	raw_spin_lock_irqsave(&array->guard->lock, flags);
	guard = *array->guard;
	raw_spin_unlock_irqrestore(&array->guard->lock, flags);
	for (i = LINNOS_STAY + 1; i < LINNOS_N_WISHES; i++) {
		steered += guard.core.left[i];
		wished |= guard.core.wished[i];
		leaves |= guard.core.wished[i] &&
			  linnos_guard_leaves(&guard.core, i);
	}
	at = sysfs_emit(page, "state %s\nsteered %llu\n",
			READ_ONCE(array->mode) != LINNOS_ARRAY_ON ?
				linnos_array_modes[READ_ONCE(array->mode)] :
			leaves || !wished ? "choosing" :
					    "staying",
			steered);
	at += linnos_emit_gain(&guard, page, at);
	for (i = LINNOS_STAY + 1; i < LINNOS_N_WISHES; i++) {
		linnos_guard_worth(&guard.core, i, &worth);
		at += sysfs_emit_at(
			page, at,
			"%s wished %llu left %llu stayed_us %u left_us %u share %u\n",
			linnos_wishes[i], guard.core.wished[i],
			guard.core.left[i], worth.stayed_us, worth.left_us,
			worth.share);
	}
	return at;
}
EXPORT_SYMBOL_GPL(blk_linnos_array_worth);
