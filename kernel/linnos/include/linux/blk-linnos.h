/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS for those who have the same data on several drives: which of them
 * should serve a read that is about to be sent? Documented in block/blk-linnos.c.
 */
#ifndef _LINUX_BLK_LINNOS_H
#define _LINUX_BLK_LINNOS_H

#include <linux/bits.h>
#include <linux/compiler_attributes.h>
#include <linux/types.h>

struct block_device;

/**
 * enum blk_linnos_expected - what a drive is expected to do with a read now
 * @BLK_LINNOS_PROBE: it was slow, and nobody has looked for so long that it is
 *	time to look again; send it this read. One asker at a time gets this
 *	answer, and who gets it need not ask other drives.
 * @BLK_LINNOS_FAST: serve it fast
 * @BLK_LINNOS_UNKNOWN: there is nobody to tell: a drive without a policy or a
 *	model, one whose mode is off or that is asleep, or one that is gone. As
 *	good as a fast one.
 * @BLK_LINNOS_SLOW: serve it slowly
 * @BLK_LINNOS_NOT_ASKED: for the caller, a drive that may not serve the read
 *
 * Answers are to be given to blk_linnos_best() rather than compared, so that a
 * model which tells more than fast from slow can answer more.
 */
enum blk_linnos_expected {
	BLK_LINNOS_PROBE,
	BLK_LINNOS_FAST,
	BLK_LINNOS_UNKNOWN,
	BLK_LINNOS_SLOW,
	BLK_LINNOS_NOT_ASKED,
} __packed;

#ifdef CONFIG_BLK_LINNOS
enum blk_linnos_expected blk_linnos_expect(struct block_device *bdev,
					   unsigned int bytes);
#else
static inline enum blk_linnos_expected
blk_linnos_expect(struct block_device *bdev, unsigned int bytes)
{
	return BLK_LINNOS_UNKNOWN;
}
#endif

/**
 * blk_linnos_best() - which drives should serve a read
 * @answers: what blk_linnos_expect() has told of each drive
 * @n: how many drives, up to %BITS_PER_LONG
 *
 * Return: a bit for each drive that no other is better than; 0 if none was
 * asked. With more than one bit set, LinnOS does not mind which.
 */
static inline unsigned long
blk_linnos_best(const enum blk_linnos_expected *answers, unsigned int n)
{
	enum blk_linnos_expected best = BLK_LINNOS_SLOW;
	unsigned long which = 0;
	unsigned int i;

	for (i = 0; i < n; i++) {
		enum blk_linnos_expected answer = answers[i];

		if (answer == BLK_LINNOS_UNKNOWN)
			answer = BLK_LINNOS_FAST;
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
