/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS on Linux 6.1: what the policy and its tests use of newer kernels.
 * Included before the first line of each of their files.
 */
#ifndef _LINNOS_COMPAT_H
#define _LINNOS_COMPAT_H

#include <linux/blkdev.h>
#include <kunit/test.h>

#include "blk-rq-qos.h"

/* Since 6.3 the fields are filled in there. */
static inline int linnos_rq_qos_add(struct rq_qos *rqos, struct gendisk *disk,
				    enum rq_qos_id id, struct rq_qos_ops *ops)
{
	rqos->q = disk->queue;
	rqos->id = id;
	rqos->ops = ops;
	return rq_qos_add(disk->queue, rqos);
}

#define rq_qos_add(rqos, disk, id, ops) \
	linnos_rq_qos_add(rqos, disk, id, (struct rq_qos_ops *)(ops))

/* Since 6.12. */
#ifndef fd_file
#define fd_file(f) ((f).file)
#endif

#ifndef KUNIT_EXPECT_MEMEQ
#define KUNIT_EXPECT_MEMEQ(test, left, right, bytes) \
	KUNIT_EXPECT_EQ(test, memcmp(left, right, bytes), 0)
#endif

#endif /* _LINNOS_COMPAT_H */
