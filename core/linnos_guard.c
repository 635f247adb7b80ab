// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * LinnOS guard: an online A/B test of redirecting reads. See linnos_guard.h.
 *
 * The random assignment makes the comparison fair: within a slowness class, the redirected
 * group and the control group differ only in the replica, even while the load changes.
 *
 * Share of redirected reads
 *
 * The share is the probability that redirecting is better (Thompson sampling, Biometrika 25,
 * 1933). It follows from the z-score, the difference of the two means divided by its standard
 * error. To notice changes of the load, the share never reaches 0 or 1, and old samples decay.
 *
 *	z-score of (control - redirected)        -2     -1     0     1     2
 *	share, default replica over 3 x its p90  0.16   0.5   0.84  0.98  1.00
 *	share, all other classes                 0.02   0.02  0.16  0.5   0.84
 *
 * The second row is shifted because a redirected read also takes time from the reads of the
 * other drive. The A/B test cannot see that cost, so without a measured benefit most reads
 * stay at the default replica. The first row is shifted the other way, because a default
 * replica at more than three times its p90 is so slow that redirecting is probably better,
 * even if the predictions are inaccurate.
 *
 * Before enough samples exist
 *
 * 96 % of the reads are redirected. Until the control group has enough samples, the redirected
 * reads are compared with the latency that was predicted for them at the default replica. If they
 * took longer, only 4 % are redirected. Many clients with the same information may overload the
 * drive to which they all redirect their reads; the latencies of the first ones then show this.
 *
 * Size of the control group
 *
 * A control read is expensive if the default replica is known to be slower. Once the z-score
 * reaches 1.5, the control group is limited so that it adds at most 1 % to the mean latency
 * of all reads, but it gets at least 1 read in 512. That is just enough to keep the
 * measurement up to date. The samples of the control group never decay below the minimum
 * number. Otherwise so few control reads would not keep up with the decay, and the test would
 * begin again: a burst of control reads would be sent before the first of them completes, which
 * takes long on a drive that hangs.
 *
 * Heavy tails
 *
 * A latency counts as at most %TAIL times the mean. The variance is estimated as if there were
 * %PRIOR additional samples whose standard deviation equals the mean. Otherwise the mean of a
 * few similar samples would seem to be precise.
 */
#include "linnos_guard.h"

/* Decay over about 2,000 reads. Values below 2^10, less than one read, do not decay. */
#define DECAY_SHIFT 11
#define MEAN_SHIFT 10
#define TAIL 20
#define PRIOR 4
/* Minimum number of samples in each group. */
#define SAMPLES_MIN (3 * LINNOS_GUARD_ONE)

/* 2 s. Keeps the sums of squares below 2^64. */
#define LATENCY_MAX_US 0x1fffffU

/*
 * Z-scores, in eighths of a standard error. The z-score is assumed to be ASSUMED while there are
 * too few control samples and, during the first BEGINNING reads of a class, while there are too few
 * redirected samples. OVER_3X_P90_BIAS is added to the measured z-score of the class over three
 * times the p90, OTHER_BIAS to that of all others.
 */
#define BEGINNING 1024
#define ASSUMED 14
#define OVER_3X_P90_BIAS 8
#define OTHER_BIAS (-8)

#define ALL LINNOS_GUARD_ALL

/* Standard normal CDF, in 1/1024, in steps of an eighth of a standard deviation. */
#define EIGHTHS 25
static const u16 linnos_normal_cdf[EIGHTHS] = {
	512,  563,  613,  662,	708,  752,  792,  829,	862,
	891,  916,  937,  956,	971,  983,  993,  1001, 1007,
	1011, 1015, 1018, 1020, 1021, 1022, 1023,
};

/*
 * Minimum shares of the groups, in 1/1024. CONTROL_MIN_COSTLY applies if control reads would
 * otherwise cost more than COST_PERCENT of the mean latency.
 */
#define REDIRECT_MIN 16
#define CONTROL_MIN 4
#define CONTROL_MIN_COSTLY 2
#define COST_PERCENT 1
/*
 * If the z-score, in eighths, is at least this, the control group is limited by its cost. With
 * only three control samples, the z-score is rarely higher than this.
 */
