/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * LinnOS as a module: differences between kernel versions since 6.1.
 */
#ifndef _LINNOS_VERSIONS_H
#define _LINNOS_VERSIONS_H

#include <linux/blkdev.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/version.h>

/* Available since 6.12. */
#ifndef fd_file
#define fd_file(f) ((f).file)
#endif

/* True if the kernel has the trace point block_io_start. */
#define LINNOS_HAS_IO_START (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0))

/* The parameters of &class_interface.remove_dev. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#define LINNOS_OF_CLASS(dev) struct device *dev
#else
#define LINNOS_OF_CLASS(dev) struct device *dev, struct class_interface *of
#endif

/* Open a block device for a short time. @opened is to be passed to linnos_close_bdev(). */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
typedef struct file *linnos_opened_t;

static inline struct block_device *linnos_open_bdev(const char *path,
						    linnos_opened_t *opened)
{
	*opened = bdev_file_open_by_path(path, BLK_OPEN_READ, NULL, NULL);
	return IS_ERR(*opened) ? ERR_CAST(*opened) : file_bdev(*opened);
}

static inline void linnos_close_bdev(linnos_opened_t opened)
{
	fput(opened);
}
#else
typedef struct block_device *linnos_opened_t;

static inline struct block_device *linnos_open_bdev(const char *path,
						    linnos_opened_t *opened)
{
	*opened = blkdev_get_by_path(path, FMODE_READ, NULL);
	return *opened;
}

static inline void linnos_close_bdev(linnos_opened_t opened)
{
	blkdev_put(opened, FMODE_READ);
}
#endif

#endif /* _LINNOS_VERSIONS_H */
