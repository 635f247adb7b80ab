// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: slowness put on top of what the drive does by itself.
 *
 * An I/O matches when injection is armed, the I/O is of the chosen kind, touches
 * the slow region, and reaches the drive inside an active window. Then the
 * pattern says whether it is hit, and the shape how much time it gets.
 *
 * Patterns:
 *
 *   all         every one
 *   random      each by chance, ratio_ppm in a million
 *   continuous  of every period_ios the first ratio_ppm share, in a row
 *               (1 %: 1000 in a row of every 100,000)
 *   interval    one in every `interval`
 *
 * Only matching I/Os are counted, so a continuous burst starts with the window.
 * Whether the n-th matching I/O is hit depends on n and the seed alone.
 *
 * Shapes, of latency_us:
 *
 *   constant    always that
 *   ramp        from 0 at the window's opening up to that in its middle, and
 *               down to 0 again
 *   queue       that for every at_depth requests that are in the drive
 *   pareto      by chance, that being the median:
 *
 *                 P(extra > x) = (x / latency_us)^-tail / 2
 *
 *               The die is a hash of the seed, the sector and the time in
 *               steps of FLASHSIM_INJECT_DRAW_NS: whoever asks for the same
 *               place at the same time gets the same draw, and asking does
 *               not change what others get.
 *
 * Windows of the same time on several drives make slow slots that wander: the
 * windows are dealt in window_turns turns, and a drive has those of its mask.
 *
 * The time is added to the I/O's own completion. It occupies no chip: other
 * I/Os are not held up, as if this one had needed retries that the drive did
 * with resources of its own.
 */
#include <linux/errno.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/printk.h>

#include "flashsim.h"
#include "inject.h"

/* Keep the dice of injection apart from those of the model, and each other. */
#define INJECT_SALT	0x696e6a656374ULL
#define PARETO_SALT	0x70617265746fULL

/* Binary logarithms here have so many bits after the point. */
#define LOG_BITS	16

/**
 * flashsim_inject_init() - nothing injected, the defaults of every knob
 * @inj: the injection
 */
void flashsim_inject_init(struct flashsim_inject *inj)
{
	*inj = (struct flashsim_inject) {
		.pattern = FLASHSIM_INJECT_NONE,
		.shape = FLASHSIM_INJECT_CONSTANT,
		.op = FLASHSIM_OP_READ | FLASHSIM_OP_WRITE,
		.ratio_ppm = 10000,
		.period_ios = 100000,
		.interval = 100,
		.latency_us = 1000,
		.at_depth = 8,
		.tail_milli = 1500,
		.window_turns = 1,
		.window_turn_mask = 1,
	};
}

/**
 * flashsim_inject_arm() - start or stop injecting
 * @inj: the injection
 * @on: start: the window clock and the count of matching I/Os begin anew
 * @now: the time, ns
 *
 * Return: 0, or -EINVAL when the shape needs what is not set; it is not armed
 * then.
 */
int flashsim_inject_arm(struct flashsim_inject *inj, bool on, u64 now)
{
	if (on && inj->shape == FLASHSIM_INJECT_RAMP && !inj->window_us) {
		pr_err("flashsim: inject/shape ramp needs inject/window_us\n");
		return -EINVAL;
	}
	inj->armed = on;
	inj->armed_ns = now;
	inj->matched = 0;
	return 0;
}

/*
 * The first window opens window_start_us after arming, the next ones every
 * window_every_us after it. @into: how long this one is open already.
 */
static bool inject_in_window(const struct flashsim_inject *inj, u64 now,
			     u64 *into)
{
	u64 start = inj->window_start_us * NSEC_PER_USEC;
	u64 t = now - inj->armed_ns;
	u64 turn = 0;

	*into = t;
	if (!inj->window_us)
		return true;
	if (t < start)
		return false;
	t -= start;
	if (inj->window_every_us)
		turn = div64_u64_rem(t, inj->window_every_us * NSEC_PER_USEC,
				     &t);
	*into = t;
	if (t >= inj->window_us * NSEC_PER_USEC)
		return false;
	div64_u64_rem(turn, inj->window_turns, &turn);
	return inj->window_turn_mask & BIT_ULL(turn);
}

static bool inject_in_region(const struct flashsim_inject *inj,
			     const struct flashsim_inject_io *io)
{
	if (!inj->region_sectors)
		return true;
	if (io->sector < inj->region_sector)
		return inj->region_sector - io->sector < io->nr_sectors;
	return io->sector - inj->region_sector < inj->region_sectors;
}

static bool inject_matches(const struct flashsim_inject *inj,
			   const struct flashsim_inject_io *io, u64 now,
			   u64 *into)
{
	return inj->armed && inj->pattern != FLASHSIM_INJECT_NONE &&
	       (inj->op & io->op) && inject_in_region(inj, io) &&
	       inject_in_window(inj, now, into);
}

