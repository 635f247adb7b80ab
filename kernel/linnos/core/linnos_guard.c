// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * LinnOS: is it worth leaving home? See linnos_guard.h.
 *
 * The lot is what makes the comparison fair: of one kind of wish those that leave
 * and those that stay differ in nothing else, whatever the load and however it
 * changes. The share that leaves follows from how sure it is that leaving helps
 * (Thompson, Biometrika 25, 1933): the difference of the means over its standard
 * error, as the chance that it is above 0. It is never 0 or 1, so that a change of
 * load is noticed, and what is old is forgotten.
 *
 *	difference, in standard errors   -2     -1     0     1     2
 *	share, home is bad               0.16   0.5   0.84  0.98  1.00
 *	share, otherwise                 0.02   0.02  0.16  0.5   0.84
 *
 * Who leaves also takes another drive's time, which the lot does not see: so a
 * difference of nothing is rather a reason to stay, unless home is so slow that it is
 * hardly a matter of prediction. Before there are answers nineteen in twenty leave: the
 * model has been judged by reads that it had not seen. Of one that has not been, one in
 * six does.
 *
 * Until enough have stayed, what those that left took is held against what they were
 * predicted to take at home: did they take longer, then leaving is no better. So many
 * readers who follow the same news to one drive notice it by the first answers.
 *
 * To stay where home is known to be slower costs by as much: once the difference is
 * more than one and a half of its standard error, so few stay that it costs all reads
 * a hundredth of their mean, but 1 in 512 at least. These are just enough to know it by.
 * So of those that stayed enough are always remembered, else many would stay until the
 * first of them are answered, and at a home that hangs that takes long.
 *
 * Latencies have heavy tails. One counts as %TAIL times the mean at most; and a
 * variance is estimated as if %PRIOR more reads had been seen that vary as widely as
 * their mean, so that few reads that happen to be alike decide nothing.
 */
#include "linnos_guard.h"

/* Some 2,000 reads. Less than half of 2^11, less than a read, does not fade. */
#define FORGET_SHIFT 11
#define MEAN_SHIFT LINNOS_GUARD_MEAN_SHIFT
#define TAIL 20
#define PRIOR 4
/* Fewer answers of either sort decide nothing. */
#define ENOUGH (3 * LINNOS_GUARD_ONE)

/* 2 s: sums of squares stay below 2^64. */
#define LATENCY_MAX_US 0x1fffffU

/*
 * What is thought of leaving, in eighths of a standard error, without answers of those
 * that stayed; or of those that left, while fewer than so many have wished; and what is
 * added to what is known later.
 */
#define BEGINNING 1024
#define BEFORE 14
#define BEFORE_UNJUDGED (-8)
#define BAD_AFTER 8
#define USUAL_AFTER (-8)

#define ALL 1024

/* The normal distribution: of 1024 as many are below so many eighths of a sigma. */
#define EIGHTHS 25
static const u16 linnos_normal_cdf[EIGHTHS] = {
	512,  563,  613,  662,	708,  752,  792,  829,	862,
	891,  916,  937,  956,	971,  983,  993,  1001, 1007,
	1011, 1015, 1018, 1020, 1021, 1022, 1023,
};

/* Of 1024. To stay costs more where leaving helps; where it costs too much, fewer do. */
#define REDIRECT_MIN 16
#define CONTROL_MIN 4
#define CONTROL_MIN_COSTLY 2
#define COST_PERCENT 1
/* In eighths of a standard error: of three that stayed hardly more is seen. */
#define KNOWN 12

/* At home it is predicted to take @home_us, and nine in ten took @usual_us at most. */
enum linnos_slowness linnos_classify_slowness(u32 home_us, u32 usual_us)
{
	if (home_us <= usual_us)
		return LINNOS_SLOWNESS_NORMAL;
	if (home_us / 2 <= usual_us)
		return LINNOS_SLOWNESS_OVER_P90;
	if (home_us / 3 <= usual_us)
		return LINNOS_SLOWNESS_OVER_2X_P90;
	return LINNOS_SLOWNESS_OVER_3X_P90;
}

/* The square of the standard error of the mean, in us, of at least one read. */
u64 linnos_moments_mean_variance(const struct linnos_moments *took)
{
	u64 mean_us = linnos_moments_mean_us(took);
	u64 square = mean_us * mean_us;
	u64 n = took->n + PRIOR * LINNOS_GUARD_ONE;
	u64 spread = took->square - min_t(u64, took->square, took->n * square);

	spread = div64_u64(spread + PRIOR * LINNOS_GUARD_ONE * square, n);
	return div64_u64(spread * LINNOS_GUARD_ONE, took->n);
}

/* By how many eighths of a standard error leaving is better, or, below 0, worse. */
static int linnos_redirect_z_score(const struct linnos_moments took[2])
{
	u64 stayed_us = linnos_moments_mean_us(&took[0]);
	u64 left_us = linnos_moments_mean_us(&took[1]);
	u64 error = linnos_moments_mean_variance(&took[0]) +
		    linnos_moments_mean_variance(&took[1]);
	u64 by_us = stayed_us > left_us ? stayed_us - left_us :
					  left_us - stayed_us;
	u64 eighths = 0;

	/* by / sqrt(error), without a root; more makes no difference */
	while (eighths < EIGHTHS + BAD_AFTER &&
	       error * (eighths + 1) * (eighths + 1) < 64 * by_us * by_us)
		eighths++;
	return stayed_us > left_us ? (int)eighths : -(int)eighths;
}

/* Did those that left take longer than they were predicted to take at home? */
static bool linnos_redirect_underdelivers(const struct linnos_guard *guard,
					  enum linnos_slowness wish)
{
	const struct linnos_moments *left = &guard->took[wish][1];

