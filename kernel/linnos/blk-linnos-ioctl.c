// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: a program asks which of its drives should serve a read, BLKEXPECT.
 *
 * A program that has the same data on several drives can find out by the hint
 * (RWF_LATCRIT): it sends the read, and is refused. That costs a failover a drive
 * and tells no more than that this one would be slow. Here it asks first, all
 * drives at once, as md does in the kernel: the same answers, blk_linnos_ask(), and
 * the same choice among them, blk_linnos_best(). Then it sends the read without the
 * hint. What follows from a question is what follows from one of md's: a drive
 * that is passed over goes stale, and one asker at a time is told to look at it.
 *
 * One call for all, not one for each, for a choice needs them all: that is one
 * system call for three drives, all are seen at the same moment, and how to weigh
 * their answers has one home. It is an ioctl of a block device that takes other
 * descriptors, as FIDEDUPERANGE does of a file. Not a page that a program maps: what
 * is pending changes with every I/O, and would have to be written there by
 * everybody's; it would show how a drive fares to whom it is left mapped; the
 * prediction, which depends on the read's size, would be computed in user space by
 * an engine of another age; and who reads a page cannot be told to look at a drive.
 * Not io_uring: the answer is needed before the read can be prepared.
 *
 * Rights. Each descriptor must be open for reading, and a security module may
 * object as it may to a read. Whoever may read a drive can time what it reads and
 * see its /sys/block/<disk>/stat: how much is in flight there and how its last reads
 * went is no secret to him. That, and nothing of what was read or by whom, is in an
 * answer. Nor does a question do more than reads with the hint can, which he may
 * send: it has a drive looked at by one read at a time.
 *
 * Lifetime. Descriptors are held while the drives are asked, and an open block
 * device keeps its disk, and the disk the policy; that of a disk that is removed is
 * off. Nothing is kept from one call to the next.
 *
 * All or none: no drive is asked before all descriptors have been looked at, so that
 * none is promised a read in vain. The memory that the answer goes to cannot be
 * tried beforehand; after EFAULT a read may have been promised. Others are then told
 * to send it, as when a program does not.
 */
#include <linux/blk-linnos.h>
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/security.h>
#include <linux/uaccess.h>

#include "blk.h"
#include "blk-linnos.h"

static_assert(BLK_EXPECT_DRIVES_MAX <= BITS_PER_LONG);

/* May it be asked? As it may be read. */
static int linnos_may_ask(struct file *file)
{
	if (!file || !(file->f_mode & FMODE_READ))
		return -EBADF;
	if (file->f_op != &def_blk_fops)
		return -ENOTBLK;
	return security_file_permission(file, MAY_READ);
}

/* md sees to it itself that it asks no drive that is gone: here nobody does. */
static enum blk_linnos_expected
linnos_ask_unless_gone(struct block_device *bdev, u32 bytes, u64 now_ns,
		       bool look, struct blk_expect_drive *drive)
{
	if (!test_bit(GD_DEAD, &bdev->bd_disk->state))
		return blk_linnos_ask(bdev, bytes, now_ns, look, drive);
	drive->known = BLK_EXPECT_GONE;
	drive->flags = 0;
	drive->latency_us = 0;
	return BLK_LINNOS_NOT_ASKED;
}

/* Ask the drives that are held open by @files. Return: which are best. */
static unsigned long linnos_ask_drives(const struct fd *files,
				       struct blk_expect_drive *drives,
				       const struct blk_expect *ask)
{
	enum blk_linnos_expected answers[BLK_EXPECT_DRIVES_MAX];
	bool look = ask->flags & BLK_EXPECT_LOOK;
	u64 now_ns = ktime_get_ns();
	unsigned int i;

	for (i = 0; i < ask->n_drives; i++) {
		struct file *file = fd_file(files[i]);
		struct block_device *bdev = I_BDEV(file->f_mapping->host);

		answers[i] = linnos_ask_unless_gone(bdev, ask->bytes, now_ns,
						    look, &drives[i]);
		/* it is promised this read: do not have others looked at */
		if (answers[i] == BLK_LINNOS_PROBE)
			look = true;
	}
	return blk_linnos_best(answers, ask->n_drives);
}

/**
 * blk_linnos_ioctl() - which of several drives should serve a read?
 * @may_read: the device that the call is made on is open for reading
 * @user: the question, and room for its answer
 *
 * Context: Process context.
 * Return: 0 or an errno, see BLKEXPECT.
 */
int blk_linnos_ioctl(bool may_read, struct blk_expect __user *user)
{
	struct blk_expect_drive drives[BLK_EXPECT_DRIVES_MAX];
	struct fd files[BLK_EXPECT_DRIVES_MAX];
	unsigned int i, n_files = 0;
	struct blk_expect ask;
	size_t bytes;
	int ret = 0;

	if (!may_read)
		return -EBADF;
	if (copy_from_user(&ask, user, sizeof(ask)))
		return -EFAULT;
	if (ask.flags & ~BLK_EXPECT_LOOK || !ask.bytes || !ask.n_drives ||
	    ask.n_drives > BLK_EXPECT_DRIVES_MAX)
		return -EINVAL;
	bytes = ask.n_drives * sizeof(*drives);
	if (copy_from_user(drives, user->drives, bytes))
		return -EFAULT;

	for (i = 0; i < ask.n_drives && !ret; i++) {
		files[i] = fdget(drives[i].fd);
		n_files++;
		ret = linnos_may_ask(fd_file(files[i]));
	}
	if (!ret)
		ask.best = linnos_ask_drives(files, drives, &ask);
	for (i = 0; i < n_files; i++)
		fdput(files[i]);
	if (ret)
		return ret;

	if (copy_to_user(user->drives, drives, bytes) ||
	    put_user(ask.best, &user->best))
		return -EFAULT;
	return 0;
}