static bool inject_hits(const struct flashsim_inject *inj, u64 seed, u64 n)
{
	u64 pos;

	switch (inj->pattern) {
	case FLASHSIM_INJECT_ALL:
		return true;
	case FLASHSIM_INJECT_RANDOM:
		pos = flashsim_hash(seed ^ INJECT_SALT, n) >> 32;
		return (pos * 1000000) >> 32 < inj->ratio_ppm;
	case FLASHSIM_INJECT_CONTINUOUS:
		div64_u64_rem(n, inj->period_ios, &pos);
		return pos * 1000000 < inj->period_ios * inj->ratio_ppm;
	case FLASHSIM_INJECT_INTERVAL:
		div64_u64_rem(n + 1, inj->interval, &pos);
		return pos == 0;
	case FLASHSIM_INJECT_NONE:
		break;
	}
	return false;
}

/* ---- shapes ---- */

static u64 ramp(const struct flashsim_inject *inj, u64 peak_ns, u64 into)
{
	u64 len = inj->window_us * NSEC_PER_USEC;

	/* It was there when injection was armed, and has been taken away. */
	if (!len)
		return 0;
	return mul_u64_u64_div_u64(peak_ns, 2 * min(into, len - into), len);
}

/* Binary logarithm of @x, from 1 to 2^32, with LOG_BITS after the point. */
static u32 log2_fixed(u64 x)
{
	u32 log = ilog2(x);
	u64 m = x << 31 >> log;
	int i;

	/* @m is from 1 to 2, with 31 bits after the point: square, and see. */
	for (i = 0; i < LOG_BITS; i++) {
		m = (m * m) >> 31;
		log <<= 1;
		if (m >> 32) {
			m >>= 1;
			log |= 1;
		}
	}
	return log;
}

/* @x times two to the power of @log, which has LOG_BITS after the point. */
static u64 scale_exp2(u64 x, s64 log, u64 max)
{
	/* Two to the powers of 1/2, 1/4, ..., with 31 bits after the point. */
	static const u32 roots[LOG_BITS] = {
		0xb504f334, 0x9837f052, 0x8b95c1e4, 0x85aac368,
		0x82cd8699, 0x8164d1f4, 0x80b1ed50, 0x8058d7d3,
		0x802c6437, 0x8016302f, 0x800b179d, 0x80058baf,
		0x8002c5d0, 0x800162e6, 0x8000b173, 0x800058b9,
	};
	u64 m = BIT_ULL(31);
	s64 whole = log >> LOG_BITS;
	int i;

	for (i = 0; i < LOG_BITS; i++)
		if (log & BIT_ULL(LOG_BITS - 1 - i))
			m = (m * roots[i]) >> 31;
	x = mul_u64_u32_shr(x, m, 31);
	if (whole < 0)
		return whole > -64 ? x >> -whole : 0;
	return whole < 64 && x <= max >> whole ? x << whole : max;
}

static u64 pareto(const struct flashsim_inject *inj, u64 seed, u64 median_ns,
		  u64 sector, u64 now)
{
	u64 when = div64_u64(now - inj->armed_ns, FLASHSIM_INJECT_DRAW_NS);
	u64 die = flashsim_hash(flashsim_hash(seed ^ PARETO_SALT, when), sector);
	/* 2^31 is the median: what is drawn is median * (die / 2^31)^(-1/tail). */
	s64 log = (31LL << LOG_BITS) - log2_fixed((die >> 32) + 1);

	return scale_exp2(median_ns, div64_s64(log * 1000, inj->tail_milli),
			  FLASHSIM_INJECT_MAX_US * NSEC_PER_USEC);
}

static u64 inject_extra(const struct flashsim_inject *inj, u64 seed,
			const struct flashsim_inject_io *io, u64 now, u64 into)
{
	u64 ns = inj->latency_us * NSEC_PER_USEC;

	switch (inj->shape) {
	case FLASHSIM_INJECT_CONSTANT:
		break;
	case FLASHSIM_INJECT_RAMP:
		return ramp(inj, ns, into);
	case FLASHSIM_INJECT_QUEUE:
		return div64_u64(ns * io->in_flight, inj->at_depth);
	case FLASHSIM_INJECT_PARETO:
		return pareto(inj, seed, ns, io->sector, now);
	}
	return ns;
}

/**
 * flashsim_inject_next() - what this I/O gets; it is counted
 * @inj: the injection
 * @seed: seed of the drive
 * @io: the I/O
 * @now: when it reaches the drive, ns
 *
 * Return: time to add, ns; 0 when the I/O is not hit.
 */
u64 flashsim_inject_next(struct flashsim_inject *inj, u64 seed,
			 const struct flashsim_inject_io *io, u64 now)
{
	u64 into;

	if (!inject_matches(inj, io, now, &into))
		return 0;
	if (!inject_hits(inj, seed, inj->matched++))
		return 0;
	return inject_extra(inj, seed, io, now, into);
}
