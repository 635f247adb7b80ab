/* SPDX-License-Identifier: GPL-2.0-only */
/* LinnOS: the interface between the policy (blk-linnos.c) and the block layer. */
#ifndef _BLK_LINNOS_H
#define _BLK_LINNOS_H

#include <linux/blk_types.h>
#include <linux/jump_label.h>

struct gendisk;
struct request;

#ifdef CONFIG_BLK_LINNOS

DECLARE_STATIC_KEY_FALSE(blk_linnos_key);

/*
 * Return true if the policy of any disk has been switched on. This test is the only cost for
 * systems that do not use LinnOS.
 */
static inline bool blk_linnos_enabled(void)
{
	return static_branch_unlikely(&blk_linnos_key);
}

int blk_linnos_register(struct gendisk *disk);
void blk_linnos_unregister(struct gendisk *disk);
void blk_linnos_release(struct gendisk *disk);

#else /* !CONFIG_BLK_LINNOS */

#define blk_linnos_enabled() false
#define blk_linnos_register(disk) ((void)(disk), 0)
#define blk_linnos_unregister(disk) ((void)(disk))
#define blk_linnos_release(disk) ((void)(disk))

#endif /* CONFIG_BLK_LINNOS */

void __blk_linnos_join(struct request *rq, struct request *next);
void __blk_linnos_answer(struct request *rq, blk_status_t status);

/* A scheduler has merged @next into @rq. */
static inline void blk_linnos_join(struct request *rq, struct request *next)
{
	if (blk_linnos_enabled())
		__blk_linnos_join(rq, next);
}

/* The drive has completed a request that has a bio, or a part of the request. */
static inline void blk_linnos_answer(struct request *rq, blk_status_t status)
{
	if (blk_linnos_enabled())
		__blk_linnos_answer(rq, status);
}

#endif /* _BLK_LINNOS_H */
