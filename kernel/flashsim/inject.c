// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: latency added to that of the emulated drive.
 *
 * An I/O matches if injection is armed, and the I/O is of the chosen kind, touches the slow region,
 * and reaches the drive during an active window. The pattern then decides whether it is hit, and
 * the shape how much latency is added.
 *
 * Patterns:
 *
 *  all         every I/O
 *  random      each at random, with a probability of ratio_ppm in a million
 *  continuous  the first ratio_ppm fraction of every period_ios, in a row
 *              (1 %: 1000 in a row of every 100,000)
 *  interval    one in every `interval`
 *
 * Only matching I/Os are counted, so a continuous burst starts with the window.
 * Whether the n-th matching I/O is hit depends only on n and the seed.
 *
 * Shapes, based on latency_us:
 *
 *  constant    always this value
 *  ramp        from 0 at the start of the window to this value in its middle, and
 *              back to 0
 *  queue       this value for every at_depth requests in the drive
 *  pareto      at random, with this value as the median:
 *
 *                P(extra > x) = (x / latency_us)^-tail / 2
 *
 *              The random number is a hash of the seed, the sector and the time
 *              in steps of FLASHSIM_INJECT_DRAW_NS. Queries for the same sector
 *              at the same time get the same value, and a query does not change
 *              the values of others.
 *
 * To make slow periods that move between drives, give several drives windows with the same times.
 * The windows are numbered from 0 to window_turns - 1, again and again. A window is active on a
 * drive if the bit with its number is set in the drive's window_turn_mask.
 *
 * With occupy 0, the latency is added to the I/O's own completion. It occupies no chip, so other
 * I/Os are not delayed, as if the drive had done retries for this one with separate resources. With
 * occupy 1, the I/O keeps what serves it for the added time, so the I/Os behind it are delayed,
 * too: a read of flash keeps the chip of its first row, as if sensing took longer; a read of
 * buffered data keeps the link to the host, and a write the link to the drive. In both modes the
 * I/O keeps its tag until it is complete.
 */
#include <linux/errno.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/printk.h>

#include "flashsim.h"
#include "inject.h"

/* Separate the random numbers of injection from those of the model, and from each other. */
#define INJECT_SALT	0x696e6a656374ULL
#define PARETO_SALT	0x70617265746fULL

/* Binary logarithms have this number of fractional bits. */
#define LOG_BITS	16

/**
 * flashsim_inject_init() - set the defaults, without injection
 * @inj: the injection
 */
void flashsim_inject_init(struct flashsim_inject *inj)
{
	*inj = (struct flashsim_inject) {
#define INJECT(_name, _min, _max, _default) ._name = _default,
#define INJECT_WORD(_name, _default) ._name = _default,
#include "settings.h"
	};
}

/**
 * flashsim_inject_arm() - start or stop injecting
 * @inj: the injection
 * @on: true to start; this resets the window clock and the count of matching
 *	I/Os
 * @now: the time, ns
 *
 * Return: 0, or -EINVAL if a setting that the shape needs is missing; then
 * injection is not armed.
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
 * The first window starts window_start_us after arming, the next ones every
 * window_every_us after it. @into is the time since the start of this window.
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

	/* The window was removed after injection was armed. */
	if (!len)
		return 0;
	return mul_u64_u64_div_u64(peak_ns, 2 * min(into, len - into), len);
}

/* Return the binary logarithm of @x, from 1 to 2^32, with LOG_BITS fractional bits. */
static u32 log2_fixed(u64 x)
{
	u32 log = ilog2(x);
	u64 m = x << 31 >> log;
	int i;

	/*
	 * @m is from 1 to 2, with 31 fractional bits: square it to get the next
	 *	bit.
	 */
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

/* Return @x times two to the power of @log, which has LOG_BITS fractional bits. */
static u64 scale_exp2(u64 x, s64 log, u64 max)
{
	/* Two to the powers of 1/2, 1/4, ..., with 31 fractional bits. */
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
	/* 2^31 is the median: the result is median * (die / 2^31)^(-1/tail). */
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
 * flashsim_inject_next() - count an I/O and get its additional latency
 * @inj: the injection
 * @seed: seed of the drive
 * @io: the I/O
 * @now: when it reaches the drive, ns
 *
 * Return: latency to add, ns; 0 if the I/O is not hit.
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
