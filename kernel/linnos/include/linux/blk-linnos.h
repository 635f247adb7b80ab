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
#include <uapi/linux/blk-linnos.h>

struct block_device;

/* The result of a prediction, and the reason of a decision. */
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
 * @BLK_LINNOS_US: flag: a latency model predicts the time, and the following fields are valid
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

struct blk_linnos_array;

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
 * by this margin. Predictions are off by a factor of 1.4 to 2. Without a margin, all clients
 * would follow the smallest difference to one drive at once.
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
 * A drive to be probed is best. If the answers of all queried drives are in microseconds, all
 * drives are best that are within %BLK_LINNOS_MARGIN_PERCENT of the fastest one, slow or not.
 * Otherwise, fast and unknown drives are best, and microseconds are ignored.
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

struct blk_linnos_guard;

/* Modes of an array: no queries, queries with a guard, queries without a guard. */
enum {
	BLK_LINNOS_ARRAY_OFF,
	BLK_LINNOS_ARRAY_ON,
	BLK_LINNOS_ARRAY_UNGUARDED,
};

/**
 * struct blk_linnos_array - an array that redirects reads
 * @mode: one of the modes above
 * @guard: latencies of redirected reads and of control reads
 */
struct blk_linnos_array {
	u8 mode;
	struct blk_linnos_guard *guard;
};

/**
 * struct blk_linnos_assignment - group of a read; the caller keeps it until completion
 * @start_ns: when the read started; 0 if the guard does not need its latency
 * @home_us: predicted latency at the default disk
 * @wish: slowness class of the default disk, an enum linnos_slowness
 * @left: true if the read is redirected
 * @asked: true if disks were queried for the read
 * @counts: true if the read is sampled for its slice
 * @tries: true if the other disks are queried even where that rarely helps
 */
struct blk_linnos_assignment {
	u64 start_ns;
	u32 home_us;
	u8 wish;
	bool left : 1;
	bool asked : 1;
	bool counts : 1;
	bool tries : 1;
};

int blk_linnos_array_init(struct blk_linnos_array *array);
ssize_t blk_linnos_array_show(struct blk_linnos_array *array, char *page);
int blk_linnos_array_store(struct blk_linnos_array *array, const char *word);
ssize_t blk_linnos_array_show_guard(struct blk_linnos_array *array, char *page);
bool __blk_linnos_array_should_query(struct blk_linnos_array *array,
				     struct blk_linnos_assignment *lot);
bool blk_linnos_may_redirect(const struct blk_linnos_array *array,
			     const struct blk_linnos_assignment *lot,
			     enum blk_linnos_expected home);
unsigned long blk_linnos_redirect(struct blk_linnos_array *array,
				  const enum blk_linnos_expected *answers,
				  unsigned int n, unsigned int home,
				  struct blk_linnos_assignment *lot);
void __blk_linnos_record_latency(struct blk_linnos_array *array,
				 const struct blk_linnos_assignment *lot);

/* Call at the start of a read. Return true if disks should be queried for it. */
static inline bool
blk_linnos_array_should_query(struct blk_linnos_array *array,
			      struct blk_linnos_assignment *lot)
{
	*lot = (struct blk_linnos_assignment){};
	return IS_ENABLED(CONFIG_BLK_LINNOS) && READ_ONCE(array->mode) &&
	       __blk_linnos_array_should_query(array, lot);
}

/* Call when the read completes. */
static inline void
blk_linnos_record_latency(struct blk_linnos_array *array,
			  const struct blk_linnos_assignment *lot)
{
	if (IS_ENABLED(CONFIG_BLK_LINNOS) && lot->start_ns)
		__blk_linnos_record_latency(array, lot);
}

#endif /* _LINUX_BLK_LINNOS_H */
