/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS: what the policy (blk-linnos.c) and the rest of the block layer share.
 */
#ifndef _BLK_LINNOS_H
#define _BLK_LINNOS_H

#include <linux/blk-linnos.h>
#include <linux/blk_types.h>
#include <linux/jump_label.h>

struct gendisk;
struct request;

#ifdef CONFIG_BLK_LINNOS

DECLARE_STATIC_KEY_FALSE(blk_linnos_key);

/*
 * Is any disk's policy awake, on and with hinted reads? The one branch paid by
 * those that do not use it.
 */
static inline bool blk_linnos_enabled(void)
{
	return static_branch_unlikely(&blk_linnos_key);
}

blk_status_t blk_linnos_decide(struct bio *bio);
void __blk_linnos_issue_rq(struct request *rq);
void __blk_linnos_complete_rq(struct request *rq, unsigned int nr_bytes);

/* A driver starts a request, for the first time or again. */
static inline void blk_linnos_issue_rq(struct request *rq)
{
	if (blk_linnos_enabled())
		__blk_linnos_issue_rq(rq);
}

/* The drive has answered the first @nr_bytes that are left of a request. */
static inline void blk_linnos_complete_rq(struct request *rq,
					  blk_status_t status,
					  unsigned int nr_bytes)
{
	if (blk_linnos_enabled() && !status)
		__blk_linnos_complete_rq(rq, nr_bytes);
}

void blk_linnos_done_bio(struct bio *bio);
void blk_linnos_forget_bio(struct bio *bio);
void blk_linnos_forget_bios(struct request *rq);
enum blk_linnos_expected blk_linnos_ask(struct block_device *bdev,
					unsigned int bytes, u64 now_ns,
					bool look,
					struct blk_expect_drive *drive);
int blk_linnos_ioctl(bool may_read, struct blk_expect __user *user);
int blk_linnos_register(struct gendisk *disk);
void blk_linnos_unregister(struct gendisk *disk);
void blk_linnos_release(struct gendisk *disk);

#else /* !CONFIG_BLK_LINNOS */

static inline bool blk_linnos_enabled(void)
{
	return false;
}

static inline blk_status_t blk_linnos_decide(struct bio *bio)
{
	return BLK_STS_OK;
}

static inline void blk_linnos_issue_rq(struct request *rq)
{
}

static inline void blk_linnos_complete_rq(struct request *rq,
					  blk_status_t status,
					  unsigned int nr_bytes)
{
}

static inline void blk_linnos_done_bio(struct bio *bio)
{
}

static inline void blk_linnos_forget_bio(struct bio *bio)
{
}

static inline void blk_linnos_forget_bios(struct request *rq)
{
}

static inline int blk_linnos_ioctl(bool may_read,
				   struct blk_expect __user *user)
{
	return -ENOIOCTLCMD;
}

static inline int blk_linnos_register(struct gendisk *disk)
{
	return 0;
}

static inline void blk_linnos_unregister(struct gendisk *disk)
{
}

static inline void blk_linnos_release(struct gendisk *disk)
{
}

#endif /* CONFIG_BLK_LINNOS */

#endif /* _BLK_LINNOS_H */
