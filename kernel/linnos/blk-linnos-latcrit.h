/* SPDX-License-Identifier: GPL-2.0-only */
/* LinnOS: admit or refuse reads with the hint, see blk-linnos-latcrit.c. */
#ifndef _BLK_LINNOS_LATCRIT_H
#define _BLK_LINNOS_LATCRIT_H

#include <linux/blk_types.h>

struct blk_linnos;

#ifdef CONFIG_BLK_LATCRIT
blk_status_t blk_linnos_decide(struct bio *bio);
#else
#define blk_linnos_decide(bio) ((void)(bio), BLK_STS_OK)
#endif

bool linnos_decide_read(struct blk_linnos *linnos, struct bio *bio, u64 now_ns);

#endif /* _BLK_LINNOS_LATCRIT_H */
