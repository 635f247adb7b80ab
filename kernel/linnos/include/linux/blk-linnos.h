/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS interface for stacked drivers that store the same data on several drives: choose the
 * drive that should serve a read. See block/linnos/blk-linnos-expect.c.
 */
#ifndef _LINUX_BLK_LINNOS_H
#define _LINUX_BLK_LINNOS_H

#include <linux/bits.h>
#include <linux/minmax.h>
#include <linux/types.h>

struct block_device;

/* The result of a prediction, which is the reason for a decision. */
enum linnos_reason {
	LINNOS_PREDICTED_FAST = 0,
	LINNOS_PREDICTED_SLOW = 1,
	LINNOS_PROBE = 2, /* predicted slow, but admitted */
	LINNOS_NO_MODEL = 3,
};

/**
 * enum blk_linnos_expected - how a drive is expected to serve a read now
 * @BLK_LINNOS_PROBE: the drive was slow, and it is time to probe it: send it this read. The
 *	caller need not query other drives. If several callers query the drive, two get this
 *	answer.
 * @BLK_LINNOS_FAST: the read would be fast
 * @BLK_LINNOS_UNKNOWN: the drive has no policy or no model, its mode is off, or it is gone;
 *	ranks like a fast drive
 * @BLK_LINNOS_SLOW: the read would be slow
 * @BLK_LINNOS_NOT_QUERIED: set by the caller for a drive that may not serve the read
 * @BLK_LINNOS_US: flag: a latency model predicts the latency, and the following fields are valid
 * @BLK_LINNOS_US_SLOW: flag: the model would refuse the read
 * @BLK_LINNOS_US_SLOWNESS: slowness class for this drive, an enum linnos_slowness;
 *	LINNOS_SLOWNESS_NONE if the read should not be redirected
 * @BLK_LINNOS_US_MASK: the predicted latency in microseconds
 *
 * Pass answers to blk_linnos_best() instead of comparing them.
 */
enum blk_linnos_expected {
	BLK_LINNOS_PROBE,
	BLK_LINNOS_FAST,
	BLK_LINNOS_UNKNOWN,
	BLK_LINNOS_SLOW,
	BLK_LINNOS_NOT_QUERIED,
	BLK_LINNOS_US_MASK = GENMASK(23, 0),
	BLK_LINNOS_US_SLOWNESS = GENMASK(26, 24),
	BLK_LINNOS_US_SLOW = BIT(27),
	BLK_LINNOS_US = BIT(28),
};

#ifdef CONFIG_BLK_LINNOS
enum blk_linnos_expected blk_linnos_expect(struct block_device *bdev,
					   sector_t sector, unsigned int bytes);
#else
static inline enum blk_linnos_expected
blk_linnos_expect(struct block_device *bdev, sector_t sector,
		  unsigned int bytes)
{
	return BLK_LINNOS_UNKNOWN;
}
#endif

/*
 * A read is redirected only if another drive is predicted to be faster than the default drive
 * by this margin. Predictions are wrong by a factor of 1.4 to 2. Without a margin, the smallest
 * difference would lead all clients to the same drive at once.
 */
#define BLK_LINNOS_MARGIN_PERCENT 25

/* Reduce an answer to fast or slow, for sets of drives that do not all predict microseconds. */
static inline enum blk_linnos_expected
blk_linnos_verdict(enum blk_linnos_expected answer)
{
	if (answer & BLK_LINNOS_US)
		return answer & BLK_LINNOS_US_SLOW ? BLK_LINNOS_SLOW :
						     BLK_LINNOS_FAST;
	return answer == BLK_LINNOS_UNKNOWN ? BLK_LINNOS_FAST : answer;
}

static inline unsigned long
blk_linnos_lowest(const enum blk_linnos_expected *answers, unsigned int n)
{
	unsigned int lowest_us = BLK_LINNOS_US_MASK;
	unsigned long which = 0;
	unsigned int i;

	for (i = 0; i < n; i++)
		if (answers[i] & BLK_LINNOS_US)
			lowest_us = min_t(unsigned int, lowest_us,
					  answers[i] & BLK_LINNOS_US_MASK);
	for (i = 0; i < n; i++)
		/* a number of 24 bits times 100 fits 32 bits */
		if (answers[i] & BLK_LINNOS_US &&
		    (answers[i] & BLK_LINNOS_US_MASK) *
				    (100U - BLK_LINNOS_MARGIN_PERCENT) <=
			    lowest_us * 100U)
			which |= BIT(i);
	return which;
}

/**
 * blk_linnos_best() - choose the drives that should serve a read
 * @answers: the answer of blk_linnos_expect() for each drive
 * @n: number of drives, at most %BITS_PER_LONG
 *
 * A drive that should be probed is best. Otherwise, if all queried drives answered in microseconds,
 * the drives within %BLK_LINNOS_MARGIN_PERCENT of the fastest one are best, even if they are slow.
 * If some answers are not in microseconds, fast and unknown drives are best.
 *
 * Return: a bitmap of the drives that are best; 0 if no drive was queried.
 */
static inline unsigned long
blk_linnos_best(const enum blk_linnos_expected *answers, unsigned int n)
{
	enum blk_linnos_expected best = BLK_LINNOS_SLOW;
	unsigned long which = 0;
	bool all_us = true;
	unsigned int i;

	for (i = 0; i < n; i++)
		if (answers[i] != BLK_LINNOS_NOT_QUERIED &&
		    !(answers[i] & BLK_LINNOS_US))
			all_us = false;
	if (all_us)
		return blk_linnos_lowest(answers, n);

	for (i = 0; i < n; i++) {
		enum blk_linnos_expected answer =
			blk_linnos_verdict(answers[i]);

		if (answer > best)
			continue;
		if (answer < best)
			which = 0;
		best = answer;
		which |= BIT(i);
	}
	return which;
}

#endif /* _LINUX_BLK_LINNOS_H */
