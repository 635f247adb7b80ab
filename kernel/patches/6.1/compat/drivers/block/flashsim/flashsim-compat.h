/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * flashsim on Linux 6.1: a disk's limits are set by calls on its queue, and an
 * ioctl takes an fmode_t. Included before the first line of disk.c, the only file
 * that the difference concerns.
 */
#ifndef _FLASHSIM_COMPAT_H
#define _FLASHSIM_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>

#define blk_mode_t		fmode_t
#define BLK_FEAT_WRITE_CACHE	1U

/* Those of the newer queue_limits that flashsim sets. */
struct flashsim_queue_limits {
	unsigned int logical_block_size;
	unsigned int physical_block_size;
	unsigned int io_min;
	unsigned int max_hw_sectors;
	unsigned short max_segments;
	unsigned int max_hw_discard_sectors;
	unsigned int discard_granularity;
	unsigned int dma_alignment;
	unsigned int features;
};

#define queue_limits flashsim_queue_limits

static inline void flashsim_set_limits(struct request_queue *q,
				       const struct flashsim_queue_limits *lim)
{
	blk_queue_logical_block_size(q, lim->logical_block_size);
	blk_queue_physical_block_size(q, lim->physical_block_size);
	blk_queue_io_min(q, lim->io_min);
	blk_queue_max_hw_sectors(q, lim->max_hw_sectors);
	blk_queue_max_segments(q, lim->max_segments);
	blk_queue_max_discard_sectors(q, lim->max_hw_discard_sectors);
	q->limits.discard_granularity = lim->discard_granularity;
	blk_queue_dma_alignment(q, lim->dma_alignment);
	blk_queue_write_cache(q, lim->features & BLK_FEAT_WRITE_CACHE, false);
	/* later kernels take a device for an SSD unless it says otherwise */
	blk_queue_flag_set(QUEUE_FLAG_NONROT, q);
	blk_queue_flag_clear(QUEUE_FLAG_ADD_RANDOM, q);
}

#undef blk_mq_alloc_disk
#define blk_mq_alloc_disk(set, lim, data)				\
({									\
	static struct lock_class_key __key;				\
	struct gendisk *__disk = __blk_mq_alloc_disk(set, data, &__key);	\
									\
	if (!IS_ERR(__disk))						\
		flashsim_set_limits(__disk->queue, lim);		\
	__disk;								\
})

#endif /* _FLASHSIM_COMPAT_H */
