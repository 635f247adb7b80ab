/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * LinnOS interface for programs that store the same data on several drives: choose the drive
 * that should serve a read. One call queries all drives.
 *
 *	struct blk_expect *request = calloc(1, BLK_EXPECT_BYTES(3));
 *
 *	request->n_drives = 3;
 *	request->bytes = 4096;
 *	request->drives[0].fd = ...;
 *	if (ioctl(request->drives[0].fd, BLKEXPECT, request) == 0)
 *		read from one of those whose bit is set in request->best
 *
 * For the details and the permissions see block/linnos/blk-linnos-ioctl.c.
 */
#ifndef _UAPI_LINUX_BLK_LINNOS_H
#define _UAPI_LINUX_BLK_LINNOS_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Maximum of &blk_expect.n_drives. */
#define BLK_EXPECT_DRIVES_MAX 16

/*
 * For &blk_expect.flags: no read will follow. The answer never asks for a probe, and no drive is
 * counted as avoided.
 */
#define BLK_EXPECT_QUERY_ONLY 0x00000001
/*
 * For &blk_expect.flags: &blk_expect_drive.page is the address of the read. Set it if the address
 * is known: reads of nearby addresses wait for each other, and with the address the predictions
 * for many drives are better.
 */
#define BLK_EXPECT_HAS_PAGE 0x00000002

/**
 * enum blk_expect_known - the kind of prediction, or the reason why there is none
 * @BLK_EXPECT_NO_POLICY: no prediction, because the device has no policy: it is stacked on
 *	others, or its driver does not use blk-mq
 * @BLK_EXPECT_OFF: no prediction, because the mode of the policy is off
 * @BLK_EXPECT_NO_MODEL: no prediction, because the drive has no model
 * @BLK_EXPECT_GONE: no prediction, because the drive was removed or has failed
 * @BLK_EXPECT_FAST_OR_SLOW: the model classifies reads as fast or slow
 * @BLK_EXPECT_LATENCY: the model predicts latencies
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
 * For &blk_expect_drive.flags, if the drive has a model:
 *
 * SLOW		predicted to be slow
 * STALE	no read of this size class has completed for probe_after_us, so that the
 *		history may be stale
 * PROBE	this read should be sent to the drive to probe it. Up to two callers get this
 *		flag, and other callers later if no read is sent
 */
#define BLK_EXPECT_SLOW 0x00000001
#define BLK_EXPECT_STALE 0x00000002
#define BLK_EXPECT_PROBE 0x00000004

/**
 * struct blk_expect_drive - a drive, and the prediction for it
 * @fd: in: the drive or a partition of it, open for reading
 * @known: out: an enum blk_expect_known
 * @flags: out: a combination of %BLK_EXPECT_SLOW and the other flags above
 * @page: in, with %BLK_EXPECT_HAS_PAGE: the offset of the read on @fd, divided by 4096; the
 *	low 32 bits are enough. @latency_us overwrites it: set it again before each call
 * @latency_us: out: the predicted latency in microseconds if @known is
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
 * struct blk_expect - a query for a read
 * @flags: in: a combination of %BLK_EXPECT_QUERY_ONLY and %BLK_EXPECT_HAS_PAGE, or 0
 * @n_drives: in: number of drives that may serve the read, 1 to %BLK_EXPECT_DRIVES_MAX
 * @bytes: in: size of the read, not 0
 * @best: out: a bitmap of the best drives; 0 if all drives are gone. If several bits are set,
 *	read from any of these drives
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
 * The ioctl may be called on any block device that is open for reading, not only on the drives.
 *
 * EBADF	the block device or a drive is not open for reading
 * ENOTBLK	a drive is not a block device
 * EINVAL	@flags, @n_drives or @bytes is invalid
 * EFAULT	the struct is not accessible
 * ENOTTY	the kernel does not have BLKEXPECT
 *
 * After any error but EFAULT, no drive has been queried.
 */
#define BLKEXPECT _IOWR(0x12, 160, struct blk_expect)

#endif /* _UAPI_LINUX_BLK_LINNOS_H */