	return left->n >= ENOUGH && left->sum_us > guard->claimed_us[wish];
}

/* By what that costs, as if all reads wished so; took[0] is above took[1]. */
static u32 linnos_max_control_share(const struct linnos_guard *guard,
				    const struct linnos_moments took[2])
{
	u64 cost_us = linnos_moments_mean_us(&took[0]) -
		      linnos_moments_mean_us(&took[1]);
	u64 mean_us = linnos_guard_mean_us(guard);
	u64 stay = div64_u64(mean_us * ALL * COST_PERCENT, 100 * (cost_us + 1));

	return clamp_t(u64, stay, CONTROL_MIN_COSTLY, ALL);
}

/* How many of 1024 that wish so leave. */
static u32 linnos_redirect_share(const struct linnos_guard *guard,
				 enum linnos_slowness wish)
{
	const struct linnos_moments *took = guard->took[wish];
	int eighths = wish == LINNOS_SLOWNESS_OVER_3X_P90 ? BAD_AFTER :
							    USUAL_AFTER;
	u32 share, stay_most = ALL - CONTROL_MIN, stay_least = CONTROL_MIN;

	if (took[0].n >= ENOUGH && took[1].n >= ENOUGH) {
		int better_by = linnos_redirect_z_score(took);

		eighths += better_by;
		if (better_by >= KNOWN) {
			stay_most = linnos_max_control_share(guard, took);
			stay_least = min_t(u32, stay_least, stay_most);
		}
	} else if (linnos_redirect_underdelivers(guard, wish)) {
		eighths = -BEFORE;
	} else if (guard->unjudged) {
		eighths = BEFORE_UNJUDGED;
	} else if (took[0].n < ENOUGH || guard->wished[wish] < BEGINNING) {
		eighths = BEFORE;
	}
	if (eighths >= 0)
		share = linnos_normal_cdf[min_t(int, eighths, EIGHTHS - 1)];
	else
		share = ALL -
			linnos_normal_cdf[min_t(int, -eighths, EIGHTHS - 1)];
	share = clamp_t(u32, share, REDIRECT_MIN, ALL - stay_least);
	return max_t(u32, share, ALL - stay_most);
}

u32 linnos_random(u64 *state)
{
	u64 x = *state ? *state : 88172645463325252ULL;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x >> 32;
}

struct linnos_assignment linnos_guard_assign(struct linnos_guard *guard,
					     enum linnos_slowness wish,
					     u32 home_us)
{
	struct linnos_assignment lot = { .home_us = home_us, .wish = wish };

	if (wish == LINNOS_SLOWNESS_NONE)
		return lot;
	lot.left = linnos_random(&guard->random) % ALL <
		   linnos_redirect_share(guard, wish);
	guard->wished[wish]++;
	guard->left[wish] += lot.left;
	return lot;
}

static u64 linnos_decayed(u64 value, u32 shift)
{
	return value - ((value + (1 << (shift - 1))) >> shift);
}

/* What reads took was a while ago: 1/2^@shift of it is forgotten. */
void linnos_moments_decay(struct linnos_moments *took, u32 shift)
{
	took->n = linnos_decayed(took->n, shift);
	took->sum_us = linnos_decayed(took->sum_us, shift);
	took->square = linnos_decayed(took->square, shift);
}

void linnos_moments_add(struct linnos_moments *took, u64 us)
{
	took->n += LINNOS_GUARD_ONE;
	took->sum_us += us * LINNOS_GUARD_ONE;
	took->square += us * us * LINNOS_GUARD_ONE;
}

void linnos_guard_record_latency(struct linnos_guard *guard,
				 struct linnos_assignment lot, u64 latency_us)
{
	struct linnos_moments *took = guard->took[lot.wish];

	latency_us = min_t(u64, latency_us, LATENCY_MAX_US);
	if (guard->mean_us)
		latency_us = min_t(u64, latency_us,
				   TAIL * guard->mean_us >> MEAN_SHIFT);
	else
		guard->mean_us = latency_us << MEAN_SHIFT;
	guard->mean_us += latency_us - (guard->mean_us >> MEAN_SHIFT);
	if (lot.wish == LINNOS_SLOWNESS_NONE)
		return;
	if (linnos_decayed(took[0].n, FORGET_SHIFT) >= ENOUGH)
		linnos_moments_decay(&took[0], FORGET_SHIFT);
	linnos_moments_decay(&took[1], FORGET_SHIFT);
	guard->claimed_us[lot.wish] =
		linnos_decayed(guard->claimed_us[lot.wish], FORGET_SHIFT);
	if (lot.left)
		guard->claimed_us[lot.wish] +=
			(u64)min_t(u32, lot.home_us, LATENCY_MAX_US) *
			LINNOS_GUARD_ONE;
	linnos_moments_add(took + lot.left, latency_us);
}

/* Do most of those that wish so leave, or may they soon? */
bool linnos_guard_mostly_redirects(const struct linnos_guard *guard,
				   enum linnos_slowness wish)
{
	const struct linnos_moments *took = guard->took[wish];

	if (guard->unjudged && (took[0].n < ENOUGH || took[1].n < ENOUGH))
		return !linnos_redirect_underdelivers(guard, wish);
	return linnos_redirect_share(guard, wish) > ALL / 2;
}

void linnos_guard_get_benefit(const struct linnos_guard *guard,
			      enum linnos_slowness wish,
			      struct linnos_redirect_benefit *worth)
{
	const struct linnos_moments *took = guard->took[wish];

	worth->stayed_us = linnos_moments_mean_us(&took[0]);
	worth->left_us = linnos_moments_mean_us(&took[1]);
	worth->share = linnos_redirect_share(guard, wish);
}
