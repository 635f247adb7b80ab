/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS for those who have the same data on several drives: which of them should
 * serve a read that is about to be sent? Documented in block/linnos/blk-linnos-expect.c.
 */
#ifndef _LINUX_BLK_LINNOS_H
#define _LINUX_BLK_LINNOS_H

#include <linux/bits.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <uapi/linux/blk-linnos.h>

struct block_device;

/* What was found about a latency-critical read. */
enum linnos_reason {
	LINNOS_PREDICTED_FAST = 0,
	LINNOS_PREDICTED_SLOW = 1,
	LINNOS_PROBE = 2, /* slow, and admitted all the same */
	LINNOS_NO_MODEL = 4,
	LINNOS_STALLED = 5, /* the model said fast, the stall rule slow */
	LINNOS_MODEL_UNVALIDATED = 7, /* the model only tells how long */
};

/**
 * enum blk_linnos_expected - what a drive is expected to do with a read now
 * @BLK_LINNOS_PROBE: it was slow, and it is time to probe it: send it this read. Who
 *	gets this answer need not ask other drives. Of several callers two get it.
 * @BLK_LINNOS_FAST: serve it fast
 * @BLK_LINNOS_UNKNOWN: it has no policy or no model that chooses, its mode is off, or
 *	it is gone; who has a guard is told of bursts. As good as a fast one.
 * @BLK_LINNOS_SLOW: serve it slowly
 * @BLK_LINNOS_NOT_QUERIED: for the caller, a drive that may not serve the read
 * @BLK_LINNOS_US: serve it within some time, by a model of latencies, told in the same
 *	word by the next four
 * @BLK_LINNOS_US_SLOW: more than the model finds worth waiting for, or stalled
 * @BLK_LINNOS_US_UNVALIDATED: of a model that knows added bursts alone, to who has a guard
 * @BLK_LINNOS_US_SLOWNESS: how slow that is for this drive, an enum linnos_slowness;
 *	LINNOS_SLOWNESS_NONE: not so slow that a read would leave it
 * @BLK_LINNOS_US_MASK: the microseconds
 * @BLK_LINNOS_STALLED: it answers nobody, whatever its model says: later than all others
 *
 * Answers are to be given to blk_linnos_best() rather than compared.
 */
enum blk_linnos_expected {
	BLK_LINNOS_PROBE,
	BLK_LINNOS_FAST,
	BLK_LINNOS_UNKNOWN,
	BLK_LINNOS_SLOW,
	BLK_LINNOS_NOT_QUERIED,
	BLK_LINNOS_US_MASK = GENMASK(23, 0),
	BLK_LINNOS_US_SLOWNESS = GENMASK(26, 24),
	BLK_LINNOS_US_UNVALIDATED = BIT(28),
	BLK_LINNOS_US_SLOW = BIT(29),
	BLK_LINNOS_US = BIT(30),
	BLK_LINNOS_STALLED = BLK_LINNOS_US | BLK_LINNOS_US_SLOW |
			     BLK_LINNOS_US_MASK,
};

struct blk_linnos_array;

#ifdef CONFIG_BLK_LINNOS
enum blk_linnos_expected blk_linnos_expect(const struct blk_linnos_array *array,
					   struct block_device *bdev,
					   sector_t sector, unsigned int bytes);
#else
static inline enum blk_linnos_expected
blk_linnos_expect(const struct blk_linnos_array *array,
		  struct block_device *bdev, sector_t sector,
		  unsigned int bytes)
{
	return BLK_LINNOS_UNKNOWN;
}
#endif

/*
 * How much sooner must another drive be expected to answer before a read leaves the one
 * that the caller would choose? Predictions are off by a factor of 1.4 to 2, and without
 * a margin all readers would follow the last difference to one drive at once.
 */
#define BLK_LINNOS_MARGIN_PERCENT 25

/* Of drives some of which only tell fast from slow. */
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
		/* 24 bits by 100 fit 32 */
		if (answers[i] & BLK_LINNOS_US &&
		    (answers[i] != BLK_LINNOS_STALLED ||
		     lowest_us == BLK_LINNOS_US_MASK) &&
		    (answers[i] & BLK_LINNOS_US_MASK) *
				    (100U - BLK_LINNOS_MARGIN_PERCENT) <=
			    lowest_us * 100U)
			which |= BIT(i);
	return which;
}

/**
 * blk_linnos_best() - which drives should serve a read
 * @answers: what blk_linnos_expect() has told of each drive
 * @n: how many drives, up to %BITS_PER_LONG
 *
 * A drive to be probed is best. Where the models of all that were asked tell
 * microseconds, those within %BLK_LINNOS_MARGIN_PERCENT of the lowest are, slow or not.
 * Otherwise fast ones are best, those of which nothing is known among them, and
 * microseconds do not count. A stalled drive is best only where all are that were asked.
 *
 * Return: a bit for each drive that no other is better than; 0 if none was asked.
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
		enum blk_linnos_expected answer;

		if (answers[i] == BLK_LINNOS_STALLED)
			continue;
		answer = blk_linnos_verdict(answers[i]);
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

/* Does an array ask, and does it see whether that is worth it? */
enum {
	BLK_LINNOS_ARRAY_OFF,
	BLK_LINNOS_ARRAY_ON,
	BLK_LINNOS_ARRAY_UNGUARDED,
};

/**
 * struct blk_linnos_array - of an array: does it ask, and is it worth it?
 * @mode: one of the above
 * @guard: knows what reads took that went elsewhere than home, and those that stayed
 */
struct blk_linnos_array {
	u8 mode;
	struct blk_linnos_guard *guard;
};

/**
 * struct blk_linnos_assignment - what was drawn for a read, to be kept until it is answered
 * @start_ns: when; 0: the guard does not want to know what it took
 * @home_us: what it was expected to take at home
 * @wish: why it would have left home, an enum linnos_slowness
 * @left: it did
 * @asked: disks were asked about it
 * @counts: for its slice
 * @tries: the others are asked also where that is mostly in vain
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

/* A read begins: should disks be asked about it? */
static inline bool
blk_linnos_array_should_query(struct blk_linnos_array *array,
			      struct blk_linnos_assignment *lot)
{
	*lot = (struct blk_linnos_assignment){};
	return IS_ENABLED(CONFIG_BLK_LINNOS) && READ_ONCE(array->mode) &&
	       __blk_linnos_array_should_query(array, lot);
}

/* It was answered. */
static inline void
blk_linnos_record_latency(struct blk_linnos_array *array,
			  const struct blk_linnos_assignment *lot)
{
	if (IS_ENABLED(CONFIG_BLK_LINNOS) && lot->start_ns)
		__blk_linnos_record_latency(array, lot);
}

#endif /* _LINUX_BLK_LINNOS_H */
