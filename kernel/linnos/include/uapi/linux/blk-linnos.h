/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * LinnOS for a program that has the same data on several drives: which of them
 * should serve a read that is about to be sent? One call asks them all.
 *
 *	struct blk_expect *ask = calloc(1, BLK_EXPECT_BYTES(3));
 *
 *	ask->n_drives = 3;
 *	ask->bytes = 4096;
 *	ask->drives[0].fd = ...;
 *	if (ioctl(ask->drives[0].fd, BLKEXPECT, ask) == 0)
 *		read from one of those whose bit is set in ask->best
 *
 * How it is answered, and who may ask: block/linnos/blk-linnos-ioctl.c.
 */
#ifndef _UAPI_LINUX_BLK_LINNOS_H
#define _UAPI_LINUX_BLK_LINNOS_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* For &blk_expect.n_drives: not more of them. */
#define BLK_EXPECT_DRIVES_MAX 16

/*
 * For &blk_expect.flags: no read will follow. No drive is to be looked at by it,
 * and none is counted as passed over.
 */
#define BLK_EXPECT_QUERY_ONLY 0x00000001
/*
 * And: &blk_expect_drive.page says where the read begins. Who knows should say so:
 * reads near each other wait for each other, and many drives are predicted better.
 */
#define BLK_EXPECT_HAS_PAGE 0x00000002

/**
 * enum blk_expect_known - what an answer is made of
 * @BLK_EXPECT_NO_POLICY: a device that has no policy: one stacked on others, or
 *	whose driver does not use blk-mq
 * @BLK_EXPECT_OFF: nothing, the policy's mode is off
 * @BLK_EXPECT_NO_MODEL: nothing, the drive has no model
 * @BLK_EXPECT_GONE: the drive has been removed, or its driver has given it up
 * @BLK_EXPECT_FAST_OR_SLOW: a model that tells fast from slow
 * @BLK_EXPECT_LATENCY: a model of latencies
 */
enum blk_expect_known {
	BLK_EXPECT_NO_POLICY,
	BLK_EXPECT_OFF,
	BLK_EXPECT_NO_MODEL,
	BLK_EXPECT_GONE,
	BLK_EXPECT_FAST_OR_SLOW,
	BLK_EXPECT_LATENCY,
};

/*
 * For &blk_expect_drive.flags. Of a drive of which something is known:
 *
 * SLOW		predicted to be slow, or stalled
 * STALLED	reads are in flight, and none has completed for stall_us
 * STALE	it has answered no read of this order of size for probe_after_us: what is
 *		known may be old
 * PROBE	and that is why this read should be sent there, to look again. Two callers
 *		are told so; others later, should no read be sent
 * NO_CHOICE	its model has learnt too little to choose by: @latency_us is told, and
 *		&blk_expect.best is as if nothing were known
 */
#define BLK_EXPECT_SLOW 0x00000001
#define BLK_EXPECT_STALLED 0x00000002
#define BLK_EXPECT_STALE 0x00000004
#define BLK_EXPECT_PROBE 0x00000008
#define BLK_EXPECT_UNVALIDATED 0x00000010

/**
 * struct blk_expect_drive - a drive, and what is expected of it
 * @fd: in: the drive or a partition of it, open for reading
 * @known: out: an enum blk_expect_known
 * @flags: out: %BLK_EXPECT_SLOW and its like
 * @page: in, with %BLK_EXPECT_HAS_PAGE: the first byte's offset on @fd, by 4096; 32 bits
 *	of it are enough. The answer takes its place: who asks again says it again
 * @latency_us: out: how long the read would take, in microseconds, of
 *	%BLK_EXPECT_LATENCY; otherwise 0
 */
struct blk_expect_drive {
	__s32 fd;
	__u32 known;
	__u32 flags;
	union {
		__u32 page;
		__u32 latency_us;
	};
};

/**
 * struct blk_expect - a question about a read
 * @flags: in: 0, or of %BLK_EXPECT_QUERY_ONLY and %BLK_EXPECT_HAS_PAGE
 * @n_drives: in: how many may serve it, 1 to %BLK_EXPECT_DRIVES_MAX
 * @bytes: in: its size, not 0
 * @best: out: a bit for each drive that no other is better than; 0 if all are
 *	gone. With more than one bit set it does not matter which
 * @drives: the drives
 */
struct blk_expect {
	__u32 flags;
	__u32 n_drives;
	__u32 bytes;
	__u32 best;
	struct blk_expect_drive drives[];
};

#define BLK_EXPECT_BYTES(n_drives)   \
	(sizeof(struct blk_expect) + \
	 (n_drives) * sizeof(struct blk_expect_drive))

/*
 * On any block device that is open for reading; it need not be one of them.
 * EBADF: it, or one of them, is not open for reading. ENOTBLK: one is no block
 * device. EINVAL: flags, n_drives or bytes. EFAULT. ENOTTY: a kernel without.
 * Then no drive has been asked.
 */
#define BLKEXPECT _IOWR(0x12, 160, struct blk_expect)

#endif /* _UAPI_LINUX_BLK_LINNOS_H */
