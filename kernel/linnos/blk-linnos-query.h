/* SPDX-License-Identifier: GPL-2.0-only */
/* LinnOS: queries by programs, see blk-linnos-ioctl.c. */
#ifndef _BLK_LINNOS_QUERY_H
#define _BLK_LINNOS_QUERY_H

#include <linux/blk-linnos.h>
#include <uapi/linux/blk-linnos.h>

struct blk_linnos;

/* The sector of a read whose address is not known. */
#define LINNOS_SECTOR_UNKNOWN (~(sector_t)0)

enum blk_linnos_expected linnos_query_read(struct blk_linnos *linnos, u8 region,
					   unsigned int bytes, u64 now_ns,
					   bool will_send,
					   struct blk_expect_drive *drive);
enum blk_linnos_expected blk_linnos_query(struct block_device *bdev,
					  sector_t sector, unsigned int bytes,
					  u64 now_ns, bool will_send,
					  struct blk_expect_drive *drive);

#ifdef CONFIG_BLK_LINNOS
int blk_linnos_ioctl(bool may_read, struct blk_expect __user *user);
#else
#define blk_linnos_ioctl(may_read, user) \
	((void)(may_read), (void)(user), -ENOIOCTLCMD)
#endif

#endif /* _BLK_LINNOS_QUERY_H */
