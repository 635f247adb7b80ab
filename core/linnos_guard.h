/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * LinnOS guard: an online A/B test of redirecting reads. See linnos_guard.c.
 *
 * Every read has a default replica. A model may predict that another replica is faster, and may be
 * wrong. The guard classifies such reads by how slow the default replica is predicted to be. Within
 * each class, it assigns each read at random either to the redirected group, which goes to the
 * other replica, or to the control group, which goes to the default replica. It compares the
 * latencies of both groups, and redirects few reads of the classes that gain nothing.
 *
 * Locking: the caller serializes all calls for one guard.
 */
#ifndef _LINNOS_GUARD_H
#define _LINNOS_GUARD_H

#include "linnos_shim.h"

/*
 * How slow the default replica is predicted to be, compared with the 90th percentile of its
 * latencies in the training data. Each class is tested separately.
 */
enum linnos_slowness {
	LINNOS_SLOWNESS_NONE, /* the read would not be redirected */
	LINNOS_SLOWNESS_NORMAL, /* up to its p90, but slower than another replica */
	LINNOS_SLOWNESS_OVER_P90, /* slower than its p90 */
	LINNOS_SLOWNESS_OVER_2X_P90, /* more than twice its p90 */
	LINNOS_SLOWNESS_OVER_3X_P90, /* over three times: garbage collection, flush or failure */
	LINNOS_N_SLOWNESS,
};

/* The groups of the test; indices of &linnos_guard.samples. */
enum linnos_group {
	LINNOS_CONTROL,
	LINNOS_REDIRECTED,
	LINNOS_N_GROUPS,
};

/* Weight of one sample. */
#define LINNOS_GUARD_ONE 1024

/* Exponentially decayed moments of latencies. */
struct linnos_moments {
	u32 n; /* weighted number of samples, in 1/%LINNOS_GUARD_ONE */
	u64 sum_us; /* weighted sum */
	u64 square; /* weighted sum of squares */
};

struct linnos_guard {
	/* latencies by slowness class and group */
	struct linnos_moments samples[LINNOS_N_SLOWNESS][LINNOS_N_GROUPS];
	/*
	 * sum of the latencies that were predicted for redirected reads at their default replica,
	 * with the weights of linnos_moments.sum_us
	 */
	u64 predicted_default_us[LINNOS_N_SLOWNESS];
	u64 eligible[LINNOS_N_SLOWNESS]; /* number of reads of each class */
	/* the number of them that were redirected */
	u64 redirected[LINNOS_N_SLOWNESS];
	u64 mean_us; /* recent mean of all reads, with 10 fractional bits */
	u64 random; /* state of linnos_random() */
};

/*
 * Return 32 pseudo-random bits (Marsaglia, "Xorshift RNGs", 2003). They need not be
 * unpredictable: no caller gains by predicting them.
 */
u32 linnos_random(u64 *state);

/* Shares are in 1/%LINNOS_GUARD_ALL. */
#define LINNOS_GUARD_ALL 1024

/* The group of a read. The caller keeps it until the read completes. */
struct linnos_assignment {
	u32 default_us; /* predicted latency at the default replica */
	u16 share; /* share of the reads of its class that is redirected now */
	u8 slowness; /* slowness class, an enum linnos_slowness */
	bool redirected; /* true: redirected group; false: control group */
};

/* Measured benefit of redirecting the reads of one slowness class. */
struct linnos_redirect_benefit {
	u32 control_us; /* mean of the control group; 0 if it has no samples */
	u32 redirected_us; /* mean of the redirected group; 0 if it has no samples */
	u32 share; /* share of the reads that is redirected */
};

static inline u64 linnos_moments_mean_us(const struct linnos_moments *moments)
{
	return moments->n ? div_u64(moments->sum_us, moments->n) : 0;
}

void linnos_moments_add(struct linnos_moments *moments, u64 us);
u64 linnos_moments_mean_variance(const struct linnos_moments *moments);
enum linnos_slowness linnos_classify_slowness(u32 default_us, u32 p90_us);
struct linnos_assignment linnos_guard_assign(struct linnos_guard *guard,
					     enum linnos_slowness slowness,
					     u32 default_us);
void linnos_guard_record_latency(struct linnos_guard *guard,
				 struct linnos_assignment assignment,
				 u64 latency_us);
void linnos_guard_get_benefit(const struct linnos_guard *guard,
			      enum linnos_slowness slowness,
			      struct linnos_redirect_benefit *benefit);

#endif /* _LINNOS_GUARD_H */