#define SIGNIFICANT 12

/*
 * Classify a prediction. @default_us: predicted latency at the default replica. @p90_us: the 90th
 * percentile of its latencies in the training data.
 */
enum linnos_slowness linnos_classify_slowness(u32 default_us, u32 p90_us)
{
	if (default_us <= p90_us)
		return LINNOS_SLOWNESS_NORMAL;
	if (default_us / 2 <= p90_us)
		return LINNOS_SLOWNESS_OVER_P90;
	if (default_us / 3 <= p90_us)
		return LINNOS_SLOWNESS_OVER_2X_P90;
	return LINNOS_SLOWNESS_OVER_3X_P90;
}

/* Return the squared standard error of the mean, in us^2. There must be at least one sample. */
u64 linnos_moments_mean_variance(const struct linnos_moments *moments)
{
	u64 mean_us = linnos_moments_mean_us(moments);
	u64 square = mean_us * mean_us;
	u64 n = moments->n + PRIOR * LINNOS_GUARD_ONE;
	u64 spread = moments->square -
		     min_t(u64, moments->square, moments->n * square);

	spread = div64_u64(spread + PRIOR * LINNOS_GUARD_ONE * square, n);
	return div64_u64(spread * LINNOS_GUARD_ONE, moments->n);
}

/* Return the z-score in eighths; positive if the redirected group is faster. */
static int
linnos_redirect_z_score(const struct linnos_moments samples[LINNOS_N_GROUPS])
{
	u64 control_us = linnos_moments_mean_us(&samples[LINNOS_CONTROL]);
	u64 redirected_us = linnos_moments_mean_us(&samples[LINNOS_REDIRECTED]);
	u64 error = linnos_moments_mean_variance(&samples[LINNOS_CONTROL]) +
		    linnos_moments_mean_variance(&samples[LINNOS_REDIRECTED]);
	u64 difference_us = control_us > redirected_us ?
				    control_us - redirected_us :
				    redirected_us - control_us;
	u64 eighths = 0;

	/* 8 * difference_us / sqrt(error) without a square root, up to where the CDF is constant */
	while (eighths < EIGHTHS + OVER_3X_P90_BIAS &&
	       error * (eighths + 1) * (eighths + 1) <
		       64 * difference_us * difference_us)
		eighths++;
	return control_us > redirected_us ? (int)eighths : -(int)eighths;
}

/*
 * Return the largest share of control reads whose cost is acceptable, assuming that all reads
 * belong to this class. The control group must be slower than the redirected group.
 */
static u32
linnos_max_control_share(const struct linnos_guard *guard,
			 const struct linnos_moments samples[LINNOS_N_GROUPS])
{
	u64 cost_us = linnos_moments_mean_us(&samples[LINNOS_CONTROL]) -
		      linnos_moments_mean_us(&samples[LINNOS_REDIRECTED]);
	u64 mean_us = guard->mean_us >> MEAN_SHIFT;
	u64 share =
		div64_u64(mean_us * ALL * COST_PERCENT, 100 * (cost_us + 1));

	return clamp_t(u64, share, CONTROL_MIN_COSTLY, ALL);
}

/* Return the share of the reads of this class to redirect, in 1/ALL. */
static u32 linnos_redirect_share(const struct linnos_guard *guard,
				 enum linnos_slowness slowness)
{
	const struct linnos_moments *samples = guard->samples[slowness];
	const struct linnos_moments *redirected = &samples[LINNOS_REDIRECTED];
	bool redirected_enough = redirected->n >= SAMPLES_MIN;
	bool control_enough = samples[LINNOS_CONTROL].n >= SAMPLES_MIN;
	int eighths = slowness == LINNOS_SLOWNESS_OVER_3X_P90 ?
			      OVER_3X_P90_BIAS :
			      OTHER_BIAS;
	u32 share, control_max = ALL, control_min = CONTROL_MIN;

