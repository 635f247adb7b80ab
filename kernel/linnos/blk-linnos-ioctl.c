// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinnOS: BLKEXPECT, an ioctl with which a program queries its drives before a read.
 *
 * One call queries all drives, so that all are predicted for the same moment. The caller then
 * sends the read without the hint. A mapped page with the state of the drives could not replace
 * the call, because a model has to compute each answer, and because an answer may select the
 * caller's read as a probe.
 *
 * Permissions: each descriptor must be open for reading, and a security module can refuse the query
 * as it can refuse a read. A process that may read a drive can measure its own latencies and read
 * the disk's stat file. The answers reveal no more than that about other processes, with one
 * exception: a model may depend on the number of reads in each of the 64 regions (linnos_drive.h),
 * and thus reveal in which region others are reading. As with the hint, a process can cause a drive
 * to be probed by one read at a time.
 *
 * No drive is queried before all descriptors have been checked, so that no drive waits for a
 * probe that is not sent. Only after EFAULT may a drive wait for one, until the probe would be due
 * again and another caller is asked to send it. The descriptors are held during the call.
 */
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/security.h>
#include <linux/uaccess.h>

#include "blk-linnos-query.h"

static_assert(BLK_EXPECT_DRIVES_MAX <= BITS_PER_LONG);

static int linnos_may_query(struct file *file)
{
	if (!file || !(file->f_mode & FMODE_READ))
		return -EBADF;
	if (!S_ISBLK(file->f_mapping->host->i_mode))
		return -ENOTBLK;
#ifdef MODULE
	/* security_file_permission() is not exported to modules: only open() checks */
	return 0;
#else
	return security_file_permission(file, MAY_READ);
#endif
}

/* Query the drives that @files hold open. Return a bitmap of the best ones. */
static unsigned long linnos_query_drives(const struct fd *files,
					 struct blk_expect_drive *drives,
					 const struct blk_expect *request)
{
	enum blk_linnos_expected answers[BLK_EXPECT_DRIVES_MAX];
	bool will_send = !(request->flags & BLK_EXPECT_QUERY_ONLY);
	u64 now_ns = ktime_get_ns();
	unsigned int i;

	for (i = 0; i < request->n_drives; i++) {
		struct file *file = fd_file(files[i]);
		sector_t sector = LINNOS_SECTOR_UNKNOWN;

		if (request->flags & BLK_EXPECT_HAS_PAGE)
			sector = (sector_t)drives[i].page
				 << (12 - SECTOR_SHIFT);
		answers[i] = blk_linnos_query(I_BDEV(file->f_mapping->host),
					      sector, request->bytes, now_ns,
					      will_send, &drives[i]);
		/* this read will probe this drive, and cannot probe others, too */
		if (answers[i] == BLK_LINNOS_PROBE)
			will_send = false;
	}
	return blk_linnos_best(answers, request->n_drives);
}

/* BLKEXPECT. @may_read: the device that the ioctl is called on is open for reading. */
int blk_linnos_ioctl(bool may_read, struct blk_expect __user *user)
{
	struct blk_expect_drive drives[BLK_EXPECT_DRIVES_MAX];
	struct fd files[BLK_EXPECT_DRIVES_MAX];
	unsigned int n_files = 0;
	struct blk_expect request;
	size_t bytes;
	int ret = 0;

	if (!may_read)
		return -EBADF;
	if (copy_from_user(&request, user, sizeof(request)))
		return -EFAULT;
	if (request.flags & ~(BLK_EXPECT_QUERY_ONLY | BLK_EXPECT_HAS_PAGE) ||
	    !request.bytes || !request.n_drives ||
	    request.n_drives > BLK_EXPECT_DRIVES_MAX)
		return -EINVAL;
	bytes = request.n_drives * sizeof(*drives);
	if (copy_from_user(drives, user->drives, bytes))
		return -EFAULT;

	while (n_files < request.n_drives && !ret) {
		files[n_files] = fdget(drives[n_files].fd);
		ret = linnos_may_query(fd_file(files[n_files]));
		n_files++;
	}
	if (!ret)
		request.best = linnos_query_drives(files, drives, &request);
	while (n_files--)
		fdput(files[n_files]);
	if (ret)
		return ret;
	if (copy_to_user(user->drives, drives, bytes) ||
	    put_user(request.best, &user->best))
		return -EFAULT;
	return 0;
}
