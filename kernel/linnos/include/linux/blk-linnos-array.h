/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS interface for md: redirect a part of the reads of an array, and measure whether that
 * makes them faster. See block/linnos/blk-linnos-array.c.
 */
#ifndef _LINUX_BLK_LINNOS_ARRAY_H
#define _LINUX_BLK_LINNOS_ARRAY_H

#include <linux/blk-linnos.h>

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
 * @default_us: predicted latency at the default disk
 * @slowness: slowness class of the default disk, an enum linnos_slowness
 * @redirected: true if the read is redirected
 * @queries_all: true if the other disks are queried even where that rarely helps
 */
struct blk_linnos_assignment {
	u64 start_ns;
	u32 default_us;
	u8 slowness;
	bool redirected : 1;
	bool queries_all : 1;
};

int blk_linnos_array_init(struct blk_linnos_array *array);
ssize_t blk_linnos_array_show(struct blk_linnos_array *array, char *page);
int blk_linnos_array_store(struct blk_linnos_array *array, const char *word);
ssize_t blk_linnos_array_show_guard(struct blk_linnos_array *array, char *page);
bool __blk_linnos_array_should_query(struct blk_linnos_array *array,
				     struct blk_linnos_assignment *group);
bool blk_linnos_may_redirect(const struct blk_linnos_array *array,
			     const struct blk_linnos_assignment *group,
			     enum blk_linnos_expected answer);
unsigned long blk_linnos_redirect(struct blk_linnos_array *array,
				  const enum blk_linnos_expected *answers,
				  unsigned int n, unsigned int preferred,
				  struct blk_linnos_assignment *group);
void __blk_linnos_record_latency(struct blk_linnos_array *array,
				 const struct blk_linnos_assignment *group);

/* Call at the start of a read. Return true if disks should be queried for it. */
static inline bool
blk_linnos_array_should_query(struct blk_linnos_array *array,
			      struct blk_linnos_assignment *group)
{
	*group = (struct blk_linnos_assignment){};
	return IS_ENABLED(CONFIG_BLK_LINNOS) && READ_ONCE(array->mode) &&
	       __blk_linnos_array_should_query(array, group);
}

/* Call when the read completes. */
static inline void
blk_linnos_record_latency(struct blk_linnos_array *array,
			  const struct blk_linnos_assignment *group)
{
	if (IS_ENABLED(CONFIG_BLK_LINNOS) && group->start_ns)
		__blk_linnos_record_latency(array, group);
}

#endif /* _LINUX_BLK_LINNOS_ARRAY_H */