	if (control_enough && redirected_enough) {
		int z_score = linnos_redirect_z_score(samples);

		eighths += z_score;
		if (z_score >= SIGNIFICANT) {
			control_max = linnos_max_control_share(guard, samples);
			control_min = min_t(u32, control_min, control_max);
		}
	} else if (redirected_enough &&
		   redirected->sum_us > guard->predicted_default_us[slowness]) {
		eighths = -ASSUMED;
	} else if (!control_enough || guard->eligible[slowness] < BEGINNING) {
		eighths = ASSUMED;
	}
	if (eighths >= 0)
		share = linnos_normal_cdf[min_t(int, eighths, EIGHTHS - 1)];
	else
		share = ALL -
			linnos_normal_cdf[min_t(int, -eighths, EIGHTHS - 1)];
	share = clamp_t(u32, share, REDIRECT_MIN, ALL - control_min);
	return max_t(u32, share, ALL - control_max);
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

/* Assign a read to a group at random. @default_us: predicted latency at the default replica. */
struct linnos_assignment linnos_guard_assign(struct linnos_guard *guard,
					     enum linnos_slowness slowness,
					     u32 default_us)
{
	struct linnos_assignment assignment = { .default_us = default_us,
						.slowness = slowness };

	if (slowness == LINNOS_SLOWNESS_NONE)
		return assignment;
	assignment.share = linnos_redirect_share(guard, slowness);
	assignment.redirected = linnos_random(&guard->random) % ALL <
				assignment.share;
	guard->eligible[slowness]++;
	guard->redirected[slowness] += assignment.redirected;
	return assignment;
}

static u64 linnos_decayed(u64 value)
{
	return value - ((value + (1 << (DECAY_SHIFT - 1))) >> DECAY_SHIFT);
}

static void linnos_moments_decay(struct linnos_moments *moments)
{
	moments->n = linnos_decayed(moments->n);
	moments->sum_us = linnos_decayed(moments->sum_us);
	moments->square = linnos_decayed(moments->square);
}

void linnos_moments_add(struct linnos_moments *moments, u64 us)
{
	moments->n += LINNOS_GUARD_ONE;
	moments->sum_us += us * LINNOS_GUARD_ONE;
	moments->square += us * us * LINNOS_GUARD_ONE;
}

/* Add the latency of a completed read. @assignment: its group, from linnos_guard_assign(). */
void linnos_guard_record_latency(struct linnos_guard *guard,
				 struct linnos_assignment assignment,
				 u64 latency_us)
{
	struct linnos_moments *samples = guard->samples[assignment.slowness];
	u64 *predicted_us;

	latency_us = min_t(u64, latency_us, LATENCY_MAX_US);
	if (guard->mean_us)
		latency_us = min_t(u64, latency_us,
				   TAIL * guard->mean_us >> MEAN_SHIFT);
	else
		guard->mean_us = latency_us << MEAN_SHIFT;
	guard->mean_us += latency_us - (guard->mean_us >> MEAN_SHIFT);
	if (assignment.slowness == LINNOS_SLOWNESS_NONE)
		return;
	if (linnos_decayed(samples[LINNOS_CONTROL].n) >= SAMPLES_MIN)
		linnos_moments_decay(&samples[LINNOS_CONTROL]);
	linnos_moments_decay(&samples[LINNOS_REDIRECTED]);
	predicted_us = &guard->predicted_default_us[assignment.slowness];
	*predicted_us = linnos_decayed(*predicted_us);
	if (assignment.redirected)
		*predicted_us +=
			(u64)min_t(u32, assignment.default_us, LATENCY_MAX_US) *
			LINNOS_GUARD_ONE;
	linnos_moments_add(samples + assignment.redirected, latency_us);
}

/* Fill @benefit with the mean latencies of both groups and the share that is redirected. */
void linnos_guard_get_benefit(const struct linnos_guard *guard,
			      enum linnos_slowness slowness,
			      struct linnos_redirect_benefit *benefit)
{
	const struct linnos_moments *samples = guard->samples[slowness];

	benefit->control_us = linnos_moments_mean_us(&samples[LINNOS_CONTROL]);
	benefit->redirected_us =
		linnos_moments_mean_us(&samples[LINNOS_REDIRECTED]);
	benefit->share = linnos_redirect_share(guard, slowness);
}
