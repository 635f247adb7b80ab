// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: slowness put on top of what the drive does by itself.
 *
 * Three patterns decide which of the matching I/Os are hit:
 *
 *   random      each by chance, ratio_ppm in a million
 *   continuous  of every period_ios the first ratio_ppm share, in a row
 *               (1 %: 1000 in a row of every 100,000)
 *   interval    one in every `interval`
 *
 * An I/O matches when injection is armed, the I/O is of the chosen kind, and it
 * reaches the drive inside the active window. Only matching I/Os are counted,
 * so a continuous burst starts with the window. Whether the n-th matching I/O
 * is hit depends on n and the seed alone.
 *
 * The time is added to the I/O's own completion. It occupies no chip: other
 * I/Os are not held up, as if this one had needed retries that the drive did
 * with resources of its own.
 */
#include <linux/math64.h>
#include <linux/time64.h>

#include "flashsim.h"
#include "inject.h"

/* Keeps the dice of injection apart from those of the model. */
#define INJECT_SALT	0x696e6a656374ULL

/**
 * flashsim_inject_init() - nothing injected, the defaults of every knob
 * @inj: the injection
 */
void flashsim_inject_init(struct flashsim_inject *inj)
{
	*inj = (struct flashsim_inject) {
		.pattern = FLASHSIM_INJECT_NONE,
		.ops = FLASHSIM_OP_READ | FLASHSIM_OP_WRITE,
		.ratio_ppm = 10000,
		.period_ios = 100000,
		.interval = 100,
		.latency_us = 1000,
	};
}

/**
 * flashsim_inject_arm() - start or stop injecting
 * @inj: the injection
 * @on: start: the window clock and the count of matching I/Os begin anew
 * @now: the time, ns
 */
void flashsim_inject_arm(struct flashsim_inject *inj, bool on, u64 now)
{
	inj->armed = on;
	inj->armed_ns = now;
	inj->matched = 0;
}

/*
 * The first window opens window_start_us after arming, the next ones every
 * window_every_us after it.
 */
static bool inject_in_window(const struct flashsim_inject *inj, u64 now)
{
	u64 start = inj->window_start_us * NSEC_PER_USEC;
	u64 t = now - inj->armed_ns;

	if (!inj->window_us)
		return true;
	if (t < start)
		return false;
	t -= start;
	if (inj->window_every_us)
		div64_u64_rem(t, inj->window_every_us * NSEC_PER_USEC, &t);
	return t < inj->window_us * NSEC_PER_USEC;
}

static bool inject_matches(const struct flashsim_inject *inj, u32 op, u64 now)
{
	return inj->armed && inj->pattern != FLASHSIM_INJECT_NONE &&
	       (inj->ops & op) && inject_in_window(inj, now);
}

/**
 * flashsim_inject_peek() - what the next I/O would get
 * @inj: the injection
 * @seed: seed of the drive
 * @op: FLASHSIM_OP_READ or FLASHSIM_OP_WRITE
 * @now: when it reaches the drive, ns
 *
 * Return: time to add, ns; 0 when the I/O is not hit.
 */
u64 flashsim_inject_peek(const struct flashsim_inject *inj, u64 seed, u32 op,
			 u64 now)
{
	bool hit = false;
	u64 n, pos;

	if (!inject_matches(inj, op, now))
		return 0;
	n = inj->matched;
	switch (inj->pattern) {
	case FLASHSIM_INJECT_RANDOM:
		pos = flashsim_hash(seed ^ INJECT_SALT, n) >> 32;
		hit = (pos * 1000000) >> 32 < inj->ratio_ppm;
		break;
	case FLASHSIM_INJECT_CONTINUOUS:
		div64_u64_rem(n, inj->period_ios, &pos);
		hit = pos * 1000000 < inj->period_ios * inj->ratio_ppm;
		break;
	case FLASHSIM_INJECT_INTERVAL:
		div64_u64_rem(n + 1, inj->interval, &pos);
		hit = pos == 0;
		break;
	case FLASHSIM_INJECT_NONE:
		break;
	}
	return hit ? inj->latency_us * NSEC_PER_USEC : 0;
}

/**
 * flashsim_inject_next() - what this I/O gets; it is counted
 * @inj: the injection
 * @seed: seed of the drive
 * @op: FLASHSIM_OP_READ or FLASHSIM_OP_WRITE
 * @now: when it reaches the drive, ns
 *
 * Return: time to add, ns; 0 when the I/O is not hit.
 */
u64 flashsim_inject_next(struct flashsim_inject *inj, u64 seed, u32 op,
			 u64 now)
{
	u64 extra = flashsim_inject_peek(inj, seed, op, now);

	if (inject_matches(inj, op, now))
		inj->matched++;
	return extra;
}
